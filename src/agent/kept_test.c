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

/* EACH bytes of a pod's logs, kept at that second. */
static void pod_make(const char *folder, const char *ns, int i)
{
    _cleanup_(buf_done) struct buf text = {0};
    struct timespec times[2] = {{.tv_sec = 1000 + i}, {.tv_sec = 1000 + i}};
    char path[128];

    while (text.len < EACH)
        buf_addc(&text, 'x');
    (void)snprintf(path, sizeof(path), "%s/%s_p_%d_u/main", folder, ns, i);
    EXPECT(files_make_folder(path, 0700, NULL) == 0);
    (void)snprintf(path, sizeof(path), "%s/%s_p_%d_u/main/0.log", folder, ns, i);
    EXPECT(files_write(path, buf_str(&text), 0600, NULL) == 0);
    (void)snprintf(path, sizeof(path), "%s/%s_p_%d_u", folder, ns, i);
    EXPECT(utimensat(AT_FDCWD, path, times, 0) == 0);
}

static void folder_make(char folder[static 32])
{
    (void)snprintf(folder, 32, "/tmp/muster-kept-XXXXXX");
    EXPECT(mkdtemp(folder) != NULL);
}

/* Three pods, the first the oldest. */
static void scene_make(char folder[static 32])
{
    folder_make(folder);
    for (int i = 0; i < 3; i++)
        pod_make(folder, "ns", i);
}

static bool is_there(const char *folder, const char *ns, int i)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/%s_p_%d_u", folder, ns, i);
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
            EXPECT(is_there(folder, "ns", i) == (i >= rows[row].first));
        files_remove(folder);
    }
}

/* Who makes pods without end loses his own logs. */
TEST(kept_logs_are_shared_out_by_namespace)
{
    static const char *const spaces[] = {"quiet", "quiet", "loud", "loud", "loud"};
    static const struct {
        const char *why;
        struct kept_limits limits;
        bool stays[COUNT_OF(spaces)];
    } rows[] = {
        {"all", {.pods = 5, .bytes = 5 * EACH}, {true, true, true, true, true}},
        {"three pods", {.pods = 3, .bytes = 5 * EACH}, {false, true, false, true, true}},
        {"two pods", {.pods = 2, .bytes = 5 * EACH}, {false, true, false, false, true}},
        {"bytes of four", {.pods = 5, .bytes = 4 * EACH}, {true, true, false, true, true}},
        {"bytes of two", {.pods = 5, .bytes = 2 * EACH}, {false, true, false, false, true}},
    };

    for (size_t row = 0; row < COUNT_OF(rows); row++) {
        char folder[32];

        test_case(rows[row].why);
        folder_make(folder);
        for (int i = 0; i < (int)COUNT_OF(spaces); i++)
            pod_make(folder, spaces[i], i);
        kept_prune(folder, &rows[row].limits);
        for (int i = 0; i < (int)COUNT_OF(spaces); i++)
            EXPECT(is_there(folder, spaces[i], i) == rows[row].stays[i]);
        files_remove(folder);
    }
}
