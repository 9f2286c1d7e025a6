#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "conformance/conformance.h"
#include "sched/sched.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* conformance [--native] [--quirk=WORD] [--time] [--only=ID] FILE...: decisions recorded elsewhere,
 * tried on ours.
 *
 * Each file is a list of cases as described in the README beside them. Without --native the core
 * mimics the scheduler the cases were taken from; with it, its own rules apply and the lines it
 * prints are the differences; --quirk adds single ones of KAI's ways back. --quirks prints the
 * table of differences as docs/differences.md has it. One line a failure ("ID: ...") or a case that
 * is left out ("ID: skipped: ..."), then "N passed, N failed, N skipped". What the program does not
 * know is a failure (strict.c). */

static char left_out[256]; /* why the case at hand cannot pass; empty: it can */

void leave_out(const struct json *test, const char *fmt, ...)
{
    va_list args;

    (void)test;
    va_start(args, fmt);
    (void)vsnprintf(left_out, sizeof(left_out), fmt, args);
    va_end(args);
}

bool differs(const struct json *test, const char *fmt, ...)
{
    struct str id = json_str(json_get(test, "id"));
    va_list args;

    printf(STR_FMT ": ", STR_ARG(id));
    va_start(args, fmt);
    (void)vprintf(fmt, args);
    va_end(args);
    (void)putchar('\n');
    return false;
}

bool case_is_017(const struct json *test)
{
    return str_starts(json_str(json_get(test, "id")), STR("v017-"));
}

static bool read_file(const char *path, struct buf *ret)
{
    FILE *file = fopen(path, "re");
    size_t got = 0;

    if (!file)
        return false;
    do {
        char *room = buf_room(ret, 65536);
        got = room ? fread(room, 1, 65536, file) : 0;
        ret->len += got;
    } while (got);
    bool good = !ferror(file);
    (void)fclose(file);
    return good;
}

static int64_t now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void print_quirks(void)
{
    for (size_t i = 0; i < SCHED_QUIRK_COUNT; i++)
        printf("| `%s` | %s | %s |\n", sched_quirk_texts[i].word, sched_quirk_texts[i].theirs,
               sched_quirk_texts[i].ours);
}

/* The bit of the quirk with this word, 0: there is none. */
static uint64_t quirk_bit(const char *word)
{
    for (size_t i = 0; i < SCHED_QUIRK_COUNT; i++)
        if (strcmp(sched_quirk_texts[i].word, word) == 0)
            return UINT64_C(1) << i;
    return 0;
}

static bool run_case(const struct json *test, uint64_t quirks, bool timed)
{
    struct arena arena = {0};
    int64_t start = now_us();
    bool good = false;

    left_out[0] = '\0';
    if (json_get(test, "mode"))
        good = scenario_is_known(test) && run_scenario(&arena, test, quirks);
    else if (json_get(test, "rule"))
        good = grouping_is_known(test) && run_grouping(&arena, test, quirks);
    else if (json_get(test, "dra"))
        good = unit_is_known(test) && run_claim_unit(&arena, test);
    else
        good = unit_is_known(test) && run_unit(&arena, test);
    if (timed)
        printf(STR_FMT ": %.3f ms\n", STR_ARG(json_str(json_get(test, "id"))),
               (double)(now_us() - start) / 1000);
    arena_done(&arena);
    return good;
}

int main(int argc, char *argv[])
{
    unsigned passed = 0;
    unsigned failed = 0;
    unsigned skipped = 0;
    uint64_t quirks = SCHED_QUIRKS_ALL;
    bool timed = false;
    const char *only = NULL;

    for (int i = 1; i < argc; i++) {
        struct arena arena = {0};
        struct buf text = {0};
        struct json *cases = NULL;
        struct err err = {0};

        if (strcmp(argv[i], "--native") == 0 || strcmp(argv[i], "--time") == 0) {
            quirks = strcmp(argv[i], "--native") == 0 ? SCHED_QUIRKS_NONE : quirks;
            timed = timed || strcmp(argv[i], "--time") == 0;
            continue;
        }
        if (strcmp(argv[i], "--quirks") == 0) {
            print_quirks();
            return 0;
        }
        if (strncmp(argv[i], "--quirk=", 8) == 0) {
            uint64_t bit = quirk_bit(argv[i] + 8);

            if (!bit) {
                (void)fprintf(stderr, "conformance: %s is not a difference\n", argv[i] + 8);
                return 2;
            }
            quirks |= bit;
            continue;
        }
        if (strncmp(argv[i], "--only=", 7) == 0) {
            only = argv[i] + 7;
            continue;
        }
        if (!read_file(argv[i], &text) || json_parse(&arena, buf_str(&text), &cases, &err)) {
            (void)fprintf(stderr, "conformance: %s: %s\n", argv[i],
                          err.text[0] ? err.text : "cannot be read");
            return 2;
        }
        JSON_FOREACH(cases, test) {
            if (only && !str_is(json_str(json_get(test, "id")), only))
                continue;
            if (!run_case(test, quirks, timed))
                failed++;
            else if (!left_out[0])
                passed++;
            else {
                (void)differs(test, "skipped: %s", left_out);
                skipped++;
            }
        }
        buf_done(&text);
        arena_done(&arena);
    }
    printf("%u passed, %u failed, %u skipped\n", passed, failed, skipped);
    return failed || passed + skipped == 0;
}
