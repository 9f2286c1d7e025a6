#pragma once

#include "base/str.h"
#include "page/session.h"

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;
struct http_exchange;
struct queue_item;

/* page_parts: what the page of `muster up` (page.c) and that of the operator (src/portal) share: the
 * answers that do not depend on where the API is. */

/* What protects an answer. `document`: of a file of the page; else of data, which does nothing when
 * it is opened as a document. */
void page_headers(struct http_exchange *x, bool document);
/* A file of the page; index.html for the addresses of views. False: there is none, nothing is
 * answered. */
bool page_file_send(struct http_exchange *x);
/* Id, key or code of struct sessions. False: err says why there is none. */
bool page_secret_draw(char out[static SESSION_SECRET_BYTES + 1], struct err *err);
/* The cookie of a session; an empty value takes it away. */
void page_cookie_set(struct http_exchange *x, const char *name, const char *value, bool secure);

/* A tab that has been told something is told the next change after this time, with all others that
 * came meanwhile: a change that comes alone is told at once, and a hundred a second cost twenty
 * packets. Text that waits in its connection is a quarter of what a watch of the API may have. */
#define PAGE_PACE_MS           50
#define PAGE_PENDING_BYTES_MAX ((size_t)64 << 10)

/* Lines of the change stream, as page_stream.c describes them: a queue_write_fn, whose `user` is a
 * struct page_lines, and a line with words. */
void page_line_write(void *user, struct buf *buf, struct queue_item *item);
void page_line_tell(struct http_exchange *x, size_t number, const char *word, struct str text);
