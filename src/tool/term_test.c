#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "test.h"
#include "tool/term.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What was written to a pipe so far. */
static const char *written(int fd, char *text, size_t bytes)
{
    ssize_t n = read(fd, text, bytes - 1);

    text[n > 0 ? n : 0] = '\0';
    return text;
}

TEST(term_table_aligns_columns_and_ends_lines_without_blanks)
{
    static const char *const headers[] = {"NAME", "STATUS", "AGE", NULL};
    struct arena arena = {0};
    _cleanup_(buf_done) struct buf buf = {0};
    struct table table;

    table_init(&table, &arena, headers);
    table_add(&table, STR("a"));
    table_add(&table, STR("Running"));
    table_add(&table, STR("5s"));
    table_add(&table, STR("l\xc3\xa4nger"));
    table_add(&table, STR(""));
    table_add(&table, STR("1d"));
    table_write(&buf, &table, true);
    EXPECT(str_is(buf_str(&buf), "NAME     STATUS    AGE\n"
                                 "a        Running   5s\n"
                                 "l\xc3\xa4nger             1d\n"));
    buf_clear(&buf);
    table_write(&buf, &table, false);
    EXPECT(str_starts(buf_str(&buf), STR("a        Running   5s\n")));
    arena_done(&arena);
}

TEST(term_table_fits_a_narrow_terminal_and_keeps_names_longest)
{
    static const char *const headers[] = {"NAME", "PHASE", "MESSAGE", NULL};
    static const struct {
        const char *why;
        unsigned wraps_at;
        const char *text;
    } rows[] = {
        {"no terminal: as wide as it is", 0,
         "NAME            PHASE     MESSAGE\n"
         "a-longer-name   Running   all of its pods run\n"},
        {"narrower gaps are enough", 42,
         "NAME          PHASE   MESSAGE\n"
         "a-longer-name Running all of its pods run\n"},
        {"the widest is shortened", 30,
         "NAME          PHASE   MESSAGE\n"
         "a-longer-name Running all of..\n"},
        {"then the next, the name last", 23,
         "NAME          PH.. ME..\n"
         "a-longer-name Ru.. al..\n"},
        {"and then the name", 16,
         "NAME   PH.. ME..\n"
         "a-lo.. Ru.. al..\n"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        _cleanup_(buf_done) struct buf buf = {0};
        struct table table;

        test_case(rows[i].why);
        table_init(&table, &arena, headers);
        table.wraps_at = rows[i].wraps_at;
        table_add(&table, STR("a-longer-name"));
        table_add(&table, STR("Running"));
        table_add(&table, STR("all of its pods run"));
        table_write(&buf, &table, true);
        EXPECT(str_is(buf_str(&buf), rows[i].text));
    }
}

TEST(term_moments_are_told_by_the_clock_of_the_person)
{
    static const struct {
        const char *zone;
        const char *moment;
        const char *told;
    } rows[] = {
        {"UTC0", "2026-11-15T23:03:04Z", "2026-11-15T23:03:04Z"},
        {"CET-1", "2026-11-15T23:03:04Z", "2026-11-16T00:03:04+01:00"},
        {"NST3:30", "2026-11-15T23:03:04Z", "2026-11-15T19:33:04-03:30"},
        {"CET-1", "", ""},
        {"CET-1", "soon", "soon"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};

        EXPECT(setenv("TZ", rows[i].zone, 1) == 0);
        tzset();
        EXPECT(str_is(term_moment(&arena, str_from(rows[i].moment)), rows[i].told));
    }
    EXPECT(unsetenv("TZ") == 0);
    tzset();
}

TEST(term_moments_in_a_sentence_are_told_by_that_clock_and_a_programs_own_lines_are_not)
{
#define LINES "\n2026-11-15T23:03:04Z a line of the program"
    static const struct {
        const char *zone;
        const char *text;
        const char *told;
    } rows[] = {
        {"CET-1",
         "rank 3 ended with exit code 7 at 2026-11-15T23:03:04.567000Z; its last lines:" LINES,
         "rank 3 ended with exit code 7 at 2026-11-16T00:03:04.567000+01:00; its last "
         "lines:" LINES},
        {"NST3:30", "since 2026-11-15T23:03:04Z, until 2026-11-15T23:13:04Z",
         "since 2026-11-15T19:33:04-03:30, until 2026-11-15T19:43:04-03:30"},
        {"UTC0", "at 2026-11-15T23:03:04.567000Z", "at 2026-11-15T23:03:04.567000Z"},
        {"CET-1", "at 2026-11-15T23:03:04+02:00, 2026-11-15, 2026-11-15T23:03:04", NULL},
        {"CET-1", "at 2026-11-15T23:03:04.5", NULL},
        {"CET-1", "", NULL},
    };
#undef LINES

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};

        test_case(rows[i].text);
        EXPECT(setenv("TZ", rows[i].zone, 1) == 0);
        tzset();
        EXPECT(str_is(term_moments(&arena, str_from(rows[i].text)),
                      rows[i].told ? rows[i].told : rows[i].text));
    }
    EXPECT(unsetenv("TZ") == 0);
    tzset();
}

