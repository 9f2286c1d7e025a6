#pragma once

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct buf;

/* log: one line of logfmt an event, to a file descriptor (2 as a rule: stdout is data).
 *
 *     log_info(log, "pod.started", LOG_STR("pod", key), LOG_I64("pid", pid));
 *     time=2026-11-15T02:03:04.567Z level=info event=pod.started pod=default/a pid=4711
 *
 * The name of an event is a literal, `area.happened`, and never contains data: people search for
 * it. What varies are fields. Only src/cmd and loop callbacks log; code below returns an err. A log
 * is passed to all that need it; a NULL log drops everything. Each line is one write(2), so lines
 * of several processes do not mix. Values longer than LOG_VALUE_BYTES_MAX are cut.
 *
 * With `json` the same is a JSON object a line, for collectors that read no logfmt: numbers are numbers,
 * everything else is a text.
 *
 * Failures repeat: when one server is away, every watch fails, again and again.
 * With `repeats` a warning or an error whose event and error= were written less than LOG_REPEAT_MS
 * ago is only counted, whatever its other fields are; the next one that is written says how many
 * were not (repeated=). At level debug everything is written. */
#define LOG_VALUE_BYTES_MAX 4096
#define LOG_REPEAT_MS       30000
#define LOG_REPEATS         64 /* kinds of trouble that are remembered; of two in one place the later */

enum log_level {
    LEVEL_ERROR, /* something the user asked for was not done */
    LEVEL_WARN,  /* done, but someone should look */
    LEVEL_INFO,  /* what happens once a job or once a start */
    LEVEL_DEBUG, /* what happens once a request */
};
enum {
    LOG_FORMAT_LOGFMT,
    LOG_FORMAT_JSON,
};
/* As options have them; NULL-terminated. */
extern const char *const log_level_names[];
extern const char *const log_format_names[];

/* Zeroed is ready. */
struct log_repeats {
    struct {
        uint64_t hash;
        int64_t written_ms;
        int64_t dropped;
    } slots[LOG_REPEATS];
};

struct log {
    int fd;
    enum log_level level; /* what is less important is dropped */
    bool json;
    struct log_repeats *repeats; /* NULL: every line is written */
};

struct log_field {
    const char *key; /* NULL ends the list */
    struct str text; /* set: a text; else the number */
    int64_t number;
};

#define LOG_STR(key, s)      ((struct log_field){(key), log_text(s), 0})
#define LOG_C(key, c)        ((struct log_field){(key), str_from(c), 0})
#define LOG_I64(key, number) ((struct log_field){(key), STR_NONE, (number)})
#define LOG_ERR(err)         ((struct log_field){"error", str_from((err)->text), 0})

/* A text that is not set is an empty one, and no number. */
static inline struct str log_text(struct str text)
{
    return str_is_set(text) ? text : STR("");
}

#define log_error(log, event, ...) LOG_AT(log, LEVEL_ERROR, event, __VA_ARGS__)
#define log_warn(log, event, ...)  LOG_AT(log, LEVEL_WARN, event, __VA_ARGS__)
#define log_info(log, event, ...)  LOG_AT(log, LEVEL_INFO, event, __VA_ARGS__)
#define log_debug(log, event, ...) LOG_AT(log, LEVEL_DEBUG, event, __VA_ARGS__)
#define LOG_AT(log, level, event, ...) \
    log_write(log, level, "" event,    \
              (const struct log_field[]){__VA_ARGS__ __VA_OPT__(, ){NULL, {NULL, 0}, 0}})

void log_write(const struct log *log,
               enum log_level level,
               const char *event,
               const struct log_field *fields);
/* What log_write() is told, at a moment. */
struct log_line {
    int64_t now_ms;
    enum log_level level;
    const char *event;
    const struct log_field *fields;
    int64_t repeated; /* how many like it were not written; 0 is not told */
};
/* The line that log_write() writes, newline included. */
void log_format(struct buf *buf, bool json, const struct log_line *line);
/* Whether a trouble is to be written at this moment; *ret_dropped: how many like it were not. */
bool log_repeats_pass(struct log_repeats *repeats,
                      uint64_t hash,
                      int64_t now_ms,
                      int64_t *ret_dropped);
/* "error", "warn", "info", "debug": false and *ret untouched for anything else. */
bool log_level_parse(struct str text, enum log_level *ret);
