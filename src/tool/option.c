#include "tool/option.h"

#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "base/version.h"
#include "base/yaml.h"
#include "tool/file.h"
#include "tool/term.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Values are applied weakest first: fallbacks, config file, environment, flags. A list that a
 * stronger source gives replaces the weaker one's whole. */
enum source {
    SOURCE_NONE,
    SOURCE_FALLBACK,
    SOURCE_CONFIG,
    SOURCE_ENVIRONMENT,
    SOURCE_FLAG,
};

struct reader {
    const struct command *command;
    struct invocation *into;
    enum source *set_by; /* for each option, who set it last */
    VEC(const char *) args;
    char where[96]; /* "--nodes", "MUSTER_NODES": starts every message */
};

static void *option_variable(const struct reader *reader, const struct option *option)
{
    return (char *)reader->into->values + option->offset;
}

static int value_bad(const struct reader *reader,
                     struct err *err,
                     const char *text,
                     const char *problem)
{
    return err_set(err, -EINVAL, "%s: \"%.80s\" %s", reader->where, text, problem);
}

static int check_range(const struct reader *reader,
                       const struct option *option,
                       const char *text,
                       int64_t value,
                       struct err *err)
{
    if ((option->min == 0 && option->max == 0) || (value >= option->min && value <= option->max))
        return 0;
    if (option->type == OPTION_DURATION)
        return err_set(err, -ERANGE, "%s: \"%.80s\" is not between %lldms and %lldms",
                       reader->where, text, (long long)option->min, (long long)option->max);
    return err_set(err, -ERANGE, "%s: %.80s is not between %lld and %lld", reader->where, text,
                   (long long)option->min, (long long)option->max);
}

static int set_number(const struct reader *reader,
                      const struct option *option,
                      const char *text,
                      struct err *err)
{
    bool duration = option->type == OPTION_DURATION;
    int64_t value = 0;

    if (duration ? !time_parse_duration(str_from(text), &value)
                 : !str_to_i64(str_from(text), &value))
        return value_bad(reader, err, text,
                         duration ? "is not a duration such as 90s or 1h30m" : "is not a number");
    int r = check_range(reader, option, text, value, err);
    if (r == 0)
        *(int64_t *)option_variable(reader, option) = value;
    return r;
}

static int set_bool(const struct reader *reader,
                    const struct option *option,
                    const char *text,
                    struct err *err)
{
    static const char *const yes[] = {"true", "1", "yes", "on"};
    static const char *const no[] = {"false", "0", "no", "off", ""};
    bool *value = option_variable(reader, option);

    for (size_t i = 0; i < COUNT_OF(yes); i++) {
        if (strcmp(text, yes[i]) == 0) {
            *value = true;
            return 0;
        }
    }
    for (size_t i = 0; i < COUNT_OF(no); i++) {
        if (strcmp(text, no[i]) == 0) {
            *value = false;
            return 0;
        }
    }
    return value_bad(reader, err, text, "is neither true nor false");
}

static int set_choice(const struct reader *reader,
                      const struct option *option,
                      const char *text,
                      struct err *err)
{
    char all[120] = "";
    size_t len = 0;

    for (int i = 0; option->choices[i]; i++) {
        if (strcmp(option->choices[i], text) == 0) {
            *(int *)option_variable(reader, option) = i;
            return 0;
        }
        int n = snprintf(all + len, sizeof(all) - len, "%s%s", i ? ", " : "", option->choices[i]);
        len = n > 0 && (size_t)n < sizeof(all) - len ? len + (size_t)n : len;
    }
    return err_set(err, -EINVAL, "%s: \"%.80s\" is not one of %s", reader->where, text, all);
}

static int set_list(struct reader *reader,
                    const struct option *option,
                    const char *text,
                    struct err *err)
{
    struct option_list *list = option_variable(reader, option);

    if (list->count >= OPTION_LIST_MAX)
        return err_set(err, -E2BIG, "%s: given more than %d times", reader->where, OPTION_LIST_MAX);
    VEC_PUSH(reader->into->arena, list, text);
    return 0;
}

