#pragma once

#include "base/buf.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

/* term: words for a person, on a terminal or not.
 *
 * On a terminal there are colours, a progress bar and lines that change in place; anywhere else
 * (a pipe, a file, CI) the same calls give plain text that reads well in a log: no escapes, no
 * carriage returns, each line once. NO_COLOR (set to anything but nothing) and TERM=dumb switch the
 * colours off. */
struct term {
    int fd;
    bool live;     /* a terminal that can move its cursor */
    bool coloured; /* live, and the user did not say NO_COLOR */
    unsigned columns;
    unsigned wraps_at; /* columns at which a terminal wraps; 0: it is none, lines may be long */
};

enum term_colour {
    COLOUR_NONE,
    COLOUR_BOLD,
    COLOUR_DIM,
    COLOUR_RED,
    COLOUR_GREEN,
    COLOUR_YELLOW,
    COLOUR_BLUE,
};

struct term term_open(int fd, char *envp[]);
/* Escape sequence that starts a colour, and the one that ends it; "" without colours. */
const char *term_colour(const struct term *term, enum term_colour colour);

/* ---- tables ---- rows of cells under headers, three blanks between columns, as kubectl prints
 *
 * On a terminal that is too narrow the gaps shrink to one blank, then the widest columns are
 * shortened, their cells ending in "..": the first one, which has the names that people type, only
 * when nothing else is left. No line wraps. */
struct table {
    struct arena *arena;
    unsigned wraps_at; /* of struct term; 0: as wide as it is */
    size_t column_count;
    VEC(struct str) cells; /* the headers first */
};

/* `headers` is NULL-terminated and borrowed. */
void table_init(struct table *table, struct arena *arena, const char *const *headers);
/* Cells are borrowed and fill row by row, left to right. */
void table_add(struct table *table, struct str cell);
/* Add all rows to `buf`. */
void table_write(struct buf *buf, const struct table *table, bool with_headers);

/* ---- progress bar ---- one line that is drawn over itself at most every PROGRESS_EVERY_MS */
#define PROGRESS_EVERY_MS 100

struct progress {
    const struct term *term;
    const char *what; /* "uploading" */
    uint64_t total;   /* bytes */
    int64_t drawn_ms; /* 0: not yet */
};

/* Draws nothing where the terminal is not live. */
void progress_update(struct progress *progress, uint64_t done, int64_t now_ms);
/* Take the bar away, so that the caller can print a sentence in its place. */
void progress_done(struct progress *progress);

/* ---- live lines ---- a block of lines that shows how things stand */
#define LIVE_LINES_MAX 64

struct live {
    const struct term *term;
    struct buf shown;   /* the block as it stands on the screen */
    size_t shown_lines; /* of it, on the screen */
};

/* Show `text` (lines ending in a newline) in place of what was shown. Where the terminal is not
 * live, only lines that were not in the last block are printed. */
void live_show(struct live *live, struct str text);
/* Leave the last block on the screen. */
void live_done(struct live *live);

/* ---- pages ---- sentences for a person; lines that a terminal would wrap are broken at blanks
 *
 * Such a line goes on below its text: where that began after two blanks or more, else where the line
 * began. A word that is too long alone, as a path, stays whole: it can be copied. */
void term_wrap(struct buf *out, struct str text, unsigned wraps_at);
/* The same, to the terminal. */
void term_page(const struct term *term, struct str text);

/* A moment as the API writes it, "2026-11-15T02:03:04Z", in the person's time zone: "...T03:03:04+01:00".
 * What is none stays as it is. */
struct str term_moment(struct arena *arena, struct str moment);
/* A sentence, with each moment in it told so. Lines of a program that stand below it stay as they are. */
struct str term_moments(struct arena *arena, struct str text);

/* 1536 as "1.5 KiB", for people. */
#define TERM_BYTES_TEXT 24
const char *term_bytes(uint64_t bytes, char out[static TERM_BYTES_TEXT]);
/* Write it all; what cannot be written is dropped. */
void term_write(const struct term *term, struct str text);
