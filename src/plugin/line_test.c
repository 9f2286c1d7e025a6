#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "plugin/line.h"
#include "test.h"
#include "tool/term.h"

#include <stddef.h>
#include <stdint.h>

#define T1 "2026-11-15T02:03:04.100000001Z"
#define T2 "2026-11-15T02:03:04.200000001Z"
#define T3 "2026-11-15T02:03:05.100000001Z"

TEST(a_log_that_is_opened_again_shows_no_line_twice)
{
    static const struct {
        const char *line;
        const char *text; /* NULL: left out */
        const char *why;
    } rows[] = {
        {T1 " one", NULL, "older than the last line shown"},
        {T2 " two", NULL, "the last line shown"},
        {T3 " three", "three", "newer"},
        {T3 " four", "four", "the same time, after a newer one: another line"},
    };
    struct line_stamp stamp = {.text = T2, .skipping = true};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct str line = str_from(rows[i].line);

        test_case(rows[i].why);
        EXPECT(line_take_stamp(&stamp, &line) == (rows[i].text != NULL));
        if (rows[i].text)
            EXPECT(str_is(line, rows[i].text));
    }
    EXPECT(str_is(str_from(stamp.text), T3));
}

TEST(a_log_line_without_a_time_is_shown_whole)
{
    static const char *const rows[] = {"", "text", "no time here",
                                       "2026-11-15T02:03:04.00000000000000000000000000000001Z x"};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct line_stamp stamp = {.text = T2, .skipping = true};
        struct str line = str_from(rows[i]);

        test_case(rows[i]);
        EXPECT(line_take_stamp(&stamp, &line) && str_is(line, rows[i]));
        EXPECT(stamp.skipping && str_is(str_from(stamp.text), T2));
    }
}

TEST(the_rank_of_a_log_line_is_what_torchrun_put_in_front)
{
    static const struct {
        const char *line;
        int64_t rank;
        const char *text;
    } rows[] = {
        {"[rank0] loss 1.5", 0, "loss 1.5"},
        {"[rank12] ", 12, ""},
        {"[rank3]: loss", -1, "[rank3]: loss"},
        {"[rank-1] x", -1, "[rank-1] x"},
        {"[rankx] x", -1, "[rankx] x"},
        {"[rank3]", -1, "[rank3]"},
        {"[rank3", -1, "[rank3"},
        {"rank3] x", -1, "rank3] x"},
        {"", -1, ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct str line = str_from(rows[i].line);

        test_case(rows[i].line);
        EXPECT(line_take_rank(&line) == rows[i].rank);
        EXPECT(str_is(line, rows[i].text));
    }
}

TEST(a_log_line_names_its_rank_or_else_its_pod)
{
    _cleanup_(buf_done) struct buf out = {0};
    struct term plain = {0};
    struct term coloured = {.coloured = true};

    line_format(&out, &plain, STR("worker-1"), 3, STR("a"));
    line_format(&out, &plain, STR("worker-1"), -1, STR("b"));
    EXPECT(str_is(buf_str(&out), "[rank3] a\n[worker-1] b\n"));
    buf_clear(&out);
    line_format(&out, &coloured, STR("worker-1"), 3, STR("a"));
    EXPECT(str_starts(buf_str(&out), STR("\033[")));
    EXPECT(str_ends(buf_str(&out), STR(" a\n")));
}

TEST(the_tail_of_a_log_is_whole_lines_from_its_end_those_of_the_rank_that_is_meant)
{
#define TWO "[rank0] a\n[rank1] b\n[rank0] c\ntorchrun says\n"
    static const struct {
        const char *text;
        int64_t only;
        int64_t tail;
        const char *want;
    } rows[] = {
        {"a\nb\nc\n", -1, -1, "a\nb\nc\n"},
        {"a\nb\nc\n", -1, 0, ""},
        {"a\nb\nc\n", -1, 1, "c\n"},
        {"a\nb\nc\n", -1, 2, "b\nc\n"},
        {"a\nb\nc\n", -1, 9, "a\nb\nc\n"},
        {"a\nb\nc", -1, 1, "c"},
        {"a\n\n", -1, 1, "\n"},
        {"", -1, 3, ""},
        {TWO, -1, 1, "torchrun says\n"},
        {TWO, 0, 1, "[rank0] c\ntorchrun says\n"},
        {TWO, 1, 1, "[rank1] b\n[rank0] c\ntorchrun says\n"},
        {TWO, 0, 2, TWO},
        {TWO, 2, 1, TWO},
        {TWO, 0, -1, TWO},
        {TWO, 0, 0, ""},
    };
#undef TWO

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].want);
        EXPECT(str_is(line_tail(str_from(rows[i].text), rows[i].only, rows[i].tail), rows[i].want));
    }
}
