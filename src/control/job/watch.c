#include "control/job/watch.h"

#include "api/object.h"
#include "api/ranks.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "control/core/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static const char *const words[] = {
#define WATCH_WORD(name, word) [WATCH_##name] = (word),
    WATCH_WORDS(WATCH_WORD)
#undef WATCH_WORD
};

const char *watch_word(enum watch_word word)
{
    return words[word];
}

bool watch_gather(struct watch_ranks *ranks,
                  const struct object *pod,
                  struct str node,
                  struct arena *arena)
{
    struct rank_report *reports = ARENA_ARRAY(arena, struct rank_report, RANKS_MAX);
    size_t count = ranks_parse(arena, object_annotation(pod, RANKS_ANNOTATION), reports);

    for (size_t i = 0; i < count; i++)
        VEC_PUSH(arena, ranks, (struct watch_rank){reports[i], pod->name, node});
    return count > 0;
}

void watch_write(struct arena *arena,
                 struct json *status,
                 const char *alarm,
                 struct str message,
                 int64_t now_ms)
{
    const struct json *before = condition_find(status, "Hung");
    struct str said = json_str(json_get(before, "message"));

    if (alarm || before)
        condition_set(arena, status,
                      &(struct condition){"Hung", alarm ? "True" : "False",
                                          alarm ? alarm : "Resolved", alarm ? message : said},
                      now_ms);
}

/* The gang at one look. */
struct gang {
    const struct watch_rank *ranks;
    size_t count;
    int64_t now_ms;
    struct arena *arena;
    size_t acts[RANK_ACT_COUNT];
    int64_t step_ms; /* of the slowest rank: they are equal where they wait for each other */
    int64_t quiet_ms;
    int64_t active_ms; /* the last time that anybody was seen to do something */
    bool ddp;          /* all of its ranks meet in the backward pass, and all are here */
};

/* Reports come from nodes, and may say anything: sums and products of these stay small. */
#define SPAN_MAX_MS   (24LL * 60 * 60 * 1000)
#define OWN_WHOLE     1000000LL         /* a whole step, as own_part has it */
#define MOMENT_MAX_MS 253402300800000LL /* the year 10000 */

static int64_t clamped(int64_t ms, int64_t most)
{
    if (ms < 0)
        return 0;
    return ms < most ? ms : most;
}

static bool is_waiting(const struct watch_rank *rank)
{
    return rank->report.act == RANK_IDLE || rank->report.act == RANK_LOCKED;
}

static struct gang gang_look(const struct watch_rank *ranks,
                             size_t count,
                             int64_t now_ms,
                             struct arena *arena)
{
    struct gang gang = {
        .ranks = ranks, .count = count, .now_ms = now_ms, .arena = arena, .ddp = count > 1};

    for (size_t i = 0; i < count; i++) {
        const struct rank_report *r = &ranks[i].report;
        int64_t active_ms = r->since_ms > r->last_ms ? r->since_ms : r->last_ms;

        gang.acts[r->act]++;
        gang.ddp = gang.ddp && r->world == (int64_t)count;
        if (r->step_ms > gang.step_ms)
            gang.step_ms = clamped(r->step_ms, SPAN_MAX_MS);
        if (r->quiet_ms > gang.quiet_ms)
            gang.quiet_ms = clamped(r->quiet_ms, SPAN_MAX_MS);
        if (active_ms > gang.active_ms)
            gang.active_ms = clamped(active_ms, MOMENT_MAX_MS);
    }
    return gang;
}

static int64_t longest(int64_t a, int64_t b, int64_t c)
{
    int64_t most = a > b ? a : b;

    return most > c ? most : c;
}

/* ---- words ---- */

static struct str who(const struct gang *gang, const struct watch_rank *rank)
{
    return str_printf(gang->arena, "rank %lld (pod " STR_FMT ", node " STR_FMT ")",
                      (long long)rank->report.rank, STR_ARG(rank->pod), STR_ARG(rank->node));
}

static struct str peers(const struct gang *gang, size_t count)
{
    return count == 1 ? STR("1 rank waits for it")
                      : str_printf(gang->arena, "%zu ranks wait for it", count);
}

/* " (futex_wait_queue) at train.py:31 in main": what the kernel and the program call it. */
static struct str place_words(const struct gang *gang, const struct rank_report *r)
{
    struct str wait =
        r->wait.len ? str_printf(gang->arena, " (" STR_FMT ")", STR_ARG(r->wait)) : STR_NONE;