TEST(term_without_a_terminal_writes_no_escapes)
{
    int ends[2];
    char text[512];

    EXPECT(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    struct term term = term_open(ends[1], NULL);
    EXPECT(!term.live && !term.coloured);
    EXPECT(strcmp(term_colour(&term, COLOUR_RED), "") == 0);

    struct progress progress = {.term = &term, .what = "uploading", .total = 100};
    progress_update(&progress, 50, 1000);
    progress_done(&progress);
    EXPECT(strcmp(written(ends[0], text, sizeof(text)), "") == 0);

    struct live live = {.term = &term};
    live_show(&live, STR("a waits\nb runs\n"));
    live_show(&live, STR("a runs\nb runs\n"));
    live_done(&live);
    EXPECT(strcmp(written(ends[0], text, sizeof(text)), "a waits\nb runs\na runs\n") == 0);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

TEST(term_on_a_terminal_draws_over_what_it_drew)
{
    int ends[2];
    char text[1024];

    EXPECT(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    struct term term = {.fd = ends[1], .live = true, .coloured = true, .columns = 20};
    struct live live = {.term = &term};
    live_show(&live, STR("one\na line that is far too long for it\n"));
    EXPECT(strcmp(written(ends[0], text, sizeof(text)), "one\na line that is far \n") == 0);
    live_show(&live, STR("two\n"));
    EXPECT(strcmp(written(ends[0], text, sizeof(text)), "\033[2A\r\033[Jtwo\n") == 0);
    live_done(&live);

    struct progress progress = {.term = &term, .what = "up", .total = 2048};
    progress_update(&progress, 1024, 1000);
    EXPECT(strstr(written(ends[0], text, sizeof(text)),
                  "\rup [###############...............] 1.0 KiB of 2.0 KiB"));
    progress_update(&progress, 1100, 1000 + PROGRESS_EVERY_MS - 1);
    EXPECT(strcmp(written(ends[0], text, sizeof(text)), "") == 0); /* too soon */
    progress_done(&progress);
    EXPECT(strcmp(written(ends[0], text, sizeof(text)), "\r\033[K") == 0);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

TEST(term_bytes_are_readable_up_to_the_largest_number)
{
    char text[TERM_BYTES_TEXT];

    EXPECT(strcmp(term_bytes(0, text), "0 B") == 0);
    EXPECT(strcmp(term_bytes(1023, text), "1023 B") == 0);
    EXPECT(strcmp(term_bytes(1536, text), "1.5 KiB") == 0);
    EXPECT(strcmp(term_bytes(UINT64_MAX, text), "15.9 EiB") == 0);
}

TEST(term_pages_break_at_blanks_and_go_on_below_their_text)
{
    static const struct {
        const char *why;
        unsigned wraps_at;
        const char *text;
        const char *page;
    } rows[] = {
        {"no terminal", 0, "one two three\n", "one two three\n"},
        {"it fits", 13, "one two three\n", "one two three\n"},
        {"a sentence", 8, "one two three\nfour", "one two\nthree\nfour"},
        {"where a line began", 10, "  one two three", "  one two\n  three"},
        {"below its text", 20, "Says:  one two three four", "Says:  one two three\n       four"},
        {"a label that fills half the line leaves too little", 12, "a label: of  it, long",
         "a label: of\nit, long"},
        {"a long word stays whole", 8, "see /a/long/path now", "see\n/a/long/path\nnow"},
        {"and goes below its label, where it has more room", 16, " step   /a/long/path:12",
         " step\n   /a/long/path:12"},
        {"nothing to break at", 4, "/a/long/path\n", "/a/long/path\n"},
        {"colours and letters of two bytes are one column", 5, "\033[31m\xc3\xa4z\033[0m cd e",
         "\033[31m\xc3\xa4z\033[0m cd\ne"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(buf_done) struct buf page = {0};

        test_case(rows[i].why);
        term_wrap(&page, str_from(rows[i].text), rows[i].wraps_at);
        EXPECT(str_is(buf_str(&page), rows[i].page));
    }
}
