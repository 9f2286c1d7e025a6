#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct json;
struct sched;
struct sched_pod;
struct queue;

/* One case either passes, or prints a line that says what differs and returns false. */
bool run_scenario(struct arena *arena, const struct json *scenario, uint64_t quirks);
bool run_unit(struct arena *arena, const struct json *unit);
bool run_unit_017(struct arena *arena, const struct json *unit, struct str function);
/* What a queue of a unit has, may have and was given. */
void unit_quota(const struct json *from, struct queue *ret);
/* The Karta that a case without one was recorded with; NULL: not known. */
const struct json *recorded_karta(struct arena *arena, const struct json *scenario);
bool run_claim_unit(struct arena *arena, const struct json *unit);
bool run_numa_unit(struct arena *arena, const struct json *unit);
bool run_grouping(struct arena *arena, const struct json *scenario, uint64_t quirks);
/* NUMA zones of a scenario: of its nodes and pods, and what is expected of both. */
void numa_put_node(struct arena *arena, struct sched *sched, const struct json *node);
void numa_fill_pod(struct arena *arena, const struct json *task, struct sched_pod *pod);
bool numa_match_pod(const struct json *test,
                    struct sched *sched,
                    struct str ns,
                    struct str name,
                    const struct json *wanted);
bool numa_match_node(const struct json *test,
                     struct sched *sched,
                     struct str name,
                     const struct json *wanted);
/* Whether a case says nothing but what this program tries; else it differs() or is left out. */
bool scenario_is_known(const struct json *scenario);
bool unit_is_known(const struct json *unit);
bool grouping_is_known(const struct json *scenario);
/* The case asks for something that is not compared: unless it fails otherwise it counts as skipped,
 * not as passed. */
void leave_out(const struct json *test, const char *fmt, ...) _printf_(2, 3);
/* Whether the case was taken from KAI 0.17; the others are of about 0.13. */
bool case_is_017(const struct json *test);
/* Prints "id: ..." once a case fails; returns false. */
bool differs(const struct json *test, const char *fmt, ...) _printf_(2, 3);