    return r->line.len
               ? str_printf(gang->arena, STR_FMT " at " STR_FMT, STR_ARG(wait), STR_ARG(r->line))
               : wait;
}

/* What it does, as evidence. */
static struct str deed(const struct gang *gang, const struct watch_rank *rank)
{
    const struct rank_report *r = &rank->report;
    struct str in = place_words(gang, r);
    const char *phase = rank_phase_word(r->phase);

    switch (r->act) {
    case RANK_STOPPED: return STR("is stopped by a signal");
    case RANK_ZOMBIE: return STR("has failed, and its parent has not noticed");
    case RANK_LOCKED:
        return str_printf(gang->arena, "waits for a lock in %s" STR_FMT " and uses no CPU time",
                          phase, STR_ARG(in));
    case RANK_IDLE:
        return str_printf(gang->arena, "waits in %s" STR_FMT " and uses no CPU time", phase,
                          STR_ARG(in));
    case RANK_BUSY: return str_printf(gang->arena, "is at work in %s" STR_FMT, phase, STR_ARG(in));
    case RANK_STARTING:
    case RANK_STEPPING:
    case RANK_TRACED:
    case RANK_GONE:
    case RANK_ACT_COUNT: break;
    }
    return STR("does nothing");
}

static struct str after(const struct gang *gang, const struct watch_rank *rank, int64_t since_ms)
{
    return str_printf(gang->arena, "since " STR_FMT ", after %lld steps",
                      STR_ARG(time_text(gang->arena, since_ms)), (long long)rank->report.steps);
}

/* ---- verdicts ---- */

static struct watch_verdict plain(enum watch_word word)
{
    return (struct watch_verdict){.word = word};
}

/* How many wait for a rank, as far as it is seen: NCCL's do it with all their CPU time. */
static size_t count_peers(const struct gang *gang, const struct watch_rank *but)
{
    size_t count = 0;

    for (size_t i = 0; i < gang->count; i++) {
        const struct watch_rank *rank = &gang->ranks[i];

        count += rank != but && (is_waiting(rank) || (rank->report.act == RANK_BUSY &&
                                                      rank->report.phase == RANK_PHASE_BACKWARD));
    }
    return count;
}

/* The verdict once `limit_ms` have passed since it began; Waiting before that. */
static struct watch_verdict held(const struct gang *gang,
                                 enum watch_word word,
                                 const struct watch_rank *culprit,
                                 int64_t since_ms,
                                 int64_t limit_ms)
{
    size_t others = culprit ? count_peers(gang, culprit) : 0;

    since_ms = clamped(since_ms, MOMENT_MAX_MS);
    if (gang->now_ms < since_ms + limit_ms)
        return (struct watch_verdict){.word = WATCH_WAITING, .again_ms = since_ms + limit_ms};
    return (struct watch_verdict){
        .word = word,
        .culprit = culprit,
        .since_ms = since_ms,
        .message = culprit ? str_printf(gang->arena, STR_FMT " " STR_FMT " " STR_FMT "%s" STR_FMT,
                                        STR_ARG(who(gang, culprit)), STR_ARG(deed(gang, culprit)),
                                        STR_ARG(after(gang, culprit, since_ms)), others ? "; " : "",
                                        STR_ARG(others ? peers(gang, others) : STR_NONE))
                           : STR_NONE};
}

/* First it is suspicious, later it is proof. */
static struct watch_verdict held_twice(const struct gang *gang,
                                       const struct watch_rank *culprit,
                                       int64_t since_ms,
                                       int64_t suspected_ms,
                                       int64_t proven_ms)
{
    struct watch_verdict proof = held(gang, WATCH_HUNG, culprit, since_ms, proven_ms);

    if (proof.word == WATCH_HUNG)
        return proof;
    struct watch_verdict verdict = held(gang, WATCH_SUSPECTED, culprit, since_ms, suspected_ms);
    if (verdict.word == WATCH_SUSPECTED)
        verdict.again_ms = proof.again_ms;
    return verdict;
}

/* Whether a is to be named rather than b: one that is stopped is more than one that has ended. */
static bool is_first(const struct rank_report *a, const struct rank_report *b)
{
    return a->act == b->act ? a->since_ms < b->since_ms : a->act == RANK_STOPPED;
}

