#pragma once

#include "base/str.h"

#include <stddef.h>

/* file: what the page consists of: the files of web/, which the build puts into the program
 * (tools/embed_page.c). */
struct page_file {
    const char *name; /* in web/: "app.js" */
    const char *type; /* Content-Type */
    const char *tag;  /* ETag: changes with the bytes */
    const char *bytes;
    size_t len;
};

/* All that a first look at the page may load: on a line of 10 Mbit/s, an eighth of a second. */
#define PAGE_BYTES_MAX ((size_t)150 << 10)

extern const struct page_file page_files[];
extern const size_t page_file_count;

/* NULL: there is none of that name. */
const struct page_file *page_file_find(struct str name);
