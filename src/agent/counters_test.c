#include "agent/cgroup.h"
#include "agent/counters.h"
#include "base/count.h"
#include "base/str.h"
#include "test.h"
#include "tool/files.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Control groups that are played by plain files. */
static void group_write(const char *top, const char *name, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", top, name);
    char *slash = path;
    for (char *p = path; *p; p++)
        if (*p == '/')
            slash = p;
    *slash = '\0';
    EXPECT(files_make_folder(path, 0755, NULL) == 0);
    *slash = '/';
    EXPECT(files_write(path, str_from(text), 0600, NULL) == 0);
}

TEST(memory_that_no_process_has_mapped_counts_for_its_pod)
{
    char top[] = "/tmp/muster-cgroup-XXXXXX";
    EXPECT(mkdtemp(top) != NULL);
    group_write(top, "u/memory.current", "104857600\n");
    group_write(top, "u/memory.stat", "anon 4096\ninactive_file 4857600\nshmem 100000000\n");
    group_write(top, "u/pids.current", "7\n");
    group_write(top, "u/c/cgroup.procs", "");
    struct cgroups cgroups = {.kind = CGROUP_V2};
    (void)snprintf(cgroups.memory, sizeof(cgroups.memory), "%s", top);
    struct counters use = counters_of_pod(&cgroups, STR("u"));
    EXPECT(use.memory_bytes == 100000000);
    EXPECT(use.tasks == 7);
    files_remove(top);
}

TEST(what_groups_count_is_not_counted_process_by_process)
{
    static const struct {
        enum cgroup_kind kind;
        const char *folder;
        const char *memory;
        const char *cpu; /* its file; NULL: no group counts it */
        const char *used;
        const char *why;
    } rows[] = {
        {CGROUP_V2, "m/u/c", "memory.current", "m/u/c/cpu.stat", "usage_usec 5\n", "version 2"},
        {CGROUP_V1, "m/u/c", "memory.usage_in_bytes", "c/u/c/cpuacct.usage", "5000\n", "version 1"},
        {CGROUP_V1, "m/u/c", "memory.usage_in_bytes", NULL, NULL, "its CPUs are counted by nobody"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char top[] = "/tmp/muster-cgroup-XXXXXX", file[64], self[32];
        struct cgroups cgroups = {.kind = rows[i].kind};
        struct counters use;

        test_case(rows[i].why);
        EXPECT(mkdtemp(top) != NULL);
        (void)snprintf(cgroups.memory, sizeof(cgroups.memory), "%s/m", top);
        (void)snprintf(cgroups.cpu, sizeof(cgroups.cpu), "%s/c", top);
        (void)snprintf(cgroups.pids, sizeof(cgroups.pids), "%s/m", top);
        (void)snprintf(file, sizeof(file), "%s/%s", rows[i].folder, rows[i].memory);
        group_write(top, file, "4096\n");
        if (rows[i].cpu)
            group_write(top, rows[i].cpu, rows[i].used);
        (void)snprintf(self, sizeof(self), "%d\n", getpid());
        group_write(top, "m/u/c/cgroup.procs", self);
        EXPECT(counters_of_container(&cgroups, STR("u"), STR("c"), &use));
        EXPECT(use.memory_bytes == 4096);
        EXPECT(rows[i].cpu ? use.cpu_ns == 5000 : use.cpu_ns >= 0);
        files_remove(top);
    }
}
