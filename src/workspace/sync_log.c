#include "workspace/sync_log.h"

#include "base/str.h"
#include "base/time.h"
#include "workspace/manifest.h"

#include <stdarg.h>
#include <stdio.h>

#define LINE_BYTES 320

void sync_log_say(const struct sync_log *log, int64_t now_ms, const char *fmt, ...)
{
    char when[TIME_TEXT_BYTES];
    char words[LINE_BYTES];
    char line[LINE_BYTES + TIME_TEXT_BYTES];
    va_list args;

    if (!log->note)
        return;
    va_start(args, fmt);
    (void)vsnprintf(words, sizeof(words), fmt, args);
    va_end(args);
    (void)snprintf(line, sizeof(line), STR_FMT " %s", STR_ARG(time_format(now_ms, when)), words);
    log->note(log->user, line);
}

void sync_log_commit(const struct sync_log *log,
                     int64_t now_ms,
                     const struct manifest *now,
                     const char *by)
{
    char hex[HASH_HEX_BYTES];
    char who[SYNC_BY_BYTES];

    (void)snprintf(who, sizeof(who), "%s", by);
    for (char *c = who; *c; c++)
        *c = *c > ' ' && *c < 127 ? *c : '_'; /* no line of its own, no escapes */
    sync_log_say(log, now_ms, "revision %.12s%s%s: %zu %s, %llu bytes",
                 hash_hex(now->revision, hex), *who ? " from " : "", who, now->entries.count,
                 now->entries.count == 1 ? "entry" : "entries", (unsigned long long)now->bytes);
}

void sync_log_worker(const struct sync_log *log, int64_t now_ms, uint64_t rank, struct hash has)
{
    char hex[HASH_HEX_BYTES];

    sync_log_say(log, now_ms, "worker %llu has revision %.12s", (unsigned long long)rank,
                 hash_hex(has, hex));
}
