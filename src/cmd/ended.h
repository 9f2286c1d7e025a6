#pragma once

struct api;
struct buf;
struct ended;
struct log;
struct scheduler;

/* ended: writes a line about every job that ends to the history of the data folder
 * (plugin/past.h). A job that ended while nobody looked is written at the next start. */
struct ended *ended_start(struct api *api, const char *path, const struct log *log);
/* Adds all lines that are kept. */
void ended_tell(const struct ended *ended, struct buf *out);
/* Tells the scheduler how long those jobs ran, so that it can say when others start. */
void ended_teach(struct scheduler *scheduler, const char *path);
/* NULL is fine. */
void ended_stop(struct ended *ended);
