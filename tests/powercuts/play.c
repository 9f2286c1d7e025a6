#include "powercuts/play.h"

#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "tool/file.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* powercuts-play PLAY COUNT FOLDER, and powercuts-play look PLAY FOLDER...: see play.h. */

#define LINE_BYTES 400

void say(const char *fmt, ...)
{
    char line[LINE_BYTES];
    va_list args;

    va_start(args, fmt);
    int n = vsnprintf(line, sizeof(line) - 1, fmt, args);
    va_end(args);
    if (n >= (int)sizeof(line) - 1)
        n = (int)sizeof(line) - 2;
    line[n] = '\n';
    if (write(STDOUT_FILENO, line, (size_t)n + 1) < 0)
        exit(EXIT_FAILURE);
}

/* ---- files that are replaced ---- */

#define FILE_COUNT 2

static struct str file_content(struct arena *arena, int value)
{
    struct str text = str_printf(arena, "%d\n", value);

    for (int i = 0; i < 40; i++)
        text = str_printf(arena, STR_FMT "line %d of %d\n", STR_ARG(text), i, value);
    return text;
}

void play_files(const char *folder, int count)
{
    for (int i = 1; i <= count; i++) {
        struct arena arena = {0};
        struct err err = {0};
        char path[4096];

        (void)snprintf(path, sizeof(path), "%s/f%d", folder, i % FILE_COUNT);
        say("try f%d %d", i % FILE_COUNT, i);
        if (file_replace(path, file_content(&arena, i), 0600, &err) < 0)
            say("failed %s", err.text);
        else
            say("ack f%d %d", i % FILE_COUNT, i);
        arena_done(&arena);
    }
}

void look_files(const char *folder)
{
    for (int i = 0; i < FILE_COUNT; i++) {
        struct arena arena = {0};
        struct err err = {0};
        struct str text = STR("");
        char path[4096];
        int64_t value = 0;

        (void)snprintf(path, sizeof(path), "%s/f%d", folder, i);
        int r = file_read(&arena, path, &text, &err);
        struct str rest = text;
        struct str first = STR("");
        if (r == 0 && (!str_cut(&rest, '\n', &first) || !str_to_i64(first, &value) ||
                       !str_eq(text, file_content(&arena, (int)value))))
            say("failed f%d is neither the old nor the new one", i);
        else if (r == 0)
            say("has f%d %lld", i, (long long)value);
        else if (r != -ENOENT)
            say("failed %s", err.text);
        arena_done(&arena);
    }
}

static const struct {
    const char *name;
    void (*play)(const char *folder, int count);
    void (*look)(const char *folder);
} plays[] = {{"store", play_store, look_store},
             {"tree", play_tree, look_tree},
             {"files", play_files, look_files}};

int main(int argc, char *argv[])
{
    for (size_t i = 0; argc > 3 && i < COUNT_OF(plays); i++) {
        int64_t count = 0;

        if (strcmp(argv[1], "look") == 0 && strcmp(argv[2], plays[i].name) == 0) {
            for (int j = 3; j < argc; j++) {
                say("image %s", argv[j]);
                plays[i].look(argv[j]);
            }
            return EXIT_SUCCESS;
        }
        if (strcmp(argv[1], plays[i].name) == 0 && str_to_i64(str_from(argv[2]), &count)) {
            plays[i].play(argv[3], (int)count);
            return EXIT_SUCCESS;
        }
    }
    (void)fprintf(stderr, "usage: powercuts-play store|tree|files COUNT FOLDER\n"
                          "       powercuts-play look store|tree|files FOLDER...\n");
    return EXIT_FAILURE;
}
