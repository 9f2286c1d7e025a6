/* The first real file replaces this one. */
extern int control_placeholder_;
