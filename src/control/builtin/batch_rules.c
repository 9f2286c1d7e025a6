#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "control/builtin/batch_job.h"
#include "control/core/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The rules a Job may carry, and the text form of its indexes. */

/* ---- indexes ---- */

struct str batch_indexes_text(struct arena *arena, const bool *done, size_t count)
{
    _cleanup_(buf_done) struct buf text = {0};

    for (size_t i = 0; i < count; i++) {
        size_t last = i;

        if (!done[i])
            continue;
        while (last + 1 < count && done[last + 1])
            last++;
        buf_addf(&text, "%s%zu", text.len ? "," : "", i);
        if (last > i)
            buf_addf(&text, "%c%zu", last == i + 1 ? ',' : '-', last);
        i = last;
    }
    return str_dup(arena, buf_str(&text));
}

void batch_indexes_read(struct str text, bool *done, size_t count)
{
    struct str part;

    while (str_cut(&text, ',', &part)) {
        struct str rest = part;
        struct str first_text;
        uint64_t first = 0;
        uint64_t last = 0;

        if (!str_cut(&rest, '-', &first_text) || !str_to_u64(first_text, &first))
            continue;
        if (!rest.p)
            last = first;
        else if (!str_to_u64(rest, &last))
            continue;
        for (uint64_t i = first; i <= last && i < count; i++)
            done[i] = true;
    }
}

/* ---- podFailurePolicy ---- */

static bool value_listed(const struct json *values, int64_t code)
{
    JSON_FOREACH(values, value)
        if (json_i64_or(value, -1) == code)
            return true;
    return false;
}

/* Whether a container ended as the rule says. */
static bool exit_matches(const struct json *rule, const struct batch_pod *pod, int64_t *ret_code)
{
    struct str name = json_str(json_get(rule, "containerName"));
    bool in = str_is(json_str(json_get(rule, "operator")), "In");
    static const char *const lists[] = {"status.containerStatuses", "status.initContainerStatuses"};

    for (size_t i = 0; i < 2; i++)
        JSON_FOREACH(json_at(pod->tree, lists[i]), status) {
            int64_t code = json_i64_or(json_at(status, "state.terminated.exitCode"), 0);

            if (name.len && !str_eq(json_str(json_get(status, "name")), name))
                continue;
            if (code != 0 && value_listed(json_get(rule, "values"), code) == in) {
                *ret_code = code;
                return true;
            }
        }
    return false;
}

static bool conditions_match(const struct json *patterns, const struct batch_pod *pod)
{
    JSON_FOREACH(patterns, pattern) {
        struct str type = json_str(json_get(pattern, "type"));
        struct str status = json_str(json_get(pattern, "status"));

        JSON_FOREACH(json_at(pod->tree, "status.conditions"), condition)
            if (str_eq(json_str(json_get(condition, "type")), type) &&
                str_eq(json_str(json_get(condition, "status")), status.len ? status : STR("True")))
                return true;
    }
    return false;
}

enum batch_verdict batch_failure_verdict(const struct json *policy,
                                         const struct batch_pod *pod,
                                         struct arena *arena,
                                         struct str *ret_words)
{
    size_t number = 0;

    JSON_FOREACH(json_get(policy, "rules"), rule) {
        const struct json *exits = json_get(rule, "onExitCodes");
        struct str action = json_str(json_get(rule, "action"));
        int64_t code = 0;
        bool matches = exits ? exit_matches(exits, pod, &code)
                             : conditions_match(json_get(rule, "onPodConditions"), pod);

        number++;
        if (!matches)
            continue;
        if (str_is(action, "Ignore"))
            return BATCH_IGNORE;
        if (str_is(action, "FailIndex"))
            return BATCH_FAIL_INDEX;
        if (str_is(action, "FailJob")) {
            *ret_words = exits ? str_printf(arena,
                                            "pod " STR_FMT " ended with exit code %lld, which rule "
                                            "%zu of podFailurePolicy makes final",
                                            STR_ARG(pod->object->name), (long long)code, number)
                               : str_printf(arena,
                                            "pod " STR_FMT " has a condition that rule %zu of "
                                            "podFailurePolicy makes final",
                                            STR_ARG(pod->object->name), number);
            return BATCH_FAIL_JOB;
        }
        return BATCH_COUNT;
    }
    return BATCH_COUNT;
}

/* ---- successPolicy ---- */

bool batch_success(const struct json *policy, const bool *completed, size_t count)
{
    _cleanup_(arena_done) struct arena arena = {0};

    JSON_FOREACH(json_get(policy, "rules"), rule) {
        struct str indexes = json_str(json_get(rule, "succeededIndexes"));
        bool *wanted = ARENA_ARRAY(&arena, bool, count + 1);
        int64_t needed = 0;
        int64_t have = 0;

        if (indexes.len)
            batch_indexes_read(indexes, wanted, count);
        for (size_t i = 0; i < count; i++) {
            if (indexes.len && !wanted[i])
                continue;
            needed++;
            have += completed[i];
        }
        if (have >= json_i64_or(json_get(rule, "succeededCount"), needed))
            return true;
    }
    return false;
}