/* `text` must live as long as the invocation. */
static int option_set(struct reader *reader,
                      const struct option *option,
                      const char *text,
                      enum source source,
                      struct err *err)
{
    enum source *set_by = &reader->set_by[option - reader->command->options];

    if (option->type == OPTION_LIST && *set_by != source)
        *(struct option_list *)option_variable(reader, option) = (struct option_list){0};
    *set_by = source;
    switch (option->type) {
    case OPTION_BOOL: return set_bool(reader, option, text, err);
    case OPTION_I64:
    case OPTION_DURATION: return set_number(reader, option, text, err);
    case OPTION_CHOICE: return set_choice(reader, option, text, err);
    case OPTION_LIST: return set_list(reader, option, text, err);
    case OPTION_STR: *(const char **)option_variable(reader, option) = text; return 0;
    }
    return -EINVAL;
}

static void set_where(struct reader *reader, const char *prefix, const char *name)
{
    (void)snprintf(reader->where, sizeof(reader->where), "%s%s", prefix, name);
}

static int apply_fallbacks(struct reader *reader, struct err *err)
{
    for (const struct option *option = reader->command->options; option && option->name; option++) {
        if (!option->fallback)
            continue;
        set_where(reader, "default of --", option->name);
        int r = option_set(reader, option, option->fallback, SOURCE_FALLBACK, err);
        if (r < 0)
            return r;
    }
    return 0;
}

const char *option_environment(const struct option *option,
                               char out[static OPTION_ENVIRONMENT_BYTES])
{
    (void)snprintf(out, OPTION_ENVIRONMENT_BYTES, "MUSTER_%s", option->name);
    for (char *c = out; *c; c++)
        *c = *c == '-' ? '_' : *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
    return out;
}

