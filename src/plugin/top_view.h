#pragma once

#include "base/str.h"
#include "plugin/view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct buf;

/* top_view: the panes of `kubectl torchrun top` and what keys do to them. No I/O: what is on the
 * screen is a function of objects, keys and `now`. */
enum top_pane {
    TOP_JOBS,
    TOP_QUEUES,
    TOP_GPUS,
    TOP_PANES,
};

#define TOP_FILTER_MAX 64

struct top_state {
    enum top_pane pane;
    size_t chosen; /* row of those that match */
    char filter[TOP_FILTER_MAX + 1];
    size_t filter_len;
    bool typing; /* keys are the filter's */
    bool open;   /* of the chosen row; see top_open() */
    bool log;    /* and its log */
};

struct top_objects {
    struct view_objects nodes;
    struct view_objects pods;
    struct view_objects jobs;   /* TorchrunJobs */
    struct view_objects queues; /* of the scheduler */
    struct view_objects groups; /* pod groups, for the jobs of other kinds, and for starts */
    int64_t now_ms;
};

/* A row of a pane: a line of text, and what it is about. */
struct top_row {
    struct str line;
    struct str ns;   /* of a job */
    struct str name; /* of a job, queue or node */
    struct str uid;  /* of a job: its owner's, and its pods' owner's */
    struct str group;
    struct str queue; /* of a job */
};
struct top_rows {
    struct str head;
    struct top_row *items;
    size_t count;
};

/* Rows of the pane that match the filter. */
void top_rows(struct arena *arena,
              const struct top_objects *objects,
              const struct top_state *state,
              struct top_rows *ret);
/* Takes the next key off what a terminal sent: a byte, or a sequence of several, of which only the
 * arrows mean something. '\0': one that means nothing. */
#define TOP_KEY_UP   '\020' /* Ctrl-P and Ctrl-N do the same */
#define TOP_KEY_DOWN '\016'
char top_key_cut(struct str *bytes);
/* One key. False: the person wants to leave. `rows` is how many the pane has. */
bool top_key(struct top_state *state, char key, size_t rows);
/* The whole screen of that many lines, the chosen row in reverse. `detail` is shown instead of the
 * rows where a row is open. Nothing of the cluster's text moves the cursor or changes colours. */
void top_screen(struct buf *out,
                const struct top_state *state,
                const struct top_rows *rows,
                struct str detail,
                size_t height,
                size_t width);
/* Pods of a job. */
struct view_objects top_pods(struct arena *arena,
                             const struct top_objects *objects,
                             const struct top_row *row);
/* What is known of a row: of a job its state and pods, of a queue its shares, of a node its pods. */
void top_open(struct buf *out,
              struct arena *arena,
              const struct top_objects *objects,
              const struct top_state *state,
              const struct top_row *row);
