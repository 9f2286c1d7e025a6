#include "agent/kept.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "test.h"
#include "tool/files.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define EACH 1000 /* bytes */

/* Three pods, the first the oldest. */
static void scene_make(char folder[static 32])
{
    _cleanup_(buf_done) struct buf text = {0};

    (void)snprintf(folder, 32, "/tmp/muster-kept-XXXXXX");
    EXPECT(mkdtemp(folder) != NULL);
    while (text.len < EACH)
        buf_addc(&text, 'x');
    for (int i = 0; i < 3; i++) {
        char path[128];
        struct timespec times[2] = {{.tv_sec = 1000 + i}, {.tv_sec = 1000 + i}};

        (void)snprintf(path, sizeof(path), "%s/ns_p_%d_u/main", folder, i);
        EXPECT(files_make_folder(path, 0700, NULL) == 0);
        (void)snprintf(path, sizeof(path), "%s/ns_p_%d_u/main/0.log", folder, i);
        EXPECT(files_write(path, buf_str(&text), 0600, NULL) == 0);
        (void)snprintf(path, sizeof(path), "%s/ns_p_%d_u", folder, i);
        EXPECT(utimensat(AT_FDCWD, path, times, 0) == 0);
    }
}

static bool is_there(const char *folder, int i)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/ns_p_%d_u", folder, i);
    return access(path, F_OK) == 0;
}

TEST(kept_logs_are_bounded_in_age_pods_and_bytes_and_the_oldest_go_first)
{
    static const struct {
        const char *why;
        struct kept_limits limits;
        int first; /* that stays */
    } rows[] = {
        {"all is within its bounds", {.pods = 3, .bytes = 3 * EACH}, 0},
        {"a byte too many", {.pods = 3, .bytes = 3 * EACH - 1}, 1},
        {"room for one and a half", {.pods = 3, .bytes = EACH + EACH / 2}, 2},
        {"too many pods", {.pods = 1, .bytes = 3 * EACH}, 2},
        {"too old", {.since_ms = 1001000, .pods = 3, .bytes = 3 * EACH}, 1},
        {"nothing may stay", {.pods = 3, .bytes = EACH - 1}, 3},
    };

    for (size_t row = 0; row < COUNT_OF(rows); row++) {
        char folder[32];

        test_case(rows[row].why);
        scene_make(folder);
        kept_prune(folder, &rows[row].limits);
        for (int i = 0; i < 3; i++)
            EXPECT(is_there(folder, i) == (i >= rows[row].first));
        files_remove(folder);
    }
}