static int apply_environment(struct reader *reader, char *envp[], struct err *err)
{
    for (const struct option *option = reader->command->options; option && option->name; option++) {
        char name[OPTION_ENVIRONMENT_BYTES];

        if (option->flag_only || !envp)
            continue;
        size_t len = strlen(option_environment(option, name));
        for (size_t i = 0; envp[i]; i++) {
            if (strncmp(envp[i], name, len) != 0 || envp[i][len] != '=')
                continue;
            set_where(reader, "", name);
            int r = option_set(reader, option, envp[i] + len + 1, SOURCE_ENVIRONMENT, err);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

/* "nproc_per_node" is "nproc-per-node": torchrun's own flags have both. */
static bool is_flag(struct str name, const char *flag)
{
    size_t i = 0;

    while (flag && i < name.len && flag[i] &&
           (name.p[i] == flag[i] || (name.p[i] == '_' && flag[i] == '-')))
        i++;
    return flag && i == name.len && !flag[i];
}

static const struct option *find_long(const struct command *command, struct str name)
{
    for (const struct option *option = command->options; option && option->name; option++)
        if (is_flag(name, option->name) || is_flag(name, option->also))
            return option;
    return NULL;
}

static const struct option *find_letter(const struct command *command, char letter)
{
    for (const struct option *option = command->options; option && option->name; option++)
        if (option->letter == letter)
            return option;
    return NULL;
}

/* Longest common prefix of at least 2 bytes, or a swap or slip of one character: good enough to
 * name the flag that was meant. */
static const char *flag_suggestion(const struct command *command, struct str name)
{
    const char *best = NULL;
    size_t best_common = 1;

    for (const struct option *option = command->options; option && option->name; option++) {
        size_t common = 0;

        while (common < name.len && option->name[common] == name.p[common])
            common++;
        if (common > best_common) {
            best_common = common;
            best = option->name;
        }
    }
    return best;
}

static bool is_read(const struct program *program, struct str variable)
{
    char name[OPTION_ENVIRONMENT_BYTES];

    for (size_t c = 0; program->commands[c]; c++)
        for (const struct option *o = program->commands[c]->options; o && o->name; o++)
            if (!o->flag_only && str_is(variable, option_environment(o, name)))
                return true;
    return false;
}

void option_unknown_environment(const struct program *program,
                                const struct command *command,
                                char *envp[],
                                void (*tell)(void *user, struct str name, const char *near),
                                void *user)
{
    for (size_t i = 0; envp[i]; i++) {
        struct str name = str_from(envp[i]);
        char flag[OPTION_ENVIRONMENT_BYTES] = "";

        name = str_sub(name, 0, str_find(name, '='));
        if (!str_starts(name, STR("MUSTER_")) || str_starts(name, STR("MUSTER_TEST_")) ||
            is_read(program, name))
            continue;
        (void)snprintf(flag, sizeof(flag), STR_FMT, STR_ARG(str_sub(name, 7, name.len)));
        for (char *c = flag; *c; c++)
            *c = *c == '_' ? '-' : *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
        tell(user, name, flag_suggestion(command, str_from(flag)));
    }
}

static int unknown_flag(const struct reader *reader, struct str name, struct err *err)
{
    const char *near = flag_suggestion(reader->command, name);

    for (const struct option_hint *hint = reader->command->hints; hint && hint->name; hint++)
        if (is_flag(name, hint->name))
            return err_set(err, -EINVAL, "--%s: %s", hint->name, hint->words);

    if (near)
        return err_set(err, -EINVAL, "--" STR_FMT ": no such flag; did you mean --%s?",
                       STR_ARG(str_sub(name, 0, 60)), near);
    return err_set(err, -EINVAL, "--" STR_FMT ": no such flag; --help lists them",
                   STR_ARG(str_sub(name, 0, 60)));
}

/* One word that starts with "--". Returns how many words were used, or an error. */
static int read_long(struct reader *reader, const char *const *argv, struct err *err)
{
    struct str word = str_from(argv[0] + 2);
    size_t equals = str_find(word, '=');
    struct str name = str_sub(word, 0, equals);
    const struct option *option = find_long(reader->command, name);
    const char *text = equals < word.len ? word.p + equals + 1 : NULL;
    int used = 1;

    if (!option)
        return unknown_flag(reader, name, err);
    set_where(reader, "--", option->name);
    if (!text && option->type == OPTION_BOOL)
        text = "true";
    if (!text) {
        text = argv[1];
        used = 2;
    }
    if (!text)
        return err_set(err, -EINVAL, "%s: needs a value (%s)", reader->where,
                       option_placeholder(option));
    int r = option_set(reader, option, text, SOURCE_FLAG, err);
    return r < 0 ? r : used;
}

/* One word of letters, "-xvf FILE". */
static int read_letters(struct reader *reader, const char *const *argv, struct err *err)
{
    for (const char *at = argv[0] + 1; *at; at++) {
        const struct option *option = find_letter(reader->command, *at);
        const char letter[2] = {*at, '\0'};

        if (!option)
            return err_set(err, -EINVAL, "-%s: no such flag; --help lists them", letter);
        set_where(reader, "-", letter);
        if (option->type == OPTION_BOOL) {
            int r = option_set(reader, option, "true", SOURCE_FLAG, err);
            if (r < 0)
                return r;
            continue;
        }
        const char *text = at[1] == '=' ? at + 2 : at[1] ? at + 1 : argv[1];
        if (!text)
            return err_set(err, -EINVAL, "%s: needs a value (%s)", reader->where,
                           option_placeholder(option));
        int r = option_set(reader, option, text, SOURCE_FLAG, err);
        return r < 0 ? r : at[1] ? 1 : 2;
    }
    return 1;
}

static void take_words(struct reader *reader, const char *const *argv)
{
    for (; *argv; argv++)
        VEC_PUSH(reader->into->arena, &reader->args, *argv);
}

/* Everything behind "--" is an argument. */
static void take_rest(struct reader *reader, const char *const *argv)
{
    for (; *argv; argv++) {
        VEC_PUSH(reader->into->arena, &reader->args, *argv);
        reader->into->dash_count++;
    }
}

static int read_flags(struct reader *reader, const char *const *argv, struct err *err)
{
    while (*argv) {
        const char *word = *argv;
        int used = 1;

        if (strcmp(word, "--") == 0) {
            take_rest(reader, argv + 1);
            return 0;
        }
        if (reader->command->wraps && (word[0] != '-' || word[1] == '\0')) {
            take_words(reader, argv);
            return 0;
        }
        if (word[0] != '-' || word[1] == '\0')
            VEC_PUSH(reader->into->arena, &reader->args, word);
        else
            used = word[1] == '-' ? read_long(reader, argv, err) : read_letters(reader, argv, err);
        if (used < 0)
            return used;
        argv += used;
    }
    return 0;
}

/* Text of a value in the config file, NULL for a list or mapping. */
static const char *config_text(struct arena *arena, const struct json *value)
{
    if (json_is(value, JSON_ARRAY) || json_is(value, JSON_OBJECT))
        return NULL;
    if (json_is(value, JSON_STRING))
        return str_c(arena, json_str(value));
    return json_is_null(value) ? "" : str_c(arena, json_text(arena, value));
}

static int apply_config_value(struct reader *reader,
                              const struct option *option,
                              const struct json *value,
                              struct err *err)
{
    const char *text = config_text(reader->into->arena, value);

    if (!text)
        return err_set(err, -EINVAL, "%s: must be a single value", reader->where);
    return option_set(reader, option, text, SOURCE_CONFIG, err);
}

static int apply_config_member(struct reader *reader, const struct json *member, struct err *err)
{
    const struct option *option = find_long(reader->command, json_key(member));

    if (!option || option->flag_only)
        return err_set(err, -EINVAL, STR_FMT ": no such option; --help lists them",
                       STR_ARG(str_sub(json_key(member), 0, 60)));
    if (reader->set_by[option - reader->command->options] > SOURCE_CONFIG)
        return 0;
    set_where(reader, "", option->name);
    if (option->type != OPTION_LIST || !json_is(member, JSON_ARRAY))
        return apply_config_value(reader, option, member, err);
    JSON_FOREACH(member, item) {
        int r = apply_config_value(reader, option, item, err);

        if (r < 0)
            return r;
    }
    return 0;
}

static int apply_config(struct reader *reader, struct err *err)
{
    const struct option *option = find_long(reader->command, STR("config"));
    const char *path = option ? *(const char **)option_variable(reader, option) : NULL;
    struct str text = STR_NONE;
    struct json *config = NULL;
    int r;

    if (!path)
        return 0;
    if ((r = file_read(reader->into->arena, path, &text, err)) < 0)
        return err_wrap(err, r, "--config");
    if ((r = yaml_parse(reader->into->arena, text, &config, err)) < 0)
        return err_wrap(err, r, "--config: %s", path);
    if (!json_is_null(config) && !json_is(config, JSON_OBJECT))
        return err_set(err, -EINVAL, "--config: %s: must be a mapping of option names", path);
    JSON_FOREACH(config, member)
        if ((r = apply_config_member(reader, member, err)) < 0)
            return err_wrap(err, r, "--config: %s", path);
    return 0;
}

static int check_args(const struct reader *reader, const struct program *program, struct err *err)
{
    const struct command *command = reader->command;
    size_t count = reader->args.count;

    assert(command); /* found, or we would not be here */
    const char *name = command == program->only ? "" : command->name;
    const char *usage = command->usage ? command->usage : "";

    if (count < command->args_min)
        return err_set(err, -EINVAL, "an argument is missing: %s%s%s [flags] %s", program->name,
                       *name ? " " : "", name, usage);
    if (count > command->args_max)
        return err_set(err, -EINVAL, "unexpected argument \"%.80s\": %s%s%s [flags] %s",
                       reader->args.items[command->args_max], program->name, *name ? " " : "", name,
                       usage);
    return 0;
}

static size_t option_count(const struct command *command)
{
    size_t count = 0;

    while (command->options && command->options[count].name)
        count++;
    return count;
}

int option_parse(const struct program *program,
                 const struct command *command,
                 const char *const *argv,
                 char *envp[],
                 struct invocation *ret,
                 struct err *err)
{
    struct reader reader = {.command = command, .into = ret};
    size_t count = option_count(command);
    int r;

    ret->program = program;
    ret->command = command;
    ret->dash_count = 0;
    ret->values = arena_alloc(ret->arena, 1, command->values_size ? command->values_size : 1,
                              _Alignof(max_align_t));
    reader.set_by = ARENA_ARRAY(ret->arena, enum source, count + 1);
    if ((r = apply_fallbacks(&reader, err)) < 0 ||
        (r = apply_environment(&reader, envp, err)) < 0 ||
        (r = read_flags(&reader, argv, err)) < 0 || (r = apply_config(&reader, err)) < 0 ||
        (r = check_args(&reader, program, err)) < 0)
        return r;
    ret->arg_count = reader.args.count;
    VEC_PUSH(ret->arena, &reader.args, NULL);
    ret->args = reader.args.items;
    return 0;
}

/* How many of the first words are flags of the command, with their values; -1: one is no flag of
 * it. */
static ptrdiff_t flags_leading(const struct command *command, const char *const *words)
{
    size_t i = 0;

    while (words[i] && words[i][0] == '-' && words[i][1]) {
        const char *word = words[i++];
        struct str name = str_from(word + 1 + (word[1] == '-'));
        size_t equals = str_find(name, '=');
        const struct option *option = word[1] == '-' ? find_long(command, str_sub(name, 0, equals))
                                                     : find_letter(command, word[1]);

        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
            continue;
        if (!option)
            return -1;
        bool whole = word[1] == '-' ? equals < name.len : name.len > 1;
        if (option->type != OPTION_BOOL && !whole && words[i])
            i++;
    }
    return (ptrdiff_t)i;
}

static bool is_command(const struct command *command, const char *name)
{
    struct str others = str_from(command->also);
    struct str word;

    if (strcmp(command->name, name) == 0)
        return true;
    while (str_cut(&others, ' ', &word))
        if (str_is(word, name))
            return true;
    return false;
}

/* The same in front of the command's name; -1: another word is there. */
static ptrdiff_t flags_before(const struct command *command, const char *const *words)
{
    ptrdiff_t count = flags_leading(command, words);

    return count >= 0 && words[count] && is_command(command, words[count]) ? count : -1;
}

/* What follows the first argument of a command that wraps another is the other one's. */
static bool wants_help(const struct command *command, const char *const *argv)
{
    ptrdiff_t own = command->wraps ? flags_leading(command, argv) : PTRDIFF_MAX;

    for (ptrdiff_t i = 0; i < own && argv[i] && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

#define HELP_COLUMNS 80

/* --help, also where it goes to a file or a narrow terminal; NULL: about the program itself. */
static void print_help(const struct program *program, const struct command *command, int fd)
{
    struct term term = term_open(fd, NULL);
    char *text = NULL;
    size_t bytes = 0;
    FILE *page = open_memstream(&text, &bytes);

    if (!page)
        return;
    if (!term.wraps_at || term.wraps_at > HELP_COLUMNS)
        term.wraps_at = HELP_COLUMNS;
    if (command)
        option_help(page, program, command);
    else
        program_help(page, program);
    if (fclose(page) == 0)
        term_page(&term, (struct str){text, bytes});
    free(text);
}

static int run_command(const struct program *program,
                       const struct command *command,
                       const char *const *argv,
                       char *envp[])
{
    struct arena arena = {0};
    struct invocation invocation = {.arena = &arena};
    struct err err = {0};
    int status = EXIT_USAGE;

    if (wants_help(command, argv)) {
        print_help(program, command, STDOUT_FILENO);
        return EXIT_SUCCESS;
    }
    if (option_parse(program, command, argv, envp, &invocation, &err) < 0)
        (void)fprintf(stderr, "%s%s%s: %s\n", program->name, command == program->only ? "" : " ",
                      command == program->only ? "" : command->name, err.text);
    else
        status = command->run(&invocation);
    arena_done(&arena);
    return status;
}

static const struct command *find_command(const struct program *program, const char *name)
{
    for (size_t i = 0; program->commands && program->commands[i]; i++)
        if (is_command(program->commands[i], name))
            return program->commands[i];
    return NULL;
}

static ptrdiff_t command_at(const struct program *program, const char *const *words)
{
    for (size_t i = 0; program->commands && program->commands[i]; i++) {
        ptrdiff_t at = flags_before(program->commands[i], words);

        if (at >= 0)
            return at;
    }
    for (ptrdiff_t at = 0; words[at] && strcmp(words[at], "--") != 0; at++)
        if (find_command(program, words[at]))
            return at;
    return -1;
}

const char *const *program_order(const struct program *program,
                                 struct arena *arena,
                                 const char *const *words)
{
    ptrdiff_t at = command_at(program, words);
    size_t count = 0;
    const char **ordered;

    if (at < 0)
        return NULL;
    while (words[count])
        count++;
    ordered = ARENA_ARRAY(arena, const char *, count + 1);
    ordered[0] = words[at];
    for (size_t i = 0, n = 1; i < count; i++)
        if (i != (size_t)at)
            ordered[n++] = words[i];
    return ordered;
}

/* What every program answers by itself. Returns the exit status, or -1 for "not one of these". */
static int run_builtin(const struct program *program, const char *const *words)
{
    if (strcmp(words[0], "version") == 0 || strcmp(words[0], "--version") == 0) {
        printf(muster_build[0] ? "%s %s (%s)\n" : "%s %s%s\n", program->name, MUSTER_VERSION,
               muster_build);
        return EXIT_SUCCESS;
    }
    if (strcmp(words[0], "man") == 0 && !words[1]) {
        program_man(stdout, program);
        return EXIT_SUCCESS;
    }
    if (strcmp(words[0], "man") == 0 && strcmp(words[1], "markdown") == 0) {
        program_markdown(stdout, program);
        return EXIT_SUCCESS;
    }
    if (strcmp(words[0], "completion") != 0)
        return -1;
    if (words[1] && !words[2] && program_completion(stdout, program, words[1]))
        return EXIT_SUCCESS;
    (void)fprintf(stderr, "%s completion: name bash, zsh or fish\n", program->name);
    return EXIT_USAGE;
}

/* `words` begin with a command, or with no word that is one. */
static int run_words(const struct program *program, const char *const *words, char *envp[])
{
    bool help = strcmp(*words, "help") == 0;

    if (strcmp(*words, "--help") == 0 || strcmp(*words, "-h") == 0 || (help && !words[1])) {
        print_help(program, NULL, STDOUT_FILENO);
        return EXIT_SUCCESS;
    }
    const struct command *command = find_command(program, words[help ? 1 : 0]);
    if (!command) {
        (void)fprintf(stderr, "%s: no command \"%s\"; %s --help lists them\n", program->name,
                      words[help ? 1 : 0], program->name);
        return EXIT_USAGE;
    }
    if (help) {
        print_help(program, command, STDOUT_FILENO);
        return EXIT_SUCCESS;
    }
    return run_command(program, command, words + 1, envp);
}

int program_main(const struct program *program, int argc, char *argv[], char *envp[])
{
    const char *const *words = (const char *const *)argv + (argc > 0);
    const char *const *ordered;
    struct arena arena = {0};

    int status = *words ? run_builtin(program, words) : -1;

    if (status >= 0)
        return status;
    if (program->only)
        return run_command(program, program->only, words, envp);
    if (!*words) {
        print_help(program, NULL, STDERR_FILENO);
        return EXIT_USAGE;
    }
    ordered = **words == '-' ? program_order(program, &arena, words) : NULL;
    status = run_words(program, ordered ? ordered : words, envp);
    arena_done(&arena);
    return status;
}
