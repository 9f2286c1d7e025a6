#include "tool/log.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "tool/clock.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

const char *const log_level_names[] = {
    [LEVEL_ERROR] = "error",
    [LEVEL_WARN] = "warn",
    [LEVEL_INFO] = "info",
    [LEVEL_DEBUG] = "debug",
    NULL,
};
const char *const log_format_names[] = {"logfmt", "json", NULL};

/* logfmt needs no quotes around what has no blank, quote, '=' or control character. */
static bool is_bare(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.p[i];

        if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c == 0x7f)
            return false;
    }
    return text.len > 0;
}

static void add_value(struct buf *buf, struct str text)
{
    if (is_bare(text))
        buf_add(buf, text);
    else
        json_write_string(buf, text);
}

/* RFC 3339 to the millisecond: seconds without their Z, then the rest. */
static void add_time(struct buf *buf, int64_t now_ms)
{
    char moment[TIME_TEXT_BYTES];

    buf_addf(buf, STR_FMT ".%03dZ", STR_ARG(str_sub(time_format(now_ms, moment), 0, 19)),
             (int)(now_ms % 1000));
}

static void format_logfmt(struct buf *buf, const struct log_line *line)
{
    buf_addf(buf, "time=");
    add_time(buf, line->now_ms);
    buf_addf(buf, " level=%s event=%s", log_level_names[line->level], line->event);
    for (const struct log_field *field = line->fields; field && field->key; field++) {
        buf_addf(buf, " %s=", field->key);
        if (str_is_set(field->text))
            add_value(buf, str_sub(field->text, 0, LOG_VALUE_BYTES_MAX));
        else
            buf_addf(buf, "%lld", (long long)field->number);
    }
    if (line->repeated > 0)
        buf_addf(buf, " repeated=%lld", (long long)line->repeated);
}

static void format_json(struct buf *buf, const struct log_line *line)
{
    _cleanup_(arena_done) struct arena arena = {0};

    buf_addf(buf, "{\"time\":\"");
    add_time(buf, line->now_ms);
    buf_addf(buf, "\",\"level\":\"%s\",\"event\":\"%s\"", log_level_names[line->level],
             line->event);
    for (const struct log_field *field = line->fields; field && field->key; field++) {
        buf_addf(buf, ",\"%s\":", field->key);
        if (str_is_set(field->text))
            json_write_string(buf, str_utf8(&arena, str_sub(field->text, 0, LOG_VALUE_BYTES_MAX)));
        else
            buf_addf(buf, "%lld", (long long)field->number);
    }
    if (line->repeated > 0)
        buf_addf(buf, ",\"repeated\":%lld", (long long)line->repeated);
    buf_addc(buf, '}');
}

void log_format(struct buf *buf, bool json, const struct log_line *line)
{
    if (json)
        format_json(buf, line);
    else
        format_logfmt(buf, line);
    buf_addc(buf, '\n');
}

bool log_repeats_pass(struct log_repeats *repeats,
                      uint64_t hash,
                      int64_t now_ms,
                      int64_t *ret_dropped)
{
    size_t i = hash % LOG_REPEATS;
    bool known = repeats->slots[i].hash == hash && repeats->slots[i].written_ms;

    if (known && now_ms - repeats->slots[i].written_ms < LOG_REPEAT_MS) {
        repeats->slots[i].dropped++;
        return false;
    }
    *ret_dropped = known ? repeats->slots[i].dropped : 0;
    repeats->slots[i].hash = hash;
    repeats->slots[i].written_ms = now_ms;
    repeats->slots[i].dropped = 0;
    return true;
}

/* What makes two lines the same trouble: the event, and the words of its error. */
static uint64_t trouble_hash(const char *event, const struct log_field *fields)
{
    uint64_t hash = str_hash(str_from(event), 0);

    for (const struct log_field *field = fields; field && field->key; field++)
        if (str_is(str_from(field->key), "error"))
            hash = str_hash(field->text, hash);
    return hash;
}

void log_write(const struct log *log,
               enum log_level level,
               const char *event,
               const struct log_field *fields)
{
    _cleanup_(buf_done) struct buf buf = {0};
    int64_t dropped = 0;

    if (!log || level > log->level)
        return;
    if (log->repeats && level <= LEVEL_WARN && log->level < LEVEL_DEBUG &&
        !log_repeats_pass(log->repeats, trouble_hash(event, fields), clock_monotonic_ms(),
                          &dropped))
        return;
    log_format(&buf, log->json, &(struct log_line){clock_now_ms(), level, event, fields, dropped});

    /* A log that cannot be written has nowhere to complain. */
    for (size_t at = 0; at < buf.len;) {
        ssize_t n = write(log->fd, buf.p + at, buf.len - at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        at += (size_t)n;
    }
}

bool log_level_parse(struct str text, enum log_level *ret)
{
    for (size_t i = 0; i < COUNT_OF(log_level_names) - 1; i++) {
        if (str_is(text, log_level_names[i])) {
            *ret = (enum log_level)i;
            return true;
        }
    }
    return false;
}
