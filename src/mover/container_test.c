#include "base/count.h"
#include "mover/container.h"
#include "test.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a container has left of its memory limit, by the files of either version of control groups. */

struct file {
    const char *name;
    const char *text; /* NULL: it is not there */
};

static void put(const char *root, const struct file *file)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof(path), "%s/%s", root, file->name);
    FILE *to = fopen(path, "we");
    EXPECT(to && fputs(file->text, to) >= 0);
    if (to)
        (void)fclose(to);
}

TEST(the_room_of_a_container_is_its_limit_less_what_it_cannot_give_back)
{
    static const struct {
        const char *why;
        struct file files[3];
        int64_t mib;
    } rows[] = {
        {"no files: no limit", {{NULL, NULL}}, INT64_MAX},
        {"version 2 without a limit",
         {{"memory.max", "max\n"}, {"memory.current", "1048576\n"}},
         INT64_MAX},
        {"version 2; what files hold can be dropped",
         {{"memory.max", "1073741824\n"},
          {"memory.current", "805306368\n"},
          {"memory.stat", "anon 5\nfile 7\ninactive_file 268435456\n"}},
         512},
        {"more in use than the limit allows",
         {{"memory.max", "1048576\n"}, {"memory.current", "4194304\n"}},
         0},
        {"version 1",
         {{"memory/memory.limit_in_bytes", "1073741824\n"},
          {"memory/memory.usage_in_bytes", "536870912\n"},
          {"memory/memory.stat", "inactive_file 9\ntotal_inactive_file 104857600\n"}},
         612},
        {"version 1 without a limit",
         {{"memory/memory.limit_in_bytes", "9223372036854771712\n"},
          {"memory/memory.usage_in_bytes", "536870912\n"}},
         INT64_MAX},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char root[] = "/tmp/muster-room-XXXXXX", path[PATH_MAX];

        EXPECT(mkdtemp(root));
        (void)snprintf(path, sizeof(path), "%s/memory", root);
        EXPECT(mkdir(path, 0700) == 0);
        for (size_t f = 0; f < COUNT_OF(rows[i].files) && rows[i].files[f].name; f++)
            put(root, &rows[i].files[f]);
        if (container_room_mib(root) != rows[i].mib)
            test_fail(__FILE__, __LINE__, rows[i].why);
        for (size_t f = 0; f < COUNT_OF(rows[i].files) && rows[i].files[f].name; f++) {
            (void)snprintf(path, sizeof(path), "%s/%s", root, rows[i].files[f].name);
            (void)unlink(path);
        }
        (void)snprintf(path, sizeof(path), "%s/memory", root);
        (void)rmdir(path);
        (void)rmdir(root);
    }
}
