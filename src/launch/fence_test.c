#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "launch/fence.h"
#include "test.h"
#include "workspace/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct volume {
    char path[64];
    char folder[80]; /* of the job, which is made when it is needed */
};

static void volume_make(struct volume *volume)
{
    (void)snprintf(volume->path, sizeof(volume->path), "/tmp/muster-fence-XXXXXX");
    EXPECT(mkdtemp(volume->path) != NULL);
    (void)snprintf(volume->folder, sizeof(volume->folder), "%s/.muster-1", volume->path);
}

static void volume_remove(struct volume *volume)
{
    EXPECT(disk_remove_path(volume->path) == 0);
}

TEST(ranks_of_a_gang_end_when_a_later_one_begins_and_never_for_an_earlier_one)
{
    static const struct {
        const char *why;
        struct fence_gang begun[3]; /* in this order; {0, 0}: none */
        struct fence_gang own;
        bool passed;
        uint64_t by;
    } rows[] = {
        {"nobody else", {{0}}, {0, 0}, false, 0},
        {"itself", {{2, 0}}, {2, 0}, false, 0},
        {"the next generation", {{1, 0}}, {0, 0}, true, 1},
        {"numbers and not texts", {{10, 0}}, {9, 0}, true, 10},
        {"an earlier one that is late", {{3, 0}, {2, 0}}, {3, 0}, false, 0},
        {"the latest is told", {{1, 0}, {4, 0}, {2, 0}}, {0, 0}, true, 4},
        {"the next round in pods that are there", {{1, 2}}, {1, 1}, true, 1},
        {"a round of an earlier generation", {{1, 9}}, {2, 0}, false, 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct volume volume;
        struct fence_gang by;
        struct err err = {0};

        test_case(rows[i].why);
        volume_make(&volume);
        for (size_t k = 0; k < COUNT_OF(rows[i].begun); k++) {
            int r = fence_raise(volume.folder, rows[i].begun[k], &err);

            EXPECT(r == 0 || r == -ESTALE);
        }
        EXPECT(fence_is_passed(volume.folder, rows[i].own, &by) == rows[i].passed);
        EXPECT(!rows[i].passed || by.generation == rows[i].by);
        EXPECT(fence_raise(volume.folder, rows[i].own, &err) == (rows[i].passed ? -ESTALE : 0));
        volume_remove(&volume);
    }
}

TEST(the_first_gang_of_a_job_leaves_nothing_on_the_volume)
{
    struct volume volume;

    volume_make(&volume);
    EXPECT(fence_raise(volume.folder, (struct fence_gang){0}, NULL) == 0);
    EXPECT(access(volume.folder, F_OK) < 0);
    volume_remove(&volume);
}

TEST(files_of_others_in_the_folder_of_a_fence_are_no_gangs)
{
    static const char *const names[] = {"9", "9.", ".9", "a.9", "9.b", "9.9.9", "-9.0"};
    struct volume volume;
    struct fence_gang by;
    char path[128];

    volume_make(&volume);
    EXPECT(mkdir(volume.folder, 0755) == 0);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", volume.folder, names[i]);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        EXPECT(fd >= 0);
        close(fd);
    }
    EXPECT(!fence_is_passed(volume.folder, (struct fence_gang){1, 0}, &by));
    volume_remove(&volume);
}

TEST(a_volume_where_nothing_can_be_written_is_named)
{
    struct err err = {0};

    EXPECT(fence_raise("/proc/.muster-1", (struct fence_gang){1, 0}, &err) < 0);
    EXPECT(strstr(err.text, "/proc/.muster-1") != NULL);
}

TEST(who_looks_ends_once_a_later_gang_has_begun)
{
    struct volume volume;
    int status = 0;

    volume_make(&volume);
    pid_t pid = fence_watch(volume.folder, (struct fence_gang){1, 0});
    EXPECT(pid > 0);
    EXPECT(waitpid(pid, &status, WNOHANG) == 0);
    EXPECT(fence_raise(volume.folder, (struct fence_gang){2, 0}, NULL) == 0);
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE);
    volume_remove(&volume);
}