/* It was so in a look that came well after `since_ms`: where a node is cut off for a while, or nobody
 * can take what it tells, what was told last says nothing of now. */
static bool is_seen_still(const struct rank_report *r, int64_t since_ms)
{
    return r->seen_ms >= clamped(since_ms, MOMENT_MAX_MS) + WATCH_SEEN_MS;
}

/* Stopped, or dead and not buried: it does not come back by itself. But who stopped it may be about to
 * let it go on, and who stopped all of them means it; peers of a dead one that are at work, or wait for
 * something of their own, may do so without it. */
static struct watch_verdict judge_stopped(const struct gang *gang)
{
    const struct watch_rank *first = NULL;
    size_t living = gang->count - gang->acts[RANK_GONE], apart = gang->acts[RANK_BUSY];
    bool alone = living < 2 || gang->acts[RANK_STOPPED] == living; /* nobody waits for it */

    for (size_t i = 0; i < gang->count; i++) {
        const struct rank_report *r = &gang->ranks[i].report;

        if ((r->act == RANK_STOPPED || r->act == RANK_ZOMBIE) &&
            (!first || is_first(r, &first->report)))
            first = &gang->ranks[i];
        apart += r->act == RANK_IDLE && r->phase != RANK_PHASE_BACKWARD;
    }
    bool stopped = first->report.act == RANK_STOPPED;
    int64_t limit_ms = stopped ? WATCH_STOPPED_MS : WATCH_ZOMBIE_MS;
    if (alone || (stopped ? !is_seen_still(&first->report, first->report.since_ms) : apart > 0))
        return held(gang, WATCH_SUSPECTED, first, first->report.since_ms, limit_ms);
    return held_twice(gang, first, first->report.since_ms, limit_ms,
                      stopped ? WATCH_HELD_MS : limit_ms);
}

/* Where a gang is while one of it holds it up. */
enum place {
    PLACE_WORK,     /* anywhere but in the data loader and in torch.save */
    PLACE_BACKWARD, /* in which all ranks of DDP meet */
    PLACE_MEET      /* in collectives, as seen from outside */
};

static bool is_outside(const struct gang *gang, const struct watch_rank *rank, enum place place)
{
    enum rank_phase phase = rank->report.phase;

    switch (place) {
    case PLACE_WORK: return phase == RANK_PHASE_LOADER || phase == RANK_PHASE_SAVE;
    case PLACE_BACKWARD: return phase != RANK_PHASE_BACKWARD;
    case PLACE_MEET: break;
    }
    return phase != RANK_PHASE_MEET && !(gang->ddp && phase == RANK_PHASE_BACKWARD);
}

/* The one that waits where its gang does not. Of several the one that has waited longest, if they are
 * no more than the others. */
static const struct watch_rank *odd_one(const struct gang *gang, enum place place)
{
    const struct watch_rank *odd = NULL;
    size_t outside = 0;

    for (size_t i = 0; i < gang->count; i++) {
        const struct watch_rank *rank = &gang->ranks[i];

        if (!is_waiting(rank) || !is_outside(gang, rank, place))
            continue;
        outside++;
        if (!odd || rank->report.since_ms < odd->report.since_ms)
            odd = rank;
    }
    return outside * 2 <= gang->count ? odd : NULL;
}

/* Of DDP, and nothing outside of the gang can make any rank go on; all but one are in a backward pass
 * that this one has not begun. So they wait for it, and it for a lock that nobody opens, or in
 * another collective for them. */
static bool is_proof(const struct gang *gang, const struct watch_rank *odd)
{
    for (size_t i = 0; i < gang->count; i++) {
        const struct rank_report *r = &gang->ranks[i].report;

        if (r->act != RANK_LOCKED || !is_seen_still(r, gang->active_ms))
            return false;
        if (&gang->ranks[i] != odd &&
            (r->phase != RANK_PHASE_BACKWARD || r->passes <= odd->report.passes))
            return false;
    }
    return gang->ddp;
}

static struct watch_verdict judge_lock(const struct gang *gang, const struct watch_rank *rank)
{
    int64_t suspected_ms = longest(WATCH_LOCK_MS, gang->step_ms, 2 * gang->quiet_ms);

    if (!is_proof(gang, rank))
        return held(gang, WATCH_SUSPECTED, rank, gang->active_ms, suspected_ms);
    return held_twice(gang, rank, gang->active_ms, suspected_ms,
                      longest(WATCH_LOCKED_MS, 6 * gang->step_ms, 2 * gang->quiet_ms));
}

