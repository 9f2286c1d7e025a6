#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "test.h"
#include "tool/file.h"
#include "tool/option.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct values {
    int64_t nodes;
    int64_t wait_ms;
    bool insecure;
    const char *data;
    const char *config;
    int output;
    struct option_list env;
};

static const char *const outputs[] = {"table", "json", "yaml", NULL};
static const struct option options[] = {
    {"nodes", 'n', OPTION_I64, offsetof(struct values, nodes), .fallback = "1", .min = 1, .max = 64,
     .help = "virtual nodes"},
    {"wait-for", 0, OPTION_DURATION, offsetof(struct values, wait_ms), .fallback = "5s",
     .help = "how long"},
    {"insecure", 'k', OPTION_BOOL, offsetof(struct values, insecure), .help = "no TLS"},
    {"data", 0, OPTION_STR, offsetof(struct values, data), .value = "FOLDER", .help = "where"},
    {"config", 0, OPTION_STR, offsetof(struct values, config), .value = "FILE", .help = "options",
     .flag_only = true},
    {"output", 'o', OPTION_CHOICE, offsetof(struct values, output), .choices = outputs,
     .help = "it's a form"},
    {"env", 'e', OPTION_LIST, offsetof(struct values, env), .help = "may be repeated"},
    {0},
};
static int run_nothing(struct invocation *invocation)
{
    (void)invocation;
    return 0;
}
static const struct command up = {.name = "up",
                                  .summary = "run it",
                                  .usage = "[NAME]",
                                  .options = options,
                                  .values_size = sizeof(struct values),
                                  .args_max = 2,
                                  .run = run_nothing};
static const struct command *const commands[] = {&up, NULL};
static const struct program program = {.name = "muster", .summary = "jobs", .commands = commands};

#define WORDS(...) ((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

/* Parses and returns the values; the error's words go to *err. */
static const struct values *parse(struct arena *arena,
                                  const char *const *argv,
                                  char *envp[],
                                  struct err *err)
{
    struct invocation invocation = {.arena = arena};

    *err = (struct err){0};
    return option_parse(&program, &up, argv, envp, &invocation, err) == 0 ? invocation.values
                                                                          : NULL;
}

