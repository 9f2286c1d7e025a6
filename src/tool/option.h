#pragma once

#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct arena;
struct err;

/* option: one table a command says what can be set; flags, environment, config file, --help, the
 * manual page and shell completion all come from it.
 *
 *     struct up_values { int64_t nodes; bool insecure; const char *data; };
 *     static const struct option up_options[] = {
 *         {"nodes", 'n', OPTION_I64, offsetof(struct up_values, nodes), .fallback = "1", .min = 1,
 *          .max = 64, .value = "N", .help = "number of virtual nodes on this machine"},
 *         {0},
 *     };
 *     const struct command command_up = {.name = "up", .summary = "run Muster on this machine",
 *         .options = up_options, .values_size = sizeof(struct up_values), .run = up_run};
 *
 * The option "nodes" is set, strongest first, by --nodes 4 (or --nodes=4, -n 4, -n4), by
 * MUSTER_NODES=4 in the environment, by `nodes: 4` in the YAML file that --config names (where the
 * command has an option "config"), and by its fallback. A bool is set by --insecure or
 * --insecure=false. Flags and arguments may be mixed; everything behind "--" is an argument. Values
 * borrow from argv, the environment and the arena of the invocation. */
enum option_type {
    OPTION_BOOL,     /* bool */
    OPTION_STR,      /* const char *; NULL when nothing set it */
    OPTION_I64,      /* int64_t between min and max */
    OPTION_DURATION, /* int64_t milliseconds, "1h30m", between min and max */
    OPTION_CHOICE,   /* int: index into choices */
    OPTION_LIST,     /* struct option_list: may be given several times */
};

#define OPTION_LIST_MAX 1024 /* times that one flag may be given */

struct option_list VEC_FIELDS(const char *);

struct option {
    const char *name; /* NULL ends the table */
    char letter;      /* short form, or 0 */
    enum option_type type;
    size_t offset;        /* of its variable in the values of the command */
    const char *fallback; /* value when nothing is given; shown by --help */
    int64_t min;          /* min == max == 0: any number */
    int64_t max;
    const char *const *choices; /* NULL-terminated */
    const char *value;          /* placeholder in --help: "FILE" */
    const char *help;           /* one line, lower case, no full stop */
    const char *also;           /* another name that is understood; not in --help */
    bool flag_only; /* no environment variable, no config key (--config itself, secrets) */
};

/* What to say of a flag that there is not, but which people know from elsewhere. */
struct option_hint {
    const char *name; /* NULL ends the table */
    const char *words;
};

struct command;
struct program;

/* What run() gets. */
struct invocation {
    struct arena *arena; /* lives until run() returns */
    const struct program *program;
    const struct command *command;
    void *values;
    const char *const *args; /* what is not a flag; NULL-terminated */
    size_t arg_count;
    size_t dash_count; /* of these, how many stood behind "--" */
};

struct command {
    const char *name;
    const char *summary; /* one line for the list of commands */
    const char *usage;   /* arguments as --help shows them: "NAME [-- COMMAND...]" */
    const char *about;   /* paragraphs for --help and the manual page, or NULL */
    const char *example; /* lines for --help and the manual page, or NULL */
    const struct option *options;
    size_t values_size;
    size_t args_min;
    size_t args_max;                           /* 0: takes none */
    int (*run)(struct invocation *invocation); /* returns the exit status */
    const char *also;                /* other words for it, one blank between them; not listed */
    const struct option_hint *hints; /* NULL: none */
    bool hidden;                     /* not listed: internal */
    bool wraps; /* the first argument ends the flags: what follows belongs to another program */
};

struct program {
    const char *name; /* as it is called: "muster", "kubectl torchrun" */
    const char *summary;
    const struct command *const *commands; /* NULL-terminated */
    /* A program without subcommands has only this one. Leave the other NULL. */
    const struct command *only;
};

/* Exit status for wrong usage. */
#define EXIT_USAGE 2

/* The whole main(): choose the command, read its options, run it. Also answers `--help`, `help
 * [COMMAND]`, `version`, `--version`, `completion bash|zsh|fish` and `man [markdown]`. Wrong usage
 * is one line on stderr, `muster up: --nodes: "x" is not a number`, and EXIT_USAGE. */
int program_main(const struct program *program, int argc, char *argv[], char *envp[]);

/* Flags may stand before the command as well, as kubectl's may: `words` with the command moved to
 * the front, on the arena. A command is meant whose own flags lead up to its name; where none fits,
 * the first word that names one. NULL: no command is named. */
const char *const *program_order(const struct program *program,
                                 struct arena *arena,
                                 const char *const *words);
/* The parts, for tests. `program` gives the name in messages. Reads the config file if one is
 * named. */
int option_parse(const struct program *program,
                 const struct command *command,
                 const char *const *argv,
                 char *envp[],
                 struct invocation *ret,
                 struct err *err);
void option_help(FILE *out, const struct program *program, const struct command *command);
void program_help(FILE *out, const struct program *program);
/* A manual page in man(7) macros, for section 1. */
void program_man(FILE *out, const struct program *program);
/* A reference page in Markdown. */
void program_markdown(FILE *out, const struct program *program);
/* A completion script; false for a shell other than bash, zsh and fish. */
bool program_completion(FILE *out, const struct program *program, const char *shell);
/* The variable that sets an option: "gpus-per-node" is MUSTER_GPUS_PER_NODE. */
#define OPTION_ENVIRONMENT_BYTES 64
const char *option_environment(const struct option *option,
                               char out[static OPTION_ENVIRONMENT_BYTES]);
/* Tells of each variable MUSTER_... that no command of the program reads, with the flag of `command` that was
 * meant, or NULL. Not of MUSTER_TEST_..., which is for tests. */
void option_unknown_environment(const struct program *program,
                                const struct command *command,
                                char *envp[],
                                void (*tell)(void *user, struct str name, const char *near),
                                void *user);
/* What stands for the value in help: "FILE". */
const char *option_placeholder(const struct option *option);
