#include "agent/cgroup.h"
#include "agent/counters.h"
#include "base/str.h"
#include "test.h"
#include "tool/files.h"

#include <stdio.h>
#include <stdlib.h>

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
