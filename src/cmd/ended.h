#pragma once

struct api;
struct ended;
struct log;

/* ended: writes a line about every job that ends to the history of the data folder
 * (plugin/past.h). A job that ended while nobody looked is written at the next start. */
struct ended *ended_start(struct api *api, const char *path, const struct log *log);
/* NULL is fine. */
void ended_stop(struct ended *ended);