/* Whether every rank that is there waits for the others, who wait as well. */
static bool all_meet(const struct gang *gang)
{
    for (size_t i = 0; i < gang->count; i++)
        if (is_outside(gang, &gang->ranks[i], PLACE_MEET))
            return false;
    return gang->count > 1;
}

/* Steps differ by ten times without a cause. */
static int64_t soon(const struct gang *gang, int64_t least_ms)
{
    return longest(least_ms, 12 * gang->step_ms, 2 * gang->quiet_ms);
}

/* Where each of them is, where none can be named. */
static struct str each(const struct gang *gang)
{
    struct str text = STR_NONE;

    for (size_t i = 0; i < gang->count && i < WATCH_LINES_MAX; i++) {
        const struct rank_report *r = &gang->ranks[i].report;

        text = str_printf(gang->arena, STR_FMT "; rank %lld is in %s" STR_FMT, STR_ARG(text),
                          (long long)r->rank, rank_phase_word(r->phase),
                          STR_ARG(place_words(gang, r)));
    }
    return gang->count <= WATCH_LINES_MAX
               ? text
               : str_printf(gang->arena, STR_FMT "; and %zu more", STR_ARG(text),
                            gang->count - WATCH_LINES_MAX);
}

static struct watch_verdict judge_silence(const struct gang *gang)
{
    const struct watch_rank *odd = odd_one(gang, PLACE_WORK);
    int64_t since_ms = gang->active_ms;

    if (!odd && gang->ddp)
        odd = odd_one(gang, PLACE_BACKWARD);
    if (!odd)
        odd = odd_one(gang, PLACE_MEET);
    if (odd && odd->report.act == RANK_LOCKED &&
        (odd->report.phase == RANK_PHASE_CODE || odd->report.phase == RANK_PHASE_MEET))
        return judge_lock(gang, odd);
    if (odd && odd->report.phase == RANK_PHASE_LOADER)
        return held(gang, WATCH_SUSPECTED, odd, since_ms, soon(gang, WATCH_LOADER_MS));
    if (odd)
        return held(gang, WATCH_SUSPECTED, odd, since_ms,
                    longest(WATCH_NAMED_MS, 12 * gang->step_ms, 2 * gang->quiet_ms));
    struct watch_verdict verdict =
        held(gang, WATCH_SUSPECTED, NULL, since_ms,
             all_meet(gang) ? soon(gang, WATCH_MEET_MS)
                            : longest(WATCH_ALL_MS, 20 * gang->step_ms, 2 * gang->quiet_ms));
    if (verdict.word == WATCH_SUSPECTED)
        verdict.message = str_printf(
            gang->arena, "%s no CPU time, since " STR_FMT ", after %lld steps" STR_FMT,
            gang->count == 1 ? "its only rank waits, and uses" : "all ranks wait, and use",
            STR_ARG(time_text(gang->arena, since_ms)), (long long)gang->ranks[0].report.steps,
            STR_ARG(each(gang)));
    return verdict;
}

/* Since when each of those who work has been in one line, as a loop in C is that does not end; 0: not
 * all of them, or nobody can say. Others wait for them, or all do the same. */
static int64_t stuck_since(const struct gang *gang)
{
    int64_t since_ms = 0;

    for (size_t i = 0; i < gang->count; i++) {
        const struct rank_report *r = &gang->ranks[i].report;

        if (r->act == RANK_BUSY && !r->line.len)
            return 0;
        if (r->act == RANK_BUSY && r->line_ms > since_ms)
            since_ms = clamped(r->line_ms, MOMENT_MAX_MS);
    }
    return gang->count > 1 ? since_ms : 0;
}

/* From when on those who work are suspicious: in one line for long, or no step for longer. */
static int64_t work_limit(const struct gang *gang, int64_t last_ms)
{
    int64_t silent_ms = last_ms + longest(WATCH_SILENT_MS, 20 * gang->step_ms, 0);
    int64_t stuck_ms = stuck_since(gang);
    int64_t line_ms = stuck_ms + longest(WATCH_LINE_MS, 20 * gang->step_ms, 0);

    return stuck_ms && line_ms < silent_ms ? line_ms : silent_ms;
}

/* Some have ended. The last to go may take its time: with all of it where it could be waiting for
 * anything, and less where only its own threads can make it go on. What uses CPU time then may be a thread
 * of PyTorch's that asks again and again for a peer that has ended. */
