#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct json;

/* One case either passes, or prints a line that says what differs and returns false. */
bool run_scenario(struct arena *arena, const struct json *scenario, uint64_t quirks);
bool run_unit(struct arena *arena, const struct json *unit);
bool run_claim_unit(struct arena *arena, const struct json *unit);
bool run_grouping(struct arena *arena, const struct json *scenario);
/* Whether a case says nothing but what this program tries; else it differs() or is left out. */
bool scenario_is_known(const struct json *scenario);
bool unit_is_known(const struct json *unit);
bool grouping_is_known(const struct json *scenario);
/* The case asks for something that is not compared: unless it fails otherwise it counts as skipped,
 * not as passed. */
void leave_out(const struct json *test, const char *fmt, ...) _printf_(2, 3);
/* Prints "id: ..." once a case fails; returns false. */
bool differs(const struct json *test, const char *fmt, ...) _printf_(2, 3);
