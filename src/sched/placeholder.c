/* The first real file replaces this one. */
extern int sched_placeholder_;
