/* The first real file replaces this one. */
extern int cache_placeholder_;
