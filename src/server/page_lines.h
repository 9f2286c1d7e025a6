#pragma once

#include "base/buf.h"
#include "base/str.h"

#include <stddef.h>

struct object;

/* page_lines: what the page is told of an object, made once for all tabs. A change goes to every tab
 * within PAGE_PACE_MS, so the last few are enough: 128 are 50 ms of 2,500 changes a second. What is
 * large is made anew for each tab instead of kept: 128 objects of 32 KiB and as many texts are 8 MiB
 * at the very most, some 500 KiB of usual pods.
 *
 * Each keeps a reference of its object. Belongs to the loop's thread. */
#define PAGE_LINES_MAX     128
#define PAGE_LINE_KEPT_MAX ((size_t)32 << 10) /* bytes of an object's text */

struct page_line {
    struct object *object; /* NULL: none yet */
    struct buf text;
};

struct page_lines {
    struct page_line items[PAGE_LINES_MAX];
    size_t made; /* how often a text was made: for tests */
};

/* The object's JSON as the page needs it, appended to `out`. */
void page_lines_add(struct page_lines *lines, const struct object *object, struct buf *out);
void page_lines_done(struct page_lines *lines);
