#include "agent/machine.h"
#include "test.h"
#include "tool/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

TEST(where_no_overlay_can_be_had_a_root_of_its_own_is_tried_all_the_same)
{
    char folder[] = "/tmp/muster-machine-XXXXXX", path[64];
    struct machine usual, without;

    EXPECT(mkdtemp(folder));
    machine_look(&usual, folder);
    (void)snprintf(path, sizeof(path), "%s/probe", folder);
    EXPECT(mkdir(path, 0700) == 0);
    (void)snprintf(path, sizeof(path), "%s/probe/up", folder); /* no folder for what changes */
    FILE *file = fopen(path, "we");
    EXPECT(file && fclose(file) == 0);
    machine_look(&without, folder);
    EXPECT(!without.overlay);
    EXPECT(without.user_ns == usual.user_ns && without.mount_ns == usual.mount_ns);
    files_remove(folder);
}