TEST(option_forms_of_a_flag_are_the_same)
{
    static const struct {
        const char *argv[4];
        const char *why;
    } rows[] = {
        {{"--nodes", "4"}, "two words"}, {{"--nodes=4"}, "equals sign"},
        {{"-n", "4"}, "letter"},         {{"-n4"}, "letter and value in one word"},
        {{"-kn4"}, "letters together"},  {{"--nodes", "3", "--nodes", "4"}, "the last counts"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct err err;
        const char *argv[5] = {0};

        memcpy(argv, rows[i].argv, sizeof(rows[i].argv));
        const struct values *values = parse(&arena, argv, NULL, &err);
        test_case(rows[i].why);
        EXPECT(values && values->nodes == 4);
        arena_done(&arena);
    }
}

TEST(option_mistakes_say_which_flag_and_what_to_do)
{
    static const struct {
        const char *argv[3];
        const char *text;
    } rows[] = {
        {{"--nodes", "x"}, "--nodes: \"x\" is not a number"},
        {{"--nodes", ""}, "--nodes: \"\" is not a number"},
        {{"--nodes", "0"}, "--nodes: 0 is not between 1 and 64"},
        {{"--nodes", "99999999999999999999"}, "--nodes: \"99999999999999999999\" is not a number"},
        {{"--nodes"}, "--nodes: needs a value (N)"},
        {{"--node"}, "--node: no such flag; did you mean --nodes?"},
        {{"--zzz"}, "--zzz: no such flag; --help lists them"},
        {{"-z"}, "-z: no such flag; --help lists them"},
        {{"--wait-for", "5"}, "--wait-for: \"5\" is not a duration such as 90s or 1h30m"},
        {{"--insecure=maybe"}, "--insecure: \"maybe\" is neither true nor false"},
        {{"-o", "xml"}, "-o: \"xml\" is not one of table, json, yaml"},
        {{"a", "b", "c"}, "unexpected argument \"c\": muster up [flags] [NAME]"},
        {{"--config", "/nonexistent/x"}, "--config: /nonexistent/x: No such file or directory"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct err err;
        const char *argv[4] = {0};

        memcpy(argv, rows[i].argv, sizeof(rows[i].argv));
        test_case(rows[i].text);
        EXPECT(!parse(&arena, argv, NULL, &err));
        EXPECT(strcmp(err.text, rows[i].text) == 0);
        arena_done(&arena);
    }
}

TEST(option_flag_beats_environment_beats_config_beats_fallback)
{
    char path[] = "/tmp/muster-config-XXXXXX";
    int fd = mkstemp(path);
    char nodes[] = "MUSTER_NODES=3";
    char wait[] = "MUSTER_WAIT_FOR=1m";
    char *envp[] = {nodes, wait, NULL};
    struct arena arena = {0};
    struct err err;

    EXPECT(fd >= 0 && close(fd) == 0);
    EXPECT(file_replace(path, STR("nodes: 2\nwait-for: 2m\ninsecure: yes\nenv: [A=1, B=2]\n"), 0600,
                        NULL) == 0);
    const struct values *values =
        parse(&arena, WORDS("--config", path, "--nodes", "4", "-e", "C=3"), envp, &err);
    EXPECT(values && values->nodes == 4 && values->wait_ms == 60000 && values->insecure);
    EXPECT(values && values->env.count == 1 && strcmp(values->env.items[0], "C=3") == 0);
    EXPECT(values && values->output == 0 && !values->data);

    values = parse(&arena, WORDS("--config", path), NULL, &err);
    EXPECT(values && values->nodes == 2 && values->env.count == 2);
    values = parse(&arena, WORDS(), envp, &err);
    EXPECT(values && values->nodes == 3 && !values->insecure);

    nodes[sizeof(nodes) - 2] = 'x';
    EXPECT(!parse(&arena, WORDS(), envp, &err));
    EXPECT(strcmp(err.text, "MUSTER_NODES: \"x\" is not a number") == 0);

    EXPECT(file_replace(path, STR("nodes: 2\nnoodles: 3\n"), 0600, NULL) == 0);
    EXPECT(!parse(&arena, WORDS("--config", path), NULL, &err));
    EXPECT(strstr(err.text, "noodles: no such option"));
    EXPECT(file_replace(path, STR("config: x\n"), 0600, NULL) == 0);
    EXPECT(!parse(&arena, WORDS("--config", path), NULL, &err)); /* flag only */
    EXPECT(unlink(path) == 0);
    arena_done(&arena);
}

TEST(option_arguments_may_stand_between_flags_and_behind_dashes)
{
    struct arena arena = {0};
    struct invocation invocation = {.arena = &arena};

    EXPECT(option_parse(&program, &up, WORDS("a", "-k", "--", "--nodes"), NULL, &invocation,
                        NULL) == 0);
    EXPECT(invocation.arg_count == 2 && invocation.dash_count == 1);
    EXPECT(strcmp(invocation.args[0], "a") == 0 && strcmp(invocation.args[1], "--nodes") == 0);
    EXPECT(!invocation.args[2]);
    arena_done(&arena);
}

TEST(flags_may_stand_before_the_command)
{
    static const struct command top = {.name = "top", .options = &options[2], .run = run_nothing};
    static const struct command *const both[] = {&top, &up, NULL};
    static const struct program many = {.name = "muster", .commands = both};
    static const struct {
        const char *words[6];
        const char *ordered; /* NULL: no command is named */
        const char *why;
    } rows[] = {
        {{"-n", "4", "up", "a"}, "up -n 4 a", "a letter and its value"},
        {{"--nodes=4", "-k", "up"}, "up --nodes=4 -k", "a value in the same word; a bool"},
        {{"--data", "top", "up"}, "up --data top", "a value that is called as a command"},
        {{"-k", "top", "up"}, "top -k up", "the first command whose flags these are"},
        {{"--zzz", "up"}, "up --zzz", "an unknown flag: the command says so"},
        {{"--help", "up"}, "up --help", "help about a command"},
        {{"-n", "4"}, NULL, "no command"},
        {{"-n", "4", "--", "up"}, NULL, "behind dashes"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        char text[64] = "";
        const char *const *words = program_order(&many, &arena, rows[i].words);

        test_case(rows[i].why);
        EXPECT((words == NULL) == (rows[i].ordered == NULL));
        for (size_t k = 0, n = 0; words && words[k]; k++)
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", k ? " " : "", words[k]);
        EXPECT(!words || strcmp(text, rows[i].ordered) == 0);
        arena_done(&arena);
    }
}

static char *help_of(const struct command *command)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    option_help(out, &program, command);
    EXPECT(fclose(out) == 0);
    return text;
}

TEST(help_names_the_variables_that_are_read_and_no_others)
{
    static const struct option flags[] = {
        {"data", 0, OPTION_STR, offsetof(struct values, data), .help = "x", .flag_only = true},
        {0},
    };
    static const struct command flags_only = {.name = "up", .options = flags};
    char *text = help_of(&up);

    EXPECT(strstr(text, "Also from the environment: MUSTER_NODES, MUSTER_WAIT_FOR,"));
    EXPECT(!strstr(text, "MUSTER_CONFIG"));
    free(text);
    text = help_of(&flags_only);
    EXPECT(strstr(text, "\nFlags:\n") && !strstr(text, "environment"));
    free(text);
}

/* Everything that describes the program names every option. */
TEST(option_help_manuals_and_completion_name_every_option)
{
    static const char *const kinds[] = {"help", "man", "markdown", "bash", "zsh", "fish"};

    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
        char *text = NULL;
        size_t bytes = 0;
        FILE *out = open_memstream(&text, &bytes);

        test_case(kinds[k]);
        if (k == 0)
            option_help(out, &program, &up);
        else if (k == 1)
            program_man(out, &program);
        else if (k == 2)
            program_markdown(out, &program);
        else
            EXPECT(program_completion(out, &program, kinds[k]));
        EXPECT(fclose(out) == 0);
        for (const struct option *option = options; option->name; option++) {
            char escaped[32] = {0}; /* the manual writes \- for - */
            for (size_t i = 0, n = 0; option->name[i]; i++) {
                if (k == 1 && option->name[i] == '-')
                    escaped[n++] = '\\';
                escaped[n++] = option->name[i];
            }
            EXPECT(strstr(text, escaped));
        }
        free(text);
    }
    EXPECT(!program_completion(stderr, &program, "tcsh"));
}

static void note_unknown(void *user, struct str name, const char *near)
{
    (void)snprintf((char *)user + strlen(user), 200 - strlen(user), STR_FMT ":%s ", STR_ARG(name),
                   near ? near : "");
}

TEST(a_variable_that_no_command_reads_is_told_with_the_flag_that_was_meant)
{
    static const struct command lone_command = {.name = "demo", .options = options};
    static const struct command *const lone_commands[] = {&lone_command, NULL};
    static const struct program lone = {.name = "muster", .commands = lone_commands};
    char a[] = "MUSTER_NODES=3", b[] = "MUSTER_NODE=3", c[] = "MUSTER_TEST_X=1", d[] = "PATH=/bin";
    char *envp[] = {a, b, c, d, NULL};
    char told[200] = "";

    option_unknown_environment(&lone, &lone_command, envp, note_unknown, told);
    EXPECT(strcmp(told, "MUSTER_NODE:nodes ") == 0);
}

TEST(option_environment_name_is_the_option_in_capitals)
{
    char name[OPTION_ENVIRONMENT_BYTES];

    EXPECT(strcmp(option_environment(&options[1], name), "MUSTER_WAIT_FOR") == 0);
}

TEST(a_command_that_wraps_another_leaves_the_flags_behind_its_first_argument_alone)
{
    static const struct command wrap = {.name = "wrap",
                                        .options = options,
                                        .values_size = sizeof(struct values),
                                        .args_max = 9,
                                        .wraps = true};
    static const char *const words[] = {"-n", "3", "train.py", "--nodes", "x", "--", "-q", NULL};
    static const char *const kept[] = {"train.py", "--nodes", "x", "--", "-q"};
    _cleanup_(arena_done) struct arena arena = {0};
    struct invocation invocation = {.arena = &arena};
    struct err err = {0};

    EXPECT(option_parse(&program, &wrap, words, NULL, &invocation, &err) == 0);
    EXPECT(invocation.arg_count == COUNT_OF(kept));
    for (size_t i = 0; i < COUNT_OF(kept) && i < invocation.arg_count; i++)
        EXPECT(strcmp(invocation.args[i], kept[i]) == 0);
}
