#include "api/object.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_names.h"
#include "base/str.h"
#include "control/core/action.h"
#include "control/core/memory.h"
#include "control/job/job.h"
#include "control/job/job_engine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the engine remembers, in status and in the annotation of control/core/memory.h: the same
 * members in both, but for words, which the annotation has only where the status loses them. */

/* Always written; a status without one of them was pruned. */
static const char *const marks[] = {"phase", "generation", "restarts", NULL};
/* Of these no one goes back in the life of a job. */
static const char *const counters[] = {"generation", "restarts", "preemptions", NULL};

static const struct json *engine_part(const struct job_kind *kind, const struct json *status)
{
    return kind->engine ? json_get(status, kind->engine) : status;
}

static bool is_final(const struct json *books)
{
    return job_phase_is_final(job_phase_parse(json_str(json_get(books, "phase"))));
}

/* Whether the memory knows of something that the status does not. */
static bool is_ahead(const struct json *memory, const struct json *books)
{
    if (memory_lacks(books, marks))
        return true;
    if (is_final(memory) != is_final(books))
        return is_final(memory);
    for (size_t i = 0; counters[i]; i++) {
        int64_t mine = json_i64_or(json_get(memory, counters[i]), 0);
        int64_t other = json_i64_or(json_get(books, counters[i]), 0);

        if (mine != other)
            return mine > other;
    }
    return false;
}

static bool is_of_kind(const struct job_kind *kind, struct str member)
{
    for (size_t i = 0; kind->remembers && kind->remembers[i]; i++)
        if (str_is(member, kind->remembers[i]))
            return true;
    return false;
}

static void overlay(const struct job_kind *kind, struct job_memory *ret, struct arena *arena)
{
    bool ahead = is_ahead(ret->before, engine_part(kind, ret->status));
    struct json *known = ret->status ? json_clone(arena, ret->status) : json_new_object(arena);
    struct json *part = kind->engine ? json_make_path(arena, known, kind->engine) : known;
    _cleanup_(json_names_done) struct json_names of_known = {.object = known};
    _cleanup_(json_names_done) struct json_names of_part = {.object = part};

    JSON_FOREACH(ret->before, member) {
        struct str key = json_key(member);
        bool of_kind = is_of_kind(kind, key);

        if (str_is(key, MEMORY_FOREIGN) ||
            (of_kind ? json_names_get(&of_known, key) != NULL : !ahead))
            continue;
        (void)json_names_put(of_kind || part == known ? &of_known : &of_part, key,
                             json_clone(arena, member));
    }
    ret->known = known;
}

struct job_memory job_recall(const struct job_kind *kind,
                             const struct object *object,
                             struct arena *arena)
{
    struct job_memory ret = {.status = json_get(object_json(object, arena), "status"),
                             .before = memory_read(object, arena)};
    bool pruned = memory_lacks(engine_part(kind, ret.status), marks);

    ret.known = ret.status;
    ret.foreign = ret.before && pruned;
    ret.suspect = json_count(ret.status) && pruned;
    if (ret.before)
        overlay(kind, &ret, arena);
    return ret;
}

/* Whether there is anything that must not be forgotten. Where the status keeps it all, that is what
 * can not be counted again: the counters, and that the job is over. A phase that comes and goes is
 * not worth a write of the object. Where the status loses it, everything is. */
static bool is_needed(const struct job_kind *kind,
                      const struct job_memory *memory,
                      const struct job_state *state,
                      const struct json *now)
{
    bool started = state->run_start_ms || state->generation || job_phase_is_final(state->phase);

    if (memory->foreign || memory->suspect ||
        (started && memory_lacks(engine_part(kind, memory->status), marks)))
        return true;
    if (is_final(now) != is_final(memory->before))
        return true;
    for (size_t i = 0; counters[i]; i++)
        if (json_i64_or(json_get(now, counters[i]), 0) !=
            json_i64_or(json_get(memory->before, counters[i]), 0))
            return true;
    return false;
}

bool job_remember(const struct job_kind *kind,
                  const struct job_memory *memory,
                  const struct job_state *state,
                  const struct json *status,
                  const struct object *object,
                  struct actions *actions)
{
    struct arena *arena = actions->arena;
    struct json *now = json_new_object(arena);

    job_state_write(state, now, arena);
    if (!is_needed(kind, memory, state, now))
        return false;
    json_remove(json_get(now, "failure"), STR("message"));
    for (size_t i = 0; kind->remembers && kind->remembers[i]; i++) {
        const struct json *value = json_get(status, kind->remembers[i]);

        if (value)
            json_set(now, str_from(kind->remembers[i]), json_clone(arena, value));
    }
    if (memory->foreign) {
        json_add_bool(arena, now, MEMORY_FOREIGN, true);
    } else {
        json_remove(now, STR("message"));
        json_remove(now, STR("abnormalPods"));
    }
    return memory_write(actions, object, memory->before, now);
}
