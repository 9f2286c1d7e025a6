#pragma once

struct grouping;
struct json;
struct queue_around;

/* longest: a group runs no longer than its queues and its person may (api/queue_rules.h). That is read
 * when the group is made: one that is there keeps what it got (`before`, its spec; NULL: it is new), for
 * an end that comes sooner than was said would take what was computed; later it may come. */
void grouping_shorten(const struct queue_around *around,
                      const struct json *before,
                      struct grouping *grouping);
