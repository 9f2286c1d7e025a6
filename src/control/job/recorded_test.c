#include "api/ranks.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "base/vec.h"
#include "control/job/watch.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Real trainings, as the node told of their ranks (tests/calm/recorded.txt, which tests/calm/calm.py
 * writes), on virtual time: those that are well are never called hung, and of those that hang rank 1 is
 * named, as proof or as a suspicion, before the next thing is told. */
#define LATER_MS 60000 /* is what was told last looked at; a hang goes on */

extern const char recorded_txt[]; /* tools/embed_text.c made it of the file */

struct played {
    size_t looks;
    bool hung;   /* it was called so, */
    bool named;  /* rank 1 was, at all */
    bool proven; /* or as hung */
};

/* "1000000 [...]": until `end_ms`, each second. */
static void play(struct str text, int64_t from_ms, int64_t end_ms, struct played *played)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct rank_report *reports = ARENA_ARRAY(&arena, struct rank_report, RANKS_MAX);
    size_t count = ranks_parse(&arena, text, reports);
    struct watch_ranks ranks = {0};

    for (size_t i = 0; i < count; i++) {
        reports[i].seen_ms = end_ms; /* it was so until the next was told */
        VEC_PUSH(&arena, &ranks, (struct watch_rank){reports[i], STR("p"), STR("n")});
    }
    for (int64_t now_ms = from_ms; now_ms < end_ms; now_ms += 1000, played->looks++) {
        struct watch_verdict verdict = watch_judge(ranks.items, count, true, now_ms, &arena);
        bool first = verdict.culprit && verdict.culprit->report.rank == 1;

        played->hung = played->hung || verdict.word == WATCH_HUNG;
        played->named = played->named || (first && verdict.word >= WATCH_SUSPECTED);
        played->proven = played->proven || (first && verdict.word == WATCH_HUNG);
    }
}

/* The lines up to the next name; what is left of the text. */
static struct str play_all(struct str text, bool hangs, struct played *played)
{
    struct str line, last = STR_NONE;
    int64_t at_ms = 0, last_ms = 0;

    while (text.len && text.p[0] != '#' && str_cut(&text, '\n', &line)) {
        struct str number = STR_NONE;

        if (!str_cut(&line, ' ', &number) || !str_to_i64(number, &at_ms))
            continue;
        if (last.len)
            play(last, last_ms, at_ms, played);
        last = line;
        last_ms = at_ms;
    }
    if (hangs)
        play(last, last_ms, last_ms + LATER_MS, played);
    return text;
}

TEST(recorded_trainings_that_are_well_are_never_called_hung_and_those_that_hang_are_named)
{
    struct str text = str_from(recorded_txt), line, name;
    size_t count = 0;

    while (str_cut(&text, '\n', &line)) {
        struct played played = {0};

        line = str_sub(line, 2, line.len);
        if (!line.len || !str_cut(&line, ' ', &name))
            continue;
        bool well = str_is(line, "well"), proof = str_is(line, "proof");
        text = play_all(text, !well, &played);
        if (well ? played.hung : !played.named || played.proven != proof)
            printf(STR_FMT " (" STR_FMT ")\n", STR_ARG(name), STR_ARG(line));
        EXPECT(played.looks > 5);
        EXPECT(well ? !played.hung : played.named && played.proven == proof);
        count++;
    }
    EXPECT(count >= 20);
}
