#include "tool/log.h"

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

static const char *const level_names[] = {
    [LEVEL_ERROR] = "error",
    [LEVEL_WARN] = "warn",
    [LEVEL_INFO] = "info",
    [LEVEL_DEBUG] = "debug",
};

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

void log_format(struct buf *buf,
                int64_t now_ms,
                enum log_level level,
                const char *event,
                const struct log_field *fields)
{
    char moment[TIME_TEXT_BYTES];
    struct str text = time_format(now_ms, moment);

    /* RFC 3339 to the millisecond: seconds without their Z, then the rest. */
    buf_addf(buf, "time=" STR_FMT ".%03dZ level=%s event=%s", STR_ARG(str_sub(text, 0, 19)),
             (int)(now_ms % 1000), level_names[level], event);
    for (const struct log_field *field = fields; field && field->key; field++) {
        buf_addf(buf, " %s=", field->key);
        if (str_is_set(field->text))
            add_value(buf, str_sub(field->text, 0, LOG_VALUE_BYTES_MAX));
        else
            buf_addf(buf, "%lld", (long long)field->number);
    }
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
    log_format(&buf, clock_now_ms(), level, event, fields);
    if (dropped > 0) {
        buf.len--; /* its newline */
        buf_addf(&buf, " repeated=%lld\n", (long long)dropped);
    }

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
    for (size_t i = 0; i < COUNT_OF(level_names); i++) {
        if (str_is(text, level_names[i])) {
            *ret = (enum log_level)i;
            return true;
        }
    }
    return false;
}
