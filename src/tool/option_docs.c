#include "tool/option.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The manual page and the completion scripts, from the same tables as everything else. */

#define NAME_BYTES 64

/* "kubectl torchrun" is called kubectl-torchrun; `joint` is what stands for the blank. */
static const char *file_name(const struct program *program, char joint, char out[static NAME_BYTES])
{
    (void)snprintf(out, NAME_BYTES, "%s", program->name);
    for (char *c = out; *c; c++)
        if (*c == ' ' || *c == '-')
            *c = joint;
    return out;
}

/* ---- the manual page ---- */

/* roff takes a leading point or quote, and backslashes, for itself. */
static void man_text(FILE *out, const char *text)
{
    bool line_start = true;

    for (; *text; text++) {
        if (line_start && (*text == '.' || *text == '\''))
            (void)fputs("\\&", out);
        if (*text == '\\')
            (void)fputs("\\e", out);
        else if (*text == '-')
            (void)fputs("\\-", out);
        else
            (void)fputc(*text, out);
        line_start = *text == '\n';
    }
}

static void man_paragraphs(FILE *out, const char *text)
{
    for (const char *at = text; *at;) {
        const char *end = strstr(at, "\n\n");
        char part[4096];

        (void)snprintf(part, sizeof(part), "%.*s", end ? (int)(end - at) : (int)strlen(at), at);
        (void)fputs(".PP\n", out);
        man_text(out, part);
        (void)fputc('\n', out);
        at = end ? end + 2 : at + strlen(at);
    }
}

static void man_options(FILE *out, const struct option *options)
{
    char variable[OPTION_ENVIRONMENT_BYTES];

    for (const struct option *option = options; option && option->name; option++) {
        (void)fputs(".TP\n.B ", out);
        if (option->letter)
            (void)fprintf(out, "\\-%c, ", option->letter);
        (void)fputs("\\-\\-", out);
        man_text(out, option->name);
        if (option->type != OPTION_BOOL)
            (void)fprintf(out, " \\fI%s\\fR", option_placeholder(option));
        (void)fputc('\n', out);
        man_text(out, option->help);
        (void)fputs(".\n", out);
        for (size_t i = 0; option->choices && option->choices[i]; i++)
            (void)fprintf(out, "%s\\fB%s\\fR%s", i ? ", " : "One of ", option->choices[i],
                          option->choices[i + 1] ? "" : ".\n");
        if (option->fallback && option->type != OPTION_BOOL) {
            (void)fputs("Default: ", out);
            man_text(out, option->fallback);
            (void)fputs(".\n", out);
        }
        if (!option->flag_only)
            (void)fprintf(out, "Environment: %s.\n", option_environment(option, variable));
    }
}

static void man_command(FILE *out, const struct program *program, const struct command *command)
{
    if (command != program->only)
        (void)fprintf(out, ".SS %s %s [flags]%s%s\n", program->name, command->name,
                      command->usage ? " " : "", command->usage ? command->usage : "");
    man_text(out, command->summary);
    (void)fputs(".\n", out);
    if (command->about)
        man_paragraphs(out, command->about);
    man_options(out, command->options);
    if (command->example) {
        (void)fputs(".PP\n.nf\n", out);
        man_text(out, command->example);
        (void)fputs("\n.fi\n", out);
    }
}

void program_man(FILE *out, const struct program *program)
{
    char name[NAME_BYTES];

    (void)fprintf(out, ".TH \"%s\" 1 \"\" \"Muster %s\" \"Muster\"\n.SH NAME\n%s \\- ",
                  file_name(program, '-', name), MUSTER_VERSION, name);
    man_text(out, program->summary);
    (void)fprintf(out, "\n.SH SYNOPSIS\n.B %s\n%s[flags] [arguments]\n.SH %s\n", program->name,
                  program->only ? "" : "COMMAND ", program->only ? "DESCRIPTION" : "COMMANDS");
    if (program->only)
        man_command(out, program, program->only);
    for (size_t i = 0; program->commands && program->commands[i]; i++)
        if (!program->commands[i]->hidden)
            man_command(out, program, program->commands[i]);
    (void)fputs(".SH EXIT STATUS\n0: success. 2: wrong usage. 1, or what the command documents: "
                "other failures.\n",
                out);
}

/* ---- completion ---- */

static void option_choices(FILE *out,
                           const struct option *option,
                           const char *before,
                           const char *after)
{
    for (size_t i = 0; option->choices && option->choices[i]; i++)
        (void)fprintf(out, "%s%s%s", i ? " " : before, option->choices[i],
                      option->choices[i + 1] ? "" : after);
}

static void bash_command(FILE *out, const char *name, const struct option *options)
{
    (void)fprintf(out, "    %s) case $prev in\n", name);
    for (const struct option *option = options; option && option->name; option++) {
        if (option->type == OPTION_BOOL)
            continue;
        (void)fprintf(out, "        --%s", option->name);
        if (option->letter)
            (void)fprintf(out, "|-%c", option->letter);
        (void)fputs(") COMPREPLY=(", out);
        option_choices(out, option, "$(compgen -W \"", "\" -- \"$cur\")");
        (void)fputs(");;\n", out);
    }
    (void)fputs("        *) [[ $cur != -* ]] || COMPREPLY=($(compgen -W \"--help", out);
    for (const struct option *option = options; option && option->name; option++)
        (void)fprintf(out, " --%s", option->name);
    (void)fputs("\" -- \"$cur\"));;\n        esac;;\n", out);
}

