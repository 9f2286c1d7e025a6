#include "agent/cgroup.h"
#include "agent/freeze.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "test.h"
#include "tool/files.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static bool has(const char *folder, const char *file, const char *text)
{
    _cleanup_(buf_done) struct buf found = {0};
    char path[PATH_MAX];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, file);
    return files_read(path, 64, &found) && str_is(buf_str(&found), text);
}

static void put(const char *folder, const char *file, const char *text)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, file);
    EXPECT(files_make_folder(folder, 0755, NULL) == 0);
    EXPECT(files_write(path, str_from(text), 0600, NULL) == 0);
}

TEST(a_group_is_frozen_by_its_own_file_and_says_when_all_stand)
{
    static const struct {
        enum cgroup_kind kind;
        const char *file;
        const char *events; /* NULL: there is no group yet */
        int stops;
        const char *frozen;
        const char *goes_on;
        const char *why;
    } rows[] = {
        {CGROUP_V2, "cgroup.freeze", "populated 1\nfrozen 1\n", 0, "1", "0", "all stand"},
        {CGROUP_V2, "cgroup.freeze", "populated 1\nfrozen 0\n", -EAGAIN, "1", "0", "not yet"},
        {CGROUP_V2, "cgroup.freeze", NULL, 0, NULL, NULL, "nothing was started yet"},
        {CGROUP_V1, "freezer.state", "", 0, "FROZEN", "THAWED", "version 1"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char top[] = "/tmp/muster-freeze-XXXXXX", group[64];
        struct cgroups cgroups = {.kind = rows[i].kind};
        struct freeze freeze = {.cgroups = &cgroups, .uid = STR("u")};

        test_case(rows[i].why);
        EXPECT(mkdtemp(top) != NULL);
        (void)snprintf(cgroups.memory, sizeof(cgroups.memory), "%s", top);
        (void)snprintf(cgroups.freezer, sizeof(cgroups.freezer), "%s", top);
        (void)snprintf(group, sizeof(group), "%s/u", top);
        if (rows[i].events) {
            put(group, rows[i].file, "");
            put(group, "cgroup.events", rows[i].events);
        }
        EXPECT(freeze_stop(&freeze, NULL) == rows[i].stops);
        EXPECT(!rows[i].frozen || has(group, rows[i].file, rows[i].frozen));
        EXPECT(freeze_go(&freeze, NULL) == 0);
        EXPECT(!rows[i].goes_on || has(group, rows[i].file, rows[i].goes_on));
        files_remove(top);
    }
}

TEST(without_groups_processes_and_their_children_are_stopped_by_signals)
{
    struct cgroups cgroups = {.kind = CGROUP_NONE};
    int status = 0, ends[2];
    char byte;

    EXPECT(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        (void)fork(); /* both wait until the pipe ends */
        (void)close(ends[1]);
        _exit(read(ends[0], &byte, 1) == 0 ? 7 : 1);
    }
    struct freeze freeze = {.cgroups = &cgroups, .roots = &child, .root_count = 1};
    int r = -EAGAIN;
    for (int i = 0; i < 10000 && r == -EAGAIN; i++)
        r = freeze_stop(&freeze, NULL);
    EXPECT(r == 0);
    EXPECT(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    EXPECT(freeze_go(&freeze, NULL) == 0);
    (void)close(ends[1]);
    (void)close(ends[0]);
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
}
