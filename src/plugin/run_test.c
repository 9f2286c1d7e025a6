#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "plugin/run.h"
#include "test.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TEST(run_makes_the_command_that_a_person_means)
{
    const struct {
        const char *why;
        struct run_words words;
        const char *command; /* NULL: refused */
    } rows[] = {
        {"a script and its flags",
         {.args = (const char *const[]){"train.py", "--lr", "0.1"}, .count = 3},
         "python train.py --lr 0.1"},
        {"words that a shell would read are quoted",
         {.args = (const char *const[]){"train.py", "a b", "it's", "$HOME"}, .count = 4},
         "python train.py 'a b' 'it'\\''s' '$HOME'"},
        {"a module",
         {.args = (const char *const[]){"pkg.train", "-x"}, .count = 2, .module = true},
         "python -m pkg.train -x"},
        {"any command",
         {.args = (const char *const[]){"nvidia-smi", "-L"}, .count = 2, .dashed = true},
         "'nvidia-smi' '-L'"},
        {"a line for the shell",
         {.args = (const char *const[]){"make; ls"}, .count = 1, .dashed = true},
         "make; ls"},
        {"no script", {.args = (const char *const[]){"train"}, .count = 1}, NULL},
        {"nothing", {.count = 0}, NULL},
        {"both",
         {.args = (const char *const[]){"x"}, .count = 1, .dashed = true, .module = true},
         NULL},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct str command = STR_NONE;
        struct err err = {0};

        test_case(rows[i].why);
        EXPECT((run_command_text(&arena, &rows[i].words, &command, &err) == 0) ==
               !!rows[i].command);
        EXPECT(rows[i].command ? str_is(command, rows[i].command) : err.text[0]);
    }
}

TEST(a_script_in_the_folder_is_the_one_that_is_sent)
{
    static const struct {
        const char *why;
        const char *folder;
        const char *script;
        const char *inside;
    } cases[] = {
        {"in it", "/home/me/p", "/home/me/p/train.py", "train.py"},
        {"deeper", "/home/me/p", "/home/me/p/a/train.py", "a/train.py"},
        {"a neighbour", "/home/me/p", "/home/me/pq/train.py", NULL},
        {"elsewhere", "/home/me/p", "/home/me/train.py", NULL},
        {"the folder itself", "/home/me/p", "/home/me/p/", NULL},
        {"everything", "/", "/train.py", "train.py"},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const char *inside = run_inside(cases[i].folder, cases[i].script);

        test_case(cases[i].why);
        EXPECT(cases[i].inside ? inside && strcmp(inside, cases[i].inside) == 0 : !inside);
    }
}

/* As python would be given it there; the job runs in the copy of the folder. */
TEST(a_script_beside_the_folder_is_where_it_is)
{
    _cleanup_(arena_done) struct arena arena = {0};
    char top[] = "/tmp/run-test-XXXXXX";
    char whole[PATH_MAX];
    const char *text;

    EXPECT(mkdtemp(top) && realpath(top, whole));
    EXPECT(mkdir(str_printf(&arena, "%s/p", whole).p, 0700) == 0);
    text = str_printf(&arena, "%s/p", whole).p;
    const struct {
        const char *script;
        const char *called;
    } rows[] = {
        {"train.py", "train.py"},
        {"a/train.py", "a/train.py"},
        {"../p/train.py", "train.py"},
        {"../train.py", str_printf(&arena, "%s/train.py", whole).p},
        {str_printf(&arena, "%s/train.py", text).p, "train.py"},
        {str_printf(&arena, "%s/train.py", whole).p, str_printf(&arena, "%s/train.py", whole).p},
        {"../gone/train.py", "../gone/train.py"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].script);
        EXPECT(strcmp(run_script(&arena, text, rows[i].script), rows[i].called) == 0);
    }
    EXPECT(rmdir(text) == 0 && rmdir(whole) == 0);
}
