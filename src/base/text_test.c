#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

TEST(str_cut_gives_every_part_also_empty_ones)
{
    struct str rest = STR("a,,b,");
    struct str part;
    _cleanup_(buf_done) struct buf seen = {0};

    while (str_cut(&rest, ',', &part))
        buf_addf(&seen, STR_FMT "|", STR_ARG(part));
    EXPECT(str_is(buf_str(&seen), "a||b||"));
    EXPECT(!str_cut(&rest, ',', &part));
}

TEST(str_comparisons_are_by_bytes_and_a_prefix_sorts_first)
{
    static const struct {
        const char *a;
        const char *b;
        int order;
    } rows[] = {
        {"", "", 0}, {"", "a", -1}, {"a", "", 1}, {"a", "ab", -1}, {"b", "ab", 1}, {"\xff", "a", 1},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        EXPECT(str_cmp(str_from(rows[i].a), str_from(rows[i].b)) == rows[i].order);
    EXPECT(str_starts(STR("nvidia.com/gpu"), STR("nvidia.com/")));
    EXPECT(!str_starts(STR("nv"), STR("nvidia")));
    EXPECT(str_ends(STR("a-sync-0"), STR("-sync-0")) && !str_ends(STR("0"), STR("-0")));
    EXPECT(str_contains(STR("abc"), STR("bc")) && str_contains(STR("abc"), STR("")));
    EXPECT(!str_contains(STR_NONE, STR("a")) && str_contains(STR_NONE, STR_NONE));
}

TEST(str_absent_is_not_empty_but_equal_to_it)
{
    EXPECT(!str_is_set(STR_NONE) && str_is_set(STR("")));
    EXPECT(str_eq(STR_NONE, STR("")) && str_is(STR_NONE, ""));
    EXPECT(str_sub(STR("abc"), 5, 2).len == 0 && str_is(str_sub(STR("abc"), 1, 99), "bc"));
    EXPECT(str_is(str_trim(STR(" \t a b\r\n")), "a b"));
}

TEST(str_numbers_must_be_whole_and_in_range)
{
    static const struct {
        const char *text;
        int64_t value;
        bool ok;
    } rows[] = {
        {"0", 0, true},
        {"-0", 0, true},
        {"+7", 7, true},
        {"007", 7, true},
        {"9223372036854775807", INT64_MAX, true},
        {"-9223372036854775808", INT64_MIN, true},
        {"9223372036854775808", 0, false},
        {"-9223372036854775809", 0, false},
        {"", 0, false},
        {"-", 0, false},
        {" 1", 0, false},
        {"1 ", 0, false},
        {"0x1", 0, false},
        {"1.0", 0, false},
        {"--1", 0, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t value = -77;

        test_case(rows[i].text);
        EXPECT(str_to_i64(str_from(rows[i].text), &value) == rows[i].ok);
        EXPECT(value == (rows[i].ok ? rows[i].value : -77));
    }
    uint64_t most = 0;
    EXPECT(str_to_u64(STR("18446744073709551615"), &most) && most == UINT64_MAX);
    EXPECT(!str_to_u64(STR("18446744073709551616"), &most) && !str_to_u64(STR("-1"), &most));
}

TEST(str_utf8_puts_a_mark_for_every_byte_that_is_no_text)
{
    static const struct {
        const char *bytes;
        const char *text;
        const char *why;
    } rows[] = {
        {"", "", "nothing"},
        {"z\xc3\xb6lf \xf0\x9f\x98\x80", "z\xc3\xb6lf \xf0\x9f\x98\x80", "valid stays"},
        {"a\xff", "a\xef\xbf\xbd", "a byte that never occurs"},
        {"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd", "cut short: each byte for itself"},
        {"\xc0\xaf/", "\xef\xbf\xbd\xef\xbf\xbd/", "overlong"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", "half of a surrogate pair"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};

        test_case(rows[i].why);
        EXPECT(str_is(str_utf8(&arena, str_from(rows[i].bytes)), rows[i].text));
    }
}

TEST(buf_drops_whole_what_does_not_fit_and_says_so)
{
    _cleanup_(buf_done) struct buf buf = {.bytes_max = 10};

    buf_add(&buf, STR("12345"));
    buf_addf(&buf, "%d", 67890);
    EXPECT(!buf.overflow && str_is(buf_str(&buf), "1234567890"));
    buf_addc(&buf, 'x');
    EXPECT(buf.overflow && str_is(buf_str(&buf), "1234567890"));
    buf_consume(&buf, 5);
    buf_addc(&buf, 'x'); /* still: what came after a gap would make no sense */
    EXPECT(str_is(buf_str(&buf), "67890"));
    buf_clear(&buf);
    buf_addc(&buf, 'x');
    EXPECT(!buf.overflow && str_is(buf_str(&buf), "x") && buf.p[1] == '\0');
}

TEST(buf_of_any_length_is_what_was_added)
{
    _cleanup_(buf_done) struct buf buf = {0};

    EXPECT(buf_str(&buf).len == 0 && buf_str(&buf).p);
    for (int i = 0; i < 100000; i++)
        buf_addc(&buf, (char)('a' + i % 26));
    EXPECT(buf.len == 100000 && buf.p[99999] == 'a' + 99999 % 26 && buf.p[100000] == '\0');
}

static void note(void *object)
{
    char *notes = *(char **)object;

    notes[strlen(notes)] = ((char **)object)[1][0];
}

TEST(arena_runs_deferred_releases_latest_first)
{
    char notes[8] = {0};
    char a[] = "a";
    char b[] = "b";
    void *first[2] = {notes, a};
    void *second[2] = {notes, b};
    struct arena arena = {0};

    arena_defer(&arena, note, first);
    arena_defer(&arena, note, second);
    arena_reset(&arena);
    EXPECT(strcmp(notes, "ba") == 0);
    arena_done(&arena);
    EXPECT(strcmp(notes, "ba") == 0);
}

TEST(arena_gives_zeroed_aligned_memory_of_any_size_also_after_reset)
{
    struct arena arena = {0};

    for (int round = 0; round < 3; round++) {
        for (size_t bytes = 1; bytes < 3000000; bytes = bytes * 3 + 1) {
            unsigned char *block = arena_alloc(&arena, bytes, 1, 16);

            EXPECT(((uintptr_t)block & 15) == 0);
            EXPECT(block[0] == 0 && block[bytes - 1] == 0);
            memset(block, 0xff, bytes);
        }
        arena_reset(&arena);
        EXPECT(arena.bytes_used == 0);
    }
    arena_done(&arena);
}

/* There is one for each job, pod and connection. */
TEST(an_arena_of_a_few_strings_takes_four_kibibytes_and_one_that_was_large_keeps_at_most_sixty_four)
{
    struct arena arena = {0};

    (void)arena_raw(&arena, 100, 1);
    EXPECT(arena.end - arena.at <= 4096);
    for (size_t i = 0; i < 40; i++)
        (void)arena_raw(&arena, 1000, 1);
    arena_reset(&arena);
    EXPECT(arena.end - arena.at >= 40000); /* the next request finds room */
    for (size_t i = 0; i < 2000; i++)
        (void)arena_raw(&arena, 1000, 1);
    arena_reset(&arena);
    EXPECT(arena.end - arena.at <= 64 * 1024 && arena.end - arena.at >= 40000);
    arena_done(&arena);
}

TEST(arena_trim_gives_back_only_the_tail_of_the_latest)
{
    struct arena arena = {0};
    char *a = arena_raw(&arena, 100, 1);

    arena_trim(&arena, a + 40, 60);
    EXPECT(arena.bytes_used == 40);
    char *b = arena_raw(&arena, 8, 1);
    EXPECT(b >= a + 40 && b < a + 100);
    arena_trim(&arena, a + 20, 20);
    EXPECT(arena.bytes_used == 48); /* not the latest: nothing happened */
    arena_done(&arena);
}

TEST(mem_is_zeroed)
{
    unsigned char *block = mem_alloc(1000);

    for (size_t i = 0; i < 1000; i++)
        EXPECT(block[i] == 0);
    mem_free(block);
    mem_free(NULL);
}

TEST(time_texts_are_rfc3339_in_both_directions)
{
    static const struct {
        const char *text;
        int64_t ms;
        const char *written; /* NULL: the same */
    } rows[] = {
        {"1970-01-01T00:00:00Z", 0, NULL},
        {"2026-11-15T02:03:04Z", 1794708184000, NULL},
        {"2000-02-29T23:59:59Z", 951868799000, NULL},
        {"1969-12-31T23:59:59Z", -1000, NULL},
        {"2026-11-15T02:03:04.567Z", 1794708184567, "2026-11-15T02:03:04Z"},
        {"2026-11-15T02:03:04.567891234Z", 1794708184567, "2026-11-15T02:03:04Z"},
        {"2026-11-15T04:03:04+02:00", 1794708184000, "2026-11-15T02:03:04Z"},
        {"2026-11-14T21:33:04-04:30", 1794708184000, "2026-11-15T02:03:04Z"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char out[TIME_TEXT_BYTES];
        int64_t ms = -1;

        test_case(rows[i].text);
        EXPECT(time_parse(str_from(rows[i].text), &ms) && ms == rows[i].ms);
        EXPECT(str_is(time_format(ms, out), rows[i].written ? rows[i].written : rows[i].text));
    }
    char micro[TIME_TEXT_BYTES];
    EXPECT(str_is(time_format_micro(1794708184567, micro), "2026-11-15T02:03:04.567000Z"));
}

TEST(time_refuses_what_is_no_moment)
{
    static const char *const texts[] = {
        "",
        "2026-11-15",
        "2026-11-15T02:03:04",
        "2026-13-01T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "2026-11-15T24:00:00Z",
        "2026-11-15T02:60:00Z",
        "2026-11-15T02:03:04.Z",
        "2026-11-15T02:03:04Zx",
        "2026-11-15T02:03:04+0200",
        "x026-11-15T02:03:04Z",
    };

    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        int64_t ms = -1;

        test_case(texts[i]);
        EXPECT(!time_parse(str_from(texts[i]), &ms) && ms == -1);
    }
}

TEST(time_durations_are_gos)
{
    static const struct {
        const char *text;
        int64_t ms; /* -1: refused */
    } rows[] = {
        {"0", 0},
        {"1s", 1000},
        {"1h30m", 5400000},
        {"300ms", 300},
        {"1.5s", 1500},
        {"-2s", -2000},
        {"1m0.5s", 60500},
        {"", -1},
        {"5", -1},
        {"s", -1},
        {"1x", -1},
        {"1h-5m", -1},
        {"99999999999999h", -1},
        {"1 s", -1},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t ms = -1;

        test_case(rows[i].text);
        EXPECT(time_parse_duration(str_from(rows[i].text), &ms) == (rows[i].ms != -1));
        EXPECT(ms == rows[i].ms);
    }
}

TEST(time_ages_are_kubectls)
{
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {
        {0, "0s"},           {45000, "45s"},        {119000, "119s"},  {120000, "2m"},
        {330000, "5m30s"},   {600000, "10m"},       {3600000, "60m"},  {10800000, "3h"},
        {13500000, "3h45m"}, {28800000, "8h"},      {172800000, "2d"}, {187200000, "2d4h"},
        {691200000, "8d"},   {34560000000, "400d"}, {-5000, "0s"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};

        test_case(rows[i].text);
        EXPECT(str_is(time_age(&arena, rows[i].ms), rows[i].text));
        arena_done(&arena);
    }
}

TEST(texts_are_written_as_their_surroundings_want_them)
{
    _cleanup_(buf_done) struct buf buf = {0};

    buf_add_html(&buf, STR("<a href=\"x\">&'"));
    EXPECT(str_is(buf_str(&buf), "&lt;a href=&quot;x&quot;&gt;&amp;'"));
    buf_clear(&buf);
    buf_add_percent(&buf, STR("aZ09-._~ /?&=%:\xc3\xa9"));
    EXPECT(str_is(buf_str(&buf), "aZ09-._~%20%2F%3F%26%3D%25%3A%C3%A9"));
}
