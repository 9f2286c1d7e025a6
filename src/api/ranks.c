#include "api/ranks.h"

#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pods may write what they like: no sum or difference of such numbers overflows. The end of year 9999,
 * which is later than anything here. */
#define NUMBER_MAX 253402300800000

static const char *const act_words[] = {
#define RANK_ACT_WORD(name, word) [RANK_##name] = (word),
    RANK_ACTS(RANK_ACT_WORD)
#undef RANK_ACT_WORD
};

static const char *const phase_words[] = {
#define RANK_PHASE_WORD(name, word) [RANK_PHASE_##name] = (word),
    RANK_PHASES(RANK_PHASE_WORD)
#undef RANK_PHASE_WORD
};

const char *rank_act_word(enum rank_act act)
{
    return act_words[act];
}

const char *rank_phase_word(enum rank_phase phase)
{
    return phase_words[phase];
}

/* Members of a report that are left out when they are 0. */
#define RUN_MEMBERS(X)      \
    X("began", began_ms)    \
    X("first", first_ms)    \
    X("saving", saving_ms)  \
    X("mark", mark)         \
    X("resumed", resumed)   \
    X("loaded", loaded_ms)  \
    X("late", late_ms)      \
    X("own", own_us)        \
    X("part", own_part)     \
    X("spread", own_spread) \
    X("world", world)       \
    X("passes", passes)     \
    X("lined", line_ms)     \
    X("seen", seen_ms)      \
    X("gpu", gpu)

static struct json *early_list(struct arena *arena, const struct rank_report *r)
{
    struct json *list = json_new_array(arena);

    for (size_t i = 0; i < r->early_count; i++) {
        json_push(list, json_new_i64(arena, r->early[i].steps));
        json_push(list, json_new_i64(arena, r->early[i].ms));
    }
    return list;
}

struct str ranks_text(struct arena *arena, const struct rank_report *reports, size_t count)
{
    struct json *list = json_new_array(arena);

    for (size_t i = 0; i < count && i < RANKS_MAX; i++) {
        const struct rank_report *r = &reports[i];

        struct json *report =
            json_make(arena,
                      "{rank: $, pid: $, act: $, since: $, phase: $, wait: $?, steps: $, "
                      "last: $, step: $, quiet: $}",
                      r->rank, r->pid, act_words[r->act], r->since_ms, (int64_t)r->phase, r->wait,
                      r->steps, r->last_ms, r->step_ms, r->quiet_ms);
#define RUN_WRITE(key, member) \
    if (r->member)             \
        json_add_i64(arena, report, key, r->member);
        RUN_MEMBERS(RUN_WRITE)
#undef RUN_WRITE
        if (r->line.len)
            json_add_str(arena, report, "line", r->line);
        if (r->early_count)
            json_set(report, STR("early"), early_list(arena, r));
        json_push(list, report);
    }
    return json_text(arena, list);
}

struct str ranks_unwatched_text(struct arena *arena, const char *why)
{
    return json_text(arena, json_make(arena, "[{unwatched: $}]", why));
}

struct str ranks_unwatched(struct arena *arena, struct str text)
{
    struct json *list = NULL;

    if (!text.len || json_parse(arena, text, &list, NULL) < 0)
        return STR_NONE;
    return json_str(json_get(json_index(list, 0), "unwatched"));
}

static bool act_parse(struct str word, enum rank_act *ret)
{
    for (int i = 0; i < RANK_ACT_COUNT; i++)
        if (str_is(word, act_words[i])) {
            *ret = (enum rank_act)i;
            return true;
        }
    return false;
}

static int64_t number(const struct json *report, const char *key)
{
    int64_t value = json_i64_or(json_get(report, key), 0);

    return value < 0 ? 0 : value > NUMBER_MAX ? NUMBER_MAX : value;
}

/* Pairs of steps and moments, both growing; what comes after one that does not is left out. */
static void early_parse(const struct json *list, struct rank_report *r)
{
    int64_t steps = -1;

    JSON_FOREACH(list, item) {
        int64_t value = json_i64_or(item, -1);
        const struct rank_early *last = r->early_count ? &r->early[r->early_count - 1] : NULL;

        if (value < 0 || value > NUMBER_MAX || r->early_count == RANKS_EARLY_MAX)
            return;
        if (steps < 0) {
            steps = value;
            continue;
        }
        if (last && (steps <= last->steps || value < last->ms))
            return;
        r->early[r->early_count++] = (struct rank_early){steps, value};
        steps = -1;
    }
}

size_t ranks_parse(struct arena *arena, struct str text, struct rank_report *ret)
{
    struct json *list = NULL;
    size_t count = 0;

    if (!text.len || json_parse(arena, text, &list, NULL) < 0)
        return 0;
    JSON_FOREACH(list, item) {
        int64_t phase = number(item, "phase");
        struct rank_report r = {
            .rank = json_i64_or(json_get(item, "rank"), -1),
            .pid = number(item, "pid"),
            .since_ms = number(item, "since"),
            .wait = str_sub(json_str(json_get(item, "wait")), 0, RANKS_WAIT_BYTES - 1),
            .line = str_sub(json_str(json_get(item, "line")), 0, RANKS_LINE_BYTES - 1),
            .steps = number(item, "steps"),
            .last_ms = number(item, "last"),
            .step_ms = number(item, "step"),
            .quiet_ms = number(item, "quiet"),
#define RUN_READ(key, member) .member = number(item, key),
            RUN_MEMBERS(RUN_READ)
#undef RUN_READ
        };

        if (count == RANKS_MAX || r.rank < 0 || phase >= RANK_PHASE_COUNT ||
            !act_parse(json_str(json_get(item, "act")), &r.act))
            continue;
        r.phase = (enum rank_phase)phase;
        early_parse(json_get(item, "early"), &r);
        ret[count++] = r;
    }
    return count;
}
