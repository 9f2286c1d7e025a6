#include "tool/option.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>

/* The reference page of a program, from the same tables as its --help. */

/* A bar would end a table's cell, an angle bracket would begin a tag. */
static void text_cell(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '|' || *text == '<')
            (void)fputc('\\', out);
        (void)fputc(*text, out);
    }
}

static void options_table(FILE *out, const struct option *options)
{
    char variable[OPTION_ENVIRONMENT_BYTES];

    if (!options || !options->name)
        return;
    (void)fputs("\n| flag | what it does | default | environment |\n|---|---|---|---|\n", out);
    for (const struct option *option = options; option->name; option++) {
        (void)fputs("| `", out);
        if (option->letter)
            (void)fprintf(out, "-%c, ", option->letter);
        (void)fprintf(out, "--%s", option->name);
        if (option->type != OPTION_BOOL) {
            (void)fputc(' ', out);
            text_cell(out, option_placeholder(option));
        }
        (void)fputs("` | ", out);
        text_cell(out, option->help);
        for (size_t i = 0; option->choices && option->choices[i]; i++)
            (void)fprintf(out, "%s`%s`", i ? ", " : ": ", option->choices[i]);
        (void)fputs(" | ", out);
        if (option->fallback && option->type != OPTION_BOOL) {
            (void)fputc('`', out);
            text_cell(out, option->fallback);
            (void)fputc('`', out);
        }
        (void)fprintf(out, " | %s |\n",
                      option->flag_only ? "" : option_environment(option, variable));
    }
}

/* A summary is lower case without a full stop; here it is a sentence. */
static void text_sentence(FILE *out, const char *text)
{
    (void)fprintf(out, "\n%c%s.\n", toupper((unsigned char)text[0]), text + 1);
}

static void command_section(FILE *out, const struct program *program, const struct command *command)
{
    (void)fputs("\n", out);
    if (command != program->only)
        (void)fprintf(out, "## %s %s\n\n", program->name, command->name);
    (void)fprintf(out, "    %s", program->name);
    if (command != program->only)
        (void)fprintf(out, " %s", command->name);
    if (command->options && command->options->name)
        (void)fputs(" [flags]", out);
    if (command->usage)
        (void)fprintf(out, " %s", command->usage);
    (void)fputs("\n", out);
    text_sentence(out, command->summary);
    if (command->about)
        (void)fprintf(out, "\n%s\n", command->about);
    options_table(out, command->options);
    if (command->example)
        (void)fprintf(out, "\n```\n%s\n```\n", command->example);
}

void program_markdown(FILE *out, const struct program *program)
{
    (void)fprintf(out, "# %s\n", program->name);
    text_sentence(out, program->summary);
    (void)fputs("\nMade by `make reference` from the option tables; do not edit.\n", out);
    if (program->only)
        command_section(out, program, program->only);
    for (size_t i = 0; program->commands && program->commands[i]; i++)
        if (!program->commands[i]->hidden)
            command_section(out, program, program->commands[i]);
}
