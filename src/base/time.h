#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

/* time: moments are int64_t milliseconds since 1970 UTC (`now_ms`), handed in by the shell: nothing
 * below src/tool reads a clock. 0 means "no such moment". */
#define TIME_TEXT_BYTES 32

/* "2026-11-15T02:03:04Z"; the form with microseconds is what Lease and MicroTime fields use.
 * Returns the text in `out`. Moments outside the years 1..9999 are clamped. */
struct str time_format(int64_t ms, char out[static TIME_TEXT_BYTES]);
struct str time_format_micro(int64_t ms, char out[static TIME_TEXT_BYTES]);
struct str time_text(struct arena *arena, int64_t ms);
/* RFC 3339 with any number of fraction digits and any offset. */
bool time_parse(struct str text, int64_t *ret_ms);

/* An age as kubectl prints it: 45s, 5m30s, 3h, 2d4h, 400d. */
struct str time_age(struct arena *arena, int64_t duration_ms);
/* A Go duration: "1h30m", "300ms", "1.5s"; bare numbers are refused. */
bool time_parse_duration(struct str text, int64_t *ret_ms);
