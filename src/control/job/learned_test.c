#include "api/kind.h"
#include "api/object.h"
#include "api/ranks.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/action.h"
#include "control/job/learned.h"
#include "control/job/watch.h"
#include "test.h"

#include <stdbool.h>
#include <stdint.h>

#define S   1000LL
#define NOW (1000000 * S)

struct hang {
    int64_t rank;
    enum rank_phase phase;
    int64_t steps;
    int64_t resumed; /* and one; 0: it does not say */
    int64_t began;
};

static bool again(struct learned *learned, struct hang hang)
{
    struct watch_rank rank = {.report = {.rank = hang.rank,
                                         .act = RANK_LOCKED,
                                         .phase = hang.phase,
                                         .steps = hang.steps,
                                         .resumed = hang.resumed,
                                         .began_ms = hang.began}};
    struct watch_ranks ranks = {.items = &rank, .count = 1};

    return learned_again(learned, &(struct watch_verdict){.word = WATCH_HUNG, .culprit = &rank},
                         &ranks);
}

TEST(the_same_hang_at_the_same_step_is_known_again)
{
    static const struct {
        const char *why;
        struct hang hang;
        bool again;
    } rows[] = {
        {"the first", {2, RANK_PHASE_CODE, 40, 0, 1}, false},
        {"the same one, seen while its restart is under way",
         {2, RANK_PHASE_CODE, 40, 0, 1},
         false},
        {"after the restart, at the same step", {2, RANK_PHASE_CODE, 40, 0, 2}, true},
        {"another rank", {3, RANK_PHASE_CODE, 40, 0, 3}, false},
        {"another step", {2, RANK_PHASE_CODE, 41, 0, 3}, false},
        {"another place", {2, RANK_PHASE_MEET, 40, 0, 3}, false},
        {"at step 140 of all", {0, RANK_PHASE_CODE, 140, 1, 4}, false},
        {"40 after a checkpoint of 100", {0, RANK_PHASE_CODE, 40, 101, 5}, true},
    };
    struct learned learned = {0};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        test_case(rows[i].why);
        EXPECT(again(&learned, rows[i].hang) == rows[i].again);
    }
    for (int64_t i = 0; i < 2 * LEARNED_HANGS_MAX; i++)
        EXPECT(!again(&learned, (struct hang){9, RANK_PHASE_CODE, 1000 + i, 0, 10 + i}));
    EXPECT(learned.count == LEARNED_HANGS_MAX);
}

TEST(what_was_learned_comes_back_from_the_annotation)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct actions actions = {.arena = &arena};
    struct learned learned = {0};
    struct watch_rank rank = {.report = {.quiet_ms = 90 * S}};
    struct watch_ranks ranks = {.items = &rank, .count = 1};
    const struct object job = {.kind = &kind_torchrunjob, .name = STR("j")};

    learned_write(&learned, &job, &actions);
    EXPECT(!actions.list.count); /* nothing was learned */
    learned_pauses(&learned, &ranks);
    EXPECT(!again(&learned, (struct hang){2, RANK_PHASE_CODE, 40, 0, 1}));
    learned_write(&learned, &job, &actions);
    EXPECT(actions.list.count == 1);
    if (actions.list.count != 1)
        return;
    json_add_str(&arena, json_make_path(&arena, actions.list.items[0].body, "metadata"), "name",
                 STR("j"));
    _cleanup_(object_unrefp) struct object *later = NULL;
    EXPECT(object_new(&kind_torchrunjob, json_text(&arena, actions.list.items[0].body), &later,
                      NULL) == 0);
    learned = learned_read(later, &arena);
    EXPECT(learned.quiet_ms == 90 * S && !learned.changed);
    EXPECT(again(&learned, (struct hang){2, RANK_PHASE_CODE, 40, 0, 2}));
    rank.report.quiet_ms = 0; /* of a process that has just begun */
    learned_pauses(&learned, &ranks);
    EXPECT(rank.report.quiet_ms == 90 * S && !learned.changed);
    rank.report.quiet_ms = 100 * S; /* not worth a write */
    learned_pauses(&learned, &ranks);
    EXPECT(learned.quiet_ms == 90 * S && !learned.changed);
}

TEST(a_verdict_that_comes_and_goes_is_told_once)
{
    struct watch_rank ranks[2] = {{.report = {.rank = 0}}, {.report = {.rank = 1}}};
    const struct watch_verdict suspected = {.word = WATCH_SUSPECTED, .culprit = &ranks[0]};
    const struct watch_verdict proven = {.word = WATCH_HUNG, .culprit = &ranks[0]};
    const struct watch_verdict other = {.word = WATCH_SUSPECTED, .culprit = &ranks[1]};
    struct learned learned = {0};

    EXPECT(learned_tell(&learned, &suspected, false, NOW));
    for (int i = 1; i < 60; i++)
        EXPECT(!learned_tell(&learned, &suspected, false, NOW + i * 10 * S));
    EXPECT(learned_tell(&learned, &proven, false, NOW + 60 * S));
    EXPECT(learned_tell(&learned, &proven, true, NOW + 61 * S)); /* and not restarted for it */
    EXPECT(!learned_tell(&learned, &proven, true, NOW + 62 * S));
    EXPECT(!learned_tell(&learned, &suspected, false, NOW + 70 * S));
    EXPECT(learned_tell(&learned, &other, false, NOW + 80 * S));
    EXPECT(learned_tell(&learned, &other, false, NOW + 80 * S + LEARNED_TELL_MS));
}
