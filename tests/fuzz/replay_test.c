#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "fuzz/fuzz.h"
#include "test.h"
#include "tool/file.h"

#include <dirent.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Run a target on every file of its corpus, and on every beginning of it: cut texts are what a
 * broken connection gives. Returns how many files there were. */
#define PREFIX_BYTES_MAX 300

static void replay_file(const struct fuzz_target *target, const char *path)
{
    struct arena arena = {0};
    struct str text = STR_NONE;

    EXPECT(file_read(&arena, path, &text, NULL) == 0);
    target->run(text);
    for (size_t len = 0; len < text.len && len < PREFIX_BYTES_MAX; len++) {
        /* In a block of its own size, so that a step past the end is seen. */
        char *exact = malloc(len ? len : 1);

        EXPECT(exact);
        if (exact && len)
            memcpy(exact, text.p, len);
        target->run((struct str){exact, len});
        free(exact);
    }
    arena_done(&arena);
}

static size_t replay(const struct fuzz_target *target)
{
    char folder[256];
    size_t count = 0;

    (void)snprintf(folder, sizeof(folder), "%s/%s", CORPUS_FOLDER, target->name);
    DIR *open = opendir(folder);
    EXPECT(open);
    for (const struct dirent *entry = open ? readdir(open) : NULL; entry; entry = readdir(open)) {
        char path[600];

        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        replay_file(target, path);
        count++;
    }
    if (open)
        (void)closedir(open);
    return count;
}

TEST(fuzz_targets_hold_on_their_corpora)
{
    size_t targets = 0;

    for (const struct fuzz_target *target = fuzz_targets(); target; target = target->next) {
        test_case(target->name);
        EXPECT(replay(target) > 0);
        targets++;
    }
    EXPECT(targets >= 6);
}