static struct watch_verdict judge_end(const struct gang *gang)
{
    const struct watch_rank *last = NULL, *worker = NULL;
    int64_t last_ms = 0;
    bool locked = true;

    for (size_t i = 0; i < gang->count; i++) {
        const struct watch_rank *rank = &gang->ranks[i];

        if (rank->report.last_ms > last_ms)
            last_ms = clamped(rank->report.last_ms, MOMENT_MAX_MS);
        if (rank->report.act == RANK_GONE)
            continue;
        if (!worker && !is_waiting(rank))
            worker = rank;
        locked = locked && rank->report.act == RANK_LOCKED;
        if (!last || rank->report.since_ms < last->report.since_ms)
            last = rank;
    }
    if (!last)
        return plain(WATCH_WAITING);
    struct watch_verdict verdict =
        worker ? held(gang, WATCH_SUSPECTED, worker, last_ms, work_limit(gang, last_ms) - last_ms)
               : held(gang, WATCH_SUSPECTED, last, gang->active_ms,
                      longest(locked ? WATCH_END_MS : WATCH_SILENT_MS, 20 * gang->step_ms,
                              2 * gang->quiet_ms));
    if (verdict.word == WATCH_SUSPECTED)
        verdict.message = str_printf(gang->arena, STR_FMT "; %zu of %zu ranks have ended",
                                     STR_ARG(verdict.message), gang->acts[RANK_GONE], gang->count);
    return verdict;
}

/* Some work. When the others wait, and have waited for long, it is for them; but not where few wait
 * for data: NCCL's peers wait with all their CPU time. */
static struct watch_verdict judge_work(const struct gang *gang)
{
    const struct watch_rank *worker = NULL;
    int64_t last_ms = 0;
    int64_t idle_ms = 0;

    for (size_t i = 0; i < gang->count; i++) {
        const struct watch_rank *rank = &gang->ranks[i];

        if (rank->report.last_ms > last_ms)
            last_ms = rank->report.last_ms;
        if (is_waiting(rank) && rank->report.since_ms > idle_ms)
            idle_ms = rank->report.since_ms;
        if (!is_waiting(rank) && !worker)
            worker = rank;
    }
    last_ms = clamped(last_ms, MOMENT_MAX_MS);
    int64_t again_ms = work_limit(gang, last_ms);
    if (gang->now_ms >= again_ms && gang->acts[RANK_BUSY] == 1 && gang->count > 1)
        return held(gang, WATCH_SUSPECTED, worker, last_ms, 0);
    if (gang->now_ms >= again_ms)
        return (struct watch_verdict){
            .word = WATCH_SUSPECTED,
            .since_ms = last_ms,
            .message = str_printf(gang->arena,
                                  "no rank has made a step since " STR_FMT
                                  ", although %zu of %zu use CPU time" STR_FMT,
                                  STR_ARG(time_text(gang->arena, last_ms)), gang->acts[RANK_BUSY],
                                  gang->count, STR_ARG(each(gang)))};
    const struct watch_rank *loads = odd_one(gang, PLACE_WORK);
    if (loads && gang->acts[RANK_BUSY] * 2 > gang->count)
        return held(gang, WATCH_SUSPECTED, loads, loads->report.since_ms,
                    longest(WATCH_ALL_MS, 20 * gang->step_ms, 2 * gang->quiet_ms));
    if (gang->acts[RANK_BUSY] * 2 > gang->count || gang->count < 2)
        return (struct watch_verdict){.word = WATCH_WAITING, .again_ms = again_ms};
    struct watch_verdict verdict =
        held(gang, WATCH_SLOW, worker, idle_ms, longest(WATCH_SLOW_MS, 3 * gang->step_ms, 0));
    if (!verdict.again_ms)
        verdict.again_ms = again_ms;
    return verdict;
}

static int own_compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

/* Microseconds of a step that it needs without its peers. */
static int64_t own_time(const struct watch_rank *rank)
{
    return clamped(rank->report.own_us, SPAN_MAX_MS * 1000);
}

static int64_t own_part(const struct watch_rank *rank)
{
    return clamped(rank->report.own_part, OWN_WHOLE);
}

static int64_t own_spread(const struct watch_rank *rank)
{
    return clamped(rank->report.own_spread, OWN_WHOLE);
}

