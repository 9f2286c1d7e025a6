#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "test.h"
#include "workspace/ignore.h"

#include <stddef.h>

static const struct {
    const char *why;
    const char *rules;
    const char *path;
    bool folder;
    bool ignored;
} cases[] = {
    {"a name matches at any depth", "*.pyc", "a/b/c.pyc", false, true},
    {"and nothing else", "*.pyc", "a/b/c.py", false, false},
    {"a star stops at a slash", "a*b", "a/b", false, false},
    {"an inner slash anchors", "a/b", "x/a/b", false, false},
    {"anchored at the top", "/build", "build", true, true},
    {"anchored is not below", "/build", "x/build", true, false},
    {"a trailing slash means folders", "data/", "data", false, false},
    {"a folder it is", "data/", "data", true, true},
    {"two stars cross folders", "a/**/z", "a/b/c/z", false, true},
    {"two stars are also none", "a/**/z", "a/z", false, true},
    {"two stars in front", "**/z", "a/b/z", false, true},
    {"and none before it", "**/z", "z", false, true},
    {"two stars in front are folders, not letters", "**/data.py", "metadata.py", false, false},
    {"nor below", "**/data.py", "a/metadata.py", false, false},
    {"two stars inside are folders", "a/**/z", "a/bz", false, false},
    {"two stars beside a letter are one", "a**b/z", "aXb/z", false, true},
    {"which stays in its folder", "c/*a**b/z", "c/a/b/z", false, false},
    {"two stars behind letters cross folders, as in git", "c/x**/z", "c/xa/b/z", false, true},
    {"many of them end in time", "**/a/**/a/**/a/**/a/**/b", "a/a/a/a/a/a/a/a/a/a/a/a/a/c", false,
     false},
    {"two stars at the end", "a/**", "a/b/c", false, true},
    {"a class", "f[0-9].txt", "f7.txt", false, true},
    {"a negated class", "f[!0-9].txt", "f7.txt", false, false},
    {"the last rule counts", "*.txt\n!keep.txt", "keep.txt", false, false},
    {"and again", "*.txt\n!keep.txt\nkeep.txt", "keep.txt", false, true},
    {"a range", "f[a-c]", "fb", false, true},
    {"a named class", "f[[:digit:]x]", "f7", false, true},
    {"and its neighbour", "f[[:digit:]x]", "fx", false, true},
    {"a class that has no such name matches nothing", "f[[:foo:]x]", "fx", false, false},
    {"a class does not match a slash", "a[/]b", "a/b", false, false},
    {"a backslash at the end matches nothing", "a\\", "a\\", false, false},
    {"a mark of byte order does not count", "\xef\xbb\xbf*.pt", "a.pt", false, true},
    {"comments and blank lines are nothing", "# x\n\n", "# x", false, false},
    {"an escaped mark is a letter", "\\#x", "#x", false, true},
    {"a carriage return does not count", "a.txt\r\n", "a.txt", false, true},
    {"blanks at the end do not count", "a.txt  \n", "a.txt", false, true},
    {"unless they are escaped", "a\\ \n", "a ", false, true},
    {"an escaped backslash escapes no blank", "a\\\\ \n", "a\\", false, true},
    {"a question mark is one letter", "a?c", "abc", false, true},
    {"but no slash", "a?c", "a/c", false, false},
    {"a class that never ends matches nothing", "a[", "a[", false, false},
    {"many stars end in time", "*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false,
     false},
};

TEST(ignore_rules_are_those_of_git)
{
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct ignore ignore = {0};

        test_case(cases[i].why);
        ignore_add(&ignore, &arena, STR(""), STR(".gitignore"), str_from(cases[i].rules));
        EXPECT(ignore_matches(&ignore, str_from(cases[i].path), cases[i].folder) ==
               cases[i].ignored);
        ignore_cut(&ignore, 0);
    }
}

TEST(ignore_rules_of_a_folder_hold_below_it_only)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct ignore ignore = {0};

    ignore_add(&ignore, &arena, STR(""), STR(".gitignore"), STR("*.log"));
    ignore_add(&ignore, &arena, STR("sub"), STR(".gitignore"), STR("!keep.log\n/top"));
    EXPECT(ignore_matches(&ignore, STR("keep.log"), false));
    EXPECT(!ignore_matches(&ignore, STR("sub/keep.log"), false));
    EXPECT(ignore_matches(&ignore, STR("sub/top"), false));
    EXPECT(!ignore_matches(&ignore, STR("sub/x/top"), false));
    EXPECT(!ignore_matches(&ignore, STR("subtle/top"), false));
    ignore_cut(&ignore, 1);
    EXPECT(ignore_matches(&ignore, STR("sub/keep.log"), false));
    ignore_cut(&ignore, 0);
}

TEST(ignore_rules_that_decide_are_named)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct ignore ignore = {0};

    EXPECT(ignore_add(&ignore, &arena, STR(""), STR(".gitignore"), STR("*.pt\n!/keep.pt  \n")));
    const struct ignore_rule *rule = ignore_find(&ignore, STR("keep.pt"), false);
    EXPECT(rule && rule->negated && str_is(rule->line, "!/keep.pt"));
    rule = ignore_find(&ignore, STR("a/keep.pt"), false);
    EXPECT(rule && !rule->negated && str_is(rule->line, "*.pt") &&
           str_is(rule->file, ".gitignore"));
    EXPECT(!ignore_find(&ignore, STR("train.py"), false));
    ignore_cut(&ignore, 0);
}

TEST(ignore_rules_beyond_the_limit_are_said)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf text = {0};
    struct ignore ignore = {0};

    for (size_t i = 0; i < IGNORE_RULES_MAX; i++)
        buf_add(&text, STR("x\n"));
    EXPECT(ignore_add(&ignore, &arena, STR(""), STR(".gitignore"), buf_str(&text)));
    EXPECT(!ignore_add(&ignore, &arena, STR("a"), STR(".gitignore"), STR("# one more\ny\n")));
    ignore_cut(&ignore, 0);
}
