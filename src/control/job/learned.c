#include "control/job/learned.h"

#include "api/object.h"
#include "api/ranks.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "control/core/action.h"
#include "control/job/watch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A pause that is longer by a quarter, and a second, is worth a write. */
#define QUIET_PART 4
#define QUIET_MS   1000
#define QUIET_MAX  (24LL * 60 * 60 * 1000) /* anybody may edit an annotation */

#define HANG_MEMBERS(X) \
    X("rank", rank)     \
    X("act", act)       \
    X("phase", phase)   \
    X("steps", steps)   \
    X("at", at)         \
    X("began", began)

static int64_t number(const struct json *from, const char *key)
{
    return json_i64_or(json_get(from, key), 0);
}

struct learned learned_read(const struct object *job, struct arena *arena)
{
    struct learned ret = {0};
    struct json *known = NULL;
    struct str text = object_annotation(job, LEARNED_ANNOTATION);

    if (!text.len || json_parse(arena, text, &known, NULL) < 0)
        return ret;
    int64_t quiet_ms = number(known, "quiet");
    ret.quiet_ms = quiet_ms < 0 ? 0 : quiet_ms < QUIET_MAX ? quiet_ms : QUIET_MAX;
    ret.told_word = number(json_get(known, "told"), "word");
    ret.told_rank = number(json_get(known, "told"), "rank");
    ret.told_ms = number(json_get(known, "told"), "ms");
    JSON_FOREACH(json_get(known, "hangs"), hang)
        if (ret.count < LEARNED_HANGS_MAX)
            ret.hangs[ret.count++] = (struct learned_hang){
#define HANG_READ(key, member) .member = number(hang, key),
                HANG_MEMBERS(HANG_READ)
#undef HANG_READ
            };
    return ret;
}

void learned_pauses(struct learned *learned, struct watch_ranks *ranks)
{
    int64_t longest = learned->quiet_ms;

    for (size_t i = 0; i < ranks->count; i++) {
        struct rank_report *report = &ranks->items[i].report;

        if (report->quiet_ms > longest && report->quiet_ms <= QUIET_MAX)
            longest = report->quiet_ms;
        if (report->quiet_ms < learned->quiet_ms)
            report->quiet_ms = learned->quiet_ms;
    }
    if (longest > learned->quiet_ms + learned->quiet_ms / QUIET_PART + QUIET_MS) {
        learned->quiet_ms = longest;
        learned->changed = true;
    }
}

static bool is_same(const struct learned_hang *a, const struct learned_hang *b)
{
    return a->rank == b->rank && a->act == b->act && a->phase == b->phase &&
           (a->steps == b->steps || (a->at && a->at == b->at));
}

bool learned_again(struct learned *learned,
                   const struct watch_verdict *verdict,
                   const struct watch_ranks *ranks)
{
    const struct rank_report *r =
        verdict->culprit ? &verdict->culprit->report : &ranks->items[0].report;
    const struct learned_hang hang = {.rank = verdict->culprit ? r->rank : -1,
                                      .act = r->act,
                                      .phase = r->phase,
                                      .steps = r->steps,
                                      .at = r->resumed ? r->resumed + r->steps : 0,
                                      .began = r->began_ms};

    for (size_t i = 0; i < learned->count; i++) {
        if (is_same(&learned->hangs[i], &hang) && learned->hangs[i].began != hang.began)
            return true;
        if (is_same(&learned->hangs[i], &hang))
            return false; /* the restart for it is under way */
    }
    if (learned->count == LEARNED_HANGS_MAX)
        memmove(learned->hangs, learned->hangs + 1,
                (LEARNED_HANGS_MAX - 1) * sizeof(learned->hangs[0]));
    else
        learned->count++;
    learned->hangs[learned->count - 1] = hang;
    learned->changed = true;
    return false;
}

bool learned_tell(struct learned *learned,
                  const struct watch_verdict *verdict,
                  bool again,
                  int64_t now_ms)
{
    int64_t word = again ? WATCH_HUNG + 1 : (int64_t)verdict->word;
    int64_t rank = verdict->culprit ? verdict->culprit->report.rank + 1 : 0;

    if (learned->told_ms && learned->told_word >= word && learned->told_rank == rank &&
        now_ms - learned->told_ms < LEARNED_TELL_MS)
        return false;
    learned->told_word = word;
    learned->told_rank = rank;
    learned->told_ms = now_ms;
    learned->changed = true;
    return true;
}

void learned_write(const struct learned *learned, const struct object *job, struct actions *actions)
{
    struct arena *arena = actions->arena;
    struct json *hangs = json_new_array(arena), *patch = json_new_object(arena);

    if (!learned->changed)
        return;
    for (size_t i = 0; i < learned->count; i++) {
        const struct learned_hang *hang = &learned->hangs[i];
        struct json *entry = json_new_object(arena);

#define HANG_WRITE(key, member) json_add_i64(arena, entry, key, hang->member);
        HANG_MEMBERS(HANG_WRITE)
#undef HANG_WRITE
        json_push(hangs, entry);
    }
    struct json *known =
        json_make(arena, "{quiet: $, told: {word: $, rank: $, ms: $}}", learned->quiet_ms,
                  learned->told_word, learned->told_rank, learned->told_ms);
    json_set(known, STR("hangs"), hangs);
    json_add_str(arena, json_make_path(arena, patch, "metadata.annotations"), LEARNED_ANNOTATION,
                 json_text(arena, known));
    action_patch(actions, job, patch);
}