/* The median of all ranks but one. */
static int64_t own_of_others(const struct gang *gang,
                             const struct watch_rank *but,
                             int64_t (*own)(const struct watch_rank *rank))
{
    int64_t *values = ARENA_ARRAY(gang->arena, int64_t, gang->count);
    size_t count = 0;

    for (size_t i = 0; i < gang->count; i++)
        if (&gang->ranks[i] != but)
            values[count++] = own(&gang->ranks[i]);
    qsort(values, count, sizeof(values[0]), own_compare);
    return values[count / 2];
}

/* Its time and its part of a step say so, both: a time misleads when the steps that were looked at
 * are longer for all than those of its peers were, and a part when another rank is slow now and
 * then. And it is not chance, where steps differ by as much from each other. */
static bool is_slower(const struct gang *gang, const struct watch_rank *slow)
{
    int64_t time = own_of_others(gang, slow, own_time);
    int64_t part = own_of_others(gang, slow, own_part);
    int64_t spread = own_of_others(gang, slow, own_spread);
    int64_t tame = spread < WATCH_WILD_FROM ? spread : WATCH_WILD_FROM;
    int64_t slower =
        100 + (tame * WATCH_CHANCE + (spread - tame) * WATCH_WILD) / OWN_WHOLE; /* percent */

    if (slower < WATCH_SLOWER)
        slower = WATCH_SLOWER;
    return own_time(slow) * 100 >= time * WATCH_ALSO && own_part(slow) * 100 >= part * slower &&
           (own_part(slow) - part) * WATCH_SLOW_PART >= OWN_WHOLE;
}

/* All make steps, equally long, as they wait for each other. The slow one is who waits least. */
static struct watch_verdict judge_steps(const struct gang *gang)
{
    const struct watch_rank *slow = &gang->ranks[0];

    if (gang->count < 2 || gang->acts[RANK_STEPPING] + gang->acts[RANK_BUSY] < gang->count)
        return plain(WATCH_PROGRESSING);
    for (size_t i = 0; i < gang->count; i++) {
        if (!own_time(&gang->ranks[i]) ||
            !own_part(&gang->ranks[i])) /* of all, or it says nothing */
            return plain(WATCH_PROGRESSING);
        if (own_part(&gang->ranks[i]) > own_part(slow))
            slow = &gang->ranks[i];
    }
    if (!is_slower(gang, slow))
        return plain(WATCH_PROGRESSING);
    struct str gpu = slow->report.gpu ? str_printf(gang->arena, "; it is on GPU %lld of that node",
                                                   (long long)slow->report.gpu - 1)
                                      : STR_NONE;
    return (struct watch_verdict){
        .word = WATCH_SLOW,
        .culprit = slow,
        .message =
            str_printf(gang->arena,
                       STR_FMT " takes %lld ms of each step before its peers can go on, "
                               "which take %lld ms (the median) and wait for it" STR_FMT,
                       STR_ARG(who(gang, slow)), (long long)(own_time(slow) / 1000),
                       (long long)(own_of_others(gang, slow, own_time) / 1000), STR_ARG(gpu))};
}

struct watch_verdict watch_judge(const struct watch_rank *ranks,
                                 size_t count,
                                 bool complete,
                                 int64_t now_ms,
                                 struct arena *arena)
{
    struct gang gang = gang_look(ranks, count, now_ms, arena);

    if (!count)
        return plain(WATCH_UNKNOWN);
    if (gang.acts[RANK_STEPPING])
        return complete ? judge_steps(&gang) : plain(WATCH_PROGRESSING);
    if (gang.acts[RANK_TRACED]) /* somebody is at work who must not be disturbed */
        return plain(WATCH_WAITING);
    if (gang.acts[RANK_STOPPED] || gang.acts[RANK_ZOMBIE])
        return judge_stopped(&gang);
    if (gang.acts[RANK_STARTING] || !complete)
        return plain(gang.acts[RANK_STARTING] ? WATCH_STARTING : WATCH_WAITING);
    struct watch_verdict verdict = gang.acts[RANK_GONE]   ? judge_end(&gang)
                                   : gang.acts[RANK_BUSY] ? judge_work(&gang)
                                                          : judge_silence(&gang);
    verdict.firm_ms =
        verdict.since_ms + longest(WATCH_ALL_MS, 20 * gang.step_ms, 2 * gang.quiet_ms);
    return verdict;
}