static void bash_script(FILE *out, const struct program *program)
{
    char function[NAME_BYTES];
    char name[NAME_BYTES];

    (void)fprintf(
        out,
        "_%s() {\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= i\n"
        "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
        "        [[ ${COMP_WORDS[i]} == -* ]] || { command=${COMP_WORDS[i]}; break; }\n"
        "    done\n"
        "    COMPREPLY=()\n"
        "    case $command in\n",
        file_name(program, '_', function));
    if (!program->only) {
        (void)fputs("    '') COMPREPLY=($(compgen -W \"help version completion", out);
        for (const struct command *const *at = program->commands; *at; at++)
            if (!(*at)->hidden)
                (void)fprintf(out, " %s", (*at)->name);
        (void)fputs("\" -- \"$cur\"));;\n", out);
    }
    if (program->only)
        bash_command(out, "*", program->only->options);
    for (const struct command *const *at = program->commands; at && *at; at++)
        bash_command(out, (*at)->name, (*at)->options);
    (void)fprintf(out, "    esac\n}\ncomplete -o default -F _%s %s\n", function,
                  file_name(program, '-', name));
}

/* Inside single quotes of zsh and fish; `brackets` are special to zsh's _arguments too. */
static void text_quoted(FILE *out, const char *text, const char *also)
{
    for (; *text; text++) {
        if (*text == '\'')
            (void)fputs("'\\'", out);
        else if (strchr(also, *text))
            (void)fputc('\\', out);
        (void)fputc(*text, out);
    }
}

static void zsh_options(FILE *out, const struct option *options)
{
    (void)fputs("_arguments", out);
    for (const struct option *option = options; option && option->name; option++) {
        (void)fprintf(out, " '--%s%s[", option->name, option->type == OPTION_BOOL ? "" : "=");
        text_quoted(out, option->help, "[]:");
        (void)fputc(']', out);
        if (option->type != OPTION_BOOL)
            (void)fprintf(out, ":%s:", option_placeholder(option));
        option_choices(out, option, "(", ")");
        (void)fputc('\'', out);
    }
    (void)fputs(" '*:file:_files'", out);
}

static void zsh_script(FILE *out, const struct program *program)
{
    char name[NAME_BYTES];

    (void)fprintf(out, "#compdef %s\n", file_name(program, '-', name));
    if (program->only) {
        zsh_options(out, program->only->options);
        (void)fputc('\n', out);
        return;
    }
    (void)fputs("local -a commands\ncommands=('help:about a command' 'version:print the version'",
                out);
    for (const struct command *const *at = program->commands; *at; at++) {
        if ((*at)->hidden)
            continue;
        (void)fprintf(out, " '%s:", (*at)->name);
        text_quoted(out, (*at)->summary, ":");
        (void)fputc('\'', out);
    }
    (void)fputs(")\nif (( CURRENT == 2 )); then _describe command commands; return; fi\n"
                "case $words[2] in\n",
                out);
    for (const struct command *const *at = program->commands; *at; at++) {
        (void)fprintf(out, "%s) ", (*at)->name);
        zsh_options(out, (*at)->options);
        (void)fputs(";;\n", out);
    }
    (void)fputs("esac\n", out);
}

static void fish_options(FILE *out,
                         const char *name,
                         const char *condition,
                         const struct option *options)
{
    for (const struct option *option = options; option && option->name; option++) {
        (void)fprintf(out, "complete -c %s%s -l %s%s", name, condition, option->name,
                      option->type == OPTION_BOOL ? "" : " -r");
        if (option->letter)
            (void)fprintf(out, " -s %c", option->letter);
        option_choices(out, option, " -f -a '", "'");
        (void)fputs(" -d '", out);
        text_quoted(out, option->help, "\\");
        (void)fputs("'\n", out);
    }
}

static void fish_script(FILE *out, const struct program *program)
{
    char name[NAME_BYTES];

    (void)file_name(program, '-', name);
    if (program->only)
        fish_options(out, name, "", program->only->options);
    for (const struct command *const *at = program->commands; at && *at; at++) {
        char condition[128];

        if (!(*at)->hidden) {
            (void)fprintf(out, "complete -c %s -n __fish_use_subcommand -f -a %s -d '", name,
                          (*at)->name);
            text_quoted(out, (*at)->summary, "\\");
            (void)fputs("'\n", out);
        }
        (void)snprintf(condition, sizeof(condition), " -n '__fish_seen_subcommand_from %s'",
                       (*at)->name);
        fish_options(out, name, condition, (*at)->options);
    }
}

bool program_completion(FILE *out, const struct program *program, const char *shell)
{
    if (strcmp(shell, "bash") == 0)
        bash_script(out, program);
    else if (strcmp(shell, "zsh") == 0)
        zsh_script(out, program);
    else if (strcmp(shell, "fish") == 0)
        fish_script(out, program);
    else
        return false;
    return true;
}
