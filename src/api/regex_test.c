#include "api/regex.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

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
        "(a)\\1",     "[b-a]",   "a{2,1}", "a{9999}", "a{1,9999}", "\\pL",    "+a",
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
