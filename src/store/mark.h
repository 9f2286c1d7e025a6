#pragma once

#include <stdint.h>

struct err;

/* mark: how far the store had come when it last acknowledged a write, in a small file beside it
 * ("<path>-acknowledged"). It is written behind each commit and not synced: it is never ahead of what
 * was on the disk, and what a killed process wrote is not lost. A store that is behind its mark has
 * lost what it had acknowledged: its log was damaged, or another file took its place. */
#define MARK_SUFFIX "-acknowledged"

struct mark {
    int fd; /* -1: none */
};

/* The revision that was acknowledged; 0: nothing is known. */
uint64_t mark_read(const char *store_path);
/* From now on mark_set() writes there. */
int mark_open(struct mark *mark, const char *store_path, struct err *err);
void mark_set(struct mark *mark, uint64_t revision);
void mark_close(struct mark *mark);
