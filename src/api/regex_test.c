#include "api/regex.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/rng.h"
#include "base/str.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

TEST(patterns_know_the_classes_of_unicode)
{
    static const struct {
        const char *pattern;
        const char *text;
        bool matches;
    } rows[] = {
        {"^\\p{L}+$", "Z\u00fcrich\u4e2d\u0416", true},
        {"^\\p{L}+$", "a1", false},
        {"^\\pL$", "\u00e9", true},
        {"^\\PL$", "\u00e9", false},
        {"^\\P{L}$", "-", true},
        {"^\\p{^L}$", "-", true},
        {"^\\P{^L}$", "-", false},
        {"^\\p{Lu}\\p{Ll}+$", "\u00c4pfel", true},
        {"^\\p{Lu}$", "\u00e4", false},
        {"^(?i)\\p{Lu}$", "\u00e4", true},
        {"^\\p{N}+$", "1\u0663\u00bd", true},
        {"^\\p{Nd}+$", "\u00bd", false},
        {"^\\p{Greek}+$", "\u03b1\u03b2\u03b3", true},
        {"^\\p{Greek}$", "a", false},
        {"^\\p{Han}+$", "\u4e2d\u6587", true},
        {"^\\p{Latin}+$", "abc\u00fc", true},
        {"^\\p{Any}$", "\U0010ffff", true},
        {"^\\p{So}$", "\U0001f600", true},
        {"^[\\p{L}\\d_-]+$", "stra\u00dfe_1-2", true},
        {"^[^\\p{L}\\d]+$", "-.-", true},
        {"^[^\\p{L}\\d]+$", "-a", false},
        {"^[\\P{L}]$", "a", false},
        {"^\\p{C}$", "\u0378", false}, /* which is no character yet */
        {"^\\p{Zs}{2}$", " \u00a0", true},
    };
    static const char *const wrong[] = {"\\p",   "\\p{", "\\p{L",  "\\p{Nope}",
                                        "\\p{}", "\\pX", "\\p{Cn}"};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct regex *regex = NULL;

        test_case(rows[i].pattern);
        EXPECT(regex_compile(&arena, str_from(rows[i].pattern), &regex, NULL) == 0);
        EXPECT(regex_matches(regex, str_from(rows[i].text)) == rows[i].matches);
    }
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct regex *regex = NULL;

        test_case(wrong[i]);
        EXPECT(regex_compile(&arena, str_from(wrong[i]), &regex, NULL) == -EINVAL);
    }
}

/* As many as fit: each is made once, and a character is found in few steps. */
TEST(a_pattern_of_many_large_classes_stays_small)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct buf text = {0};
    struct regex *regex = NULL;

    while (text.len + 6 < REGEX_BYTES_MAX)
        buf_add(&text, STR("\\p{L}"));
    EXPECT(regex_compile(&arena, buf_str(&text), &regex, NULL) == 0);
    EXPECT(arena.bytes_used < 1 << 20);
    buf_done(&text);
}

