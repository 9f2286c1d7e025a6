#include "tool/option.h"

#include <stdio.h>
#include <string.h>

/* What a person reads about a program: --help. All of it comes from the tables. */

#define FLAG_COLUMN  30 /* where the help of a flag starts */
#define TEXT_COLUMNS 80

const char *option_placeholder(const struct option *option)
{
    if (option->value)
        return option->value;
    switch (option->type) {
    case OPTION_I64: return "N";
    case OPTION_DURATION: return "DURATION";
    case OPTION_BOOL:
    case OPTION_STR:
    case OPTION_CHOICE:
    case OPTION_LIST: break;
    }
    return "VALUE";
}

static int print_flag(FILE *out, const struct option *option)
{
    int width = option->letter ? fprintf(out, "  -%c, ", option->letter) : fprintf(out, "      ");

    width += fprintf(out, "--%s", option->name);
    if (option->type == OPTION_CHOICE && !option->value) {
        for (size_t i = 0; option->choices[i]; i++)
            width += fprintf(out, "%s%s", i ? "|" : " ", option->choices[i]);
    } else if (option->type != OPTION_BOOL) {
        width += fprintf(out, " %s", option_placeholder(option));
    }
    return width;
}

static void print_options(FILE *out, const struct option *options)
{
    for (const struct option *option = options; option && option->name; option++) {
        int width = print_flag(out, option);

        if (width >= FLAG_COLUMN) {
            (void)fprintf(out, "\n");
            width = 0;
        }
        (void)fprintf(out, "%*s%s", FLAG_COLUMN - width, "", option->help);
        if (option->fallback && option->type != OPTION_BOOL)
            (void)fprintf(out, " (default %s)", option->fallback);
        (void)fprintf(out, "\n");
    }
    (void)fprintf(out, "  -h, --help%*sthis text\n", FLAG_COLUMN - 12, "");
}

/* Which flags can be set in the environment as well, in lines of the usual width. */
static void print_variables(FILE *out, const struct option *options)
{
    int column = 0;

    for (const struct option *option = options; option && option->name; option++) {
        char name[OPTION_ENVIRONMENT_BYTES];
        int width = (int)strlen(option_environment(option, name)) + 2;

        if (option->flag_only)
            continue;
        if (column == 0)
            column = fprintf(out, "\nAlso from the environment: %s", name) - 1;
        else if (column + width > TEXT_COLUMNS)
            column = fprintf(out, ",\n  %s", name) - 2;
        else
            column += fprintf(out, ", %s", name);
    }
    if (column)
        (void)fprintf(out, "\n");
}

void option_help(FILE *out, const struct program *program, const struct command *command)
{
    (void)fprintf(out, "%s%s%s: %s\n\n", program->name, command == program->only ? "" : " ",
                  command == program->only ? "" : command->name, command->summary);
    (void)fprintf(out, "Usage: %s%s%s [flags]%s%s\n", program->name,
                  command == program->only ? "" : " ",
                  command == program->only ? "" : command->name, command->usage ? " " : "",
                  command->usage ? command->usage : "");
    if (command->about)
        (void)fprintf(out, "\n%s\n", command->about);
    (void)fprintf(out, "\nFlags:\n");
    print_options(out, command->options);
    print_variables(out, command->options);
    if (command->example)
        (void)fprintf(out, "\nExamples:\n%s\n", command->example);
}

void program_help(FILE *out, const struct program *program)
{
    size_t widest = strlen("completion");

    for (size_t i = 0; program->commands && program->commands[i]; i++) {
        size_t len = strlen(program->commands[i]->name);

        widest = len > widest ? len : widest;
    }
    (void)fprintf(out, "%s: %s\n\nUsage: %s COMMAND [flags] [arguments]\n\nCommands:\n",
                  program->name, program->summary, program->name);
    for (size_t i = 0; program->commands && program->commands[i]; i++) {
        const struct command *command = program->commands[i];

        if (!command->hidden)
            (void)fprintf(out, "  %-*s  %s\n", (int)widest, command->name, command->summary);
    }
    (void)fprintf(out, "  %-*s  %s\n", (int)widest, "version", "print the version");
    (void)fprintf(out, "  %-*s  %s\n", (int)widest, "completion",
                  "completion script for bash, zsh or fish");
    (void)fprintf(out, "\n%s COMMAND --help says more about a command.\n", program->name);
}