TEST(patterns_match_as_in_re2)
{
    static const struct {
        const char *pattern;
        const char *text;
        bool matches;
    } rows[] = {
        {"abc", "xxabcxx", true},
        {"^abc$", "abc", true},
        {"^abc$", "abcd", false},
        {"^a.c$", "abc", true},
        {"^a.c$", "a\nc", false},
        {"^a*$", "", true},
        {"^a*$", "aaaa", true},
        {"^a+$", "", false},
        {"^ab?c$", "ac", true},
        {"^ab?c$", "abbc", false},
        {"^(a|b|cd)+$", "abcdab", true},
        {"^(a|b|cd)+$", "abca", false},
        {"^(?:a|)b$", "b", true},
        {"^[a-c]{2,3}$", "ab", true},
        {"^[a-c]{2,3}$", "abca", false},
        {"^[a-c]{2,}$", "abcabc", true},
        {"^[a-c]{2}$", "abc", false},
        {"^x{0}y$", "y", true},
        {"^[^a-c]$", "d", true},
        {"^[^a-c]$", "b", false},
        {"^[]a]$", "]", true},
        {"^[a\\-z]$", "-", true},
        {"^[a-]$", "-", true},
        {"^\\d+\\.\\d+$", "10.5", true},
        {"^\\w+$", "a_1", true},
        {"^\\W$", "-", true},
        {"^[\\w.-]+$", "a.b-c", true},
        {"^[[:alpha:]]+$", "abC", true},
        {"^[[:alpha:]]+$", "ab1", false},
        {"\\bfoo\\b", "a foo b", true},
        {"\\bfoo\\b", "afoo", false},
        {"^(?i)abc$", "AbC", true},
        {"^(?i:a)b$", "Ab", true},
        {"^(?i:a)b$", "AB", false},
        {"^\\x41\\x{42}$", "AB", true},
        {"^.$", "\xc3\xa9", true},
        {"^[\xc3\xa0-\xc3\xbf]$", "\xc3\xa9", true},
        {"^a{,2}$", "a{,2}", true},
        {"^((a|b)c|d)*e$", "acbcdde", true},
        {"^(a*)*$", "aaab", false},
        {"^(([a-z0-9]([-a-z0-9]*[a-z0-9])?)(\\.|$))+$", "a-b.c", true},
        {"^(|a)+$", "aa", true},
        {"a|b|c$", "xxc", true},
        {"^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+"
         "(\\.[0-9]*)?)|(\\.[0-9]+))))?$",
         "1.5Gi", true},
        {"^(?P<a>b)(?<c>d)$", "bd", true},
        {"^[[:^alpha:]]$", "1", true},
        {"^[[:^alpha:]]$", "a", false},
        {"^[[:alpha]$", ":", true},
        {"^[[:upper:]]$", "a", false},
        {"^(?i)[[:upper:]]$", "a", true},
        {"^(?i)[[:^upper:]]$", "1", true},
        {"^(?i)[[:^lower:]]$", "A", false},
        {"^(?i)[A-C]$", "b", true},
        {"^[[:punct:][:digit:]]+$", "1.", true},
        {"^[\\d\\s]+$", "1 ", true},
        {"^[\\D\\S]$", "1", true},
        {"^\\S\\D$", "a\n", true},
        {"^\\s$", "x", false},
        {"^a\\Bb$", "ab", true},
        {"a\\B", "a", false},
        {"\\Aab\\z", "ab", true},
        {"\\Ab", "ab", false},
        {"a\\z", "ab", false},
        {"^\\t\\.\\x2F\\xaf?$", "\t./", true},
        {"^\\012\\08$", "\n\0018", false},
        {"^\\012$", "\n", true},
        {"^\\x{1F600}$", "\xf0\x9f\x98\x80", true},
        {"^[\xe2\x82\xac]$", "\xe2\x82\xac", true},
        {"^a{2$", "a{2", true},
        {"^a{x}$", "a{x}", true},
        {"^a{2,x}$", "a{2,x}", true},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct regex *regex = NULL;
        struct err err = {0};

        test_case(rows[i].pattern);
        EXPECT(regex_compile(&arena, str_from(rows[i].pattern), &regex, &err) == 0);
        if (regex)
            EXPECT(regex_matches(regex, str_from(rows[i].text)) == rows[i].matches);
    }
}

TEST(a_match_is_found_where_it_begins_first_and_as_the_pattern_prefers)
{
    static const struct {
        const char *pattern;
        const char *text;
        size_t from;
        const char *found; /* NULL: nothing */
    } rows[] = {
        {"b+", "abbbc", 0, "bbb"},
        {"b+?", "abbbc", 0, "b"},
        {"a|ab", "ab", 0, "a"},
        {"ab|a", "ab", 0, "ab"},
        {"(a|b)*c|a", "abab", 0, "a"},
        {"x*", "abc", 0, ""},
        {"^a", "aa", 1, NULL},
        {"a", "ba", 1, "a"},
        {"[0-9]+$", "12 34", 0, "34"},
        {"a{2,3}", "aaaa", 0, "aaa"},
        {"a{2,3}?", "aaaa", 0, "aa"},
        {"z", "abc", 0, NULL},
        {"", "", 0, ""},
        {"\xc3\xa9.", "x\xc3\xa9y", 0, "\xc3\xa9y"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct regex *regex = NULL;
        struct str found = STR_NONE;

        test_case(rows[i].pattern);
        EXPECT(regex_compile(&arena, str_from(rows[i].pattern), &regex, NULL) == 0);
        bool any = regex && regex_find(regex, str_from(rows[i].text), rows[i].from, &found);
        EXPECT(any == (rows[i].found != NULL));
        EXPECT(!any || str_is(found, rows[i].found));
    }
}

TEST(patterns_that_are_none_are_refused)
{
    static const char *const rows[] = {
        "(",          "a)",      "[a",     "*a",      "a**b(",     "\\",      "(?=a)",
        "(a)\\1",     "[b-a]",   "a{2,1}", "a{9999}", "a{1,9999}", "\\pX",    "+a",
        "?a",         "[[:x:]]", "\\x4",   "\\xg",    "\\x{}",     "\\x{12",  "\\x{110000}",
        "\\\xc3\xa9", "\\q",     "\\Q",    "\\Z",     "[\\q]",     "[a-\\q]", "[a-\\d]",
        "(?P<a",      "(?s)a",   "a|(",    "a|[",     "(?i:a",     "[",       "[^"};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct regex *regex = NULL;
        struct err err = {0};

        test_case(rows[i]);
        EXPECT(regex_compile(&arena, str_from(rows[i]), &regex, &err) < 0);
        EXPECT(err.text[0]);
    }
}

static void make_text(struct rng *rng, char *text, size_t len)
{
    static const char *const pieces[] = {"a", "a", "a", "b", "b", "-", " ", "\xc3\xa9"};
    size_t at = 0;

    while (at + 2 < len) {
        const char *piece = pieces[rng_below(rng, COUNT_OF(pieces))];

        memcpy(text + at, piece, strlen(piece));
        at += strlen(piece);
    }
    text[at] = '\0';
}

/* What is known of a long text is used again; finding looks at each character anew. */
TEST(long_texts_match_as_short_ones_do)
{
    static const char *const parts[] = {
        "a",   "b",   "a+",   "[ab]*",     "(ab|-)",   "[^ ]", ".*",       "^",        "$",
        "\\b", "\\B", "a{3}", "(a|b-)+?b", "\xc3\xa9", "[-b]", "(?:a*b)*", "[^a]{2,5}"};
    uint64_t seed = 20261119;
    int matched = 0;

    for (uint64_t round = 0; round < 400; round++, seed++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct rng rng = {seed};
        struct regex *regex = NULL;
        struct str found = STR_NONE;
        _cleanup_(buf_done) struct buf pattern = {0};
        char text[700];
        char name[192];

        for (size_t i = 0, count = 1 + rng_below(&rng, 6); i < count; i++)
            buf_addf(&pattern, "%s", parts[rng_below(&rng, COUNT_OF(parts))]);
        make_text(&rng, text, 200 + rng_below(&rng, sizeof(text) - 200));
        (void)snprintf(name, sizeof(name), "seed %llu: %s", (unsigned long long)seed, pattern.p);
        test_case(name);
        EXPECT(regex_compile(&arena, buf_str(&pattern), &regex, NULL) == 0);
        bool any = regex && regex_find(regex, str_from(text), 0, &found);
        EXPECT(regex && regex_matches(regex, str_from(text)) == any);
        matched += any;
    }
    EXPECT(matched > 40 && matched < 360);
}

/* Back-tracking engines take longer than the age of the universe for these. */
TEST(patterns_cost_no_more_than_their_bounds)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct regex *regex = NULL;
    char text[REGEX_BYTES_MAX + 1];

    memset(text, 'a', sizeof(text));
    EXPECT(regex_compile(&arena, STR("^(a+)+(a|aa)*(a*)*$b"), &regex, NULL) == 0);
    EXPECT(regex && !regex_matches(regex, (struct str){text, sizeof(text)}));
    EXPECT(regex_compile(&arena, STR("((((a{100}){100}){100}){100})"), &regex, NULL) < 0);
    EXPECT(regex_compile(&arena, STR("(a{1000}){3}|((a{900}){1000})"), &regex, NULL) < 0);
    EXPECT(regex_compile(&arena, (struct str){text, sizeof(text)}, &regex, NULL) < 0);
    memset(text, '(', sizeof(text));
    EXPECT(regex_compile(&arena, (struct str){text, sizeof(text)}, &regex, NULL) < 0);
}
