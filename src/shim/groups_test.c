#include "base/count.h"
#include "shim/parts.h"
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Every write to /dev/full fails with ENOSPC, as one that the kernel refuses. */
TEST(a_limit_that_cannot_be_written_is_told)
{
    static const struct {
        const char *records;
        size_t len;
        int want;
        const char *why;
    } rows[] = {
#define ROW(text, want, why) {text, sizeof(text) - 1, want, why}
        ROW("cgroup.file=/dev/null\0cgroup.write=1\0", 0, "what can be written"),
        ROW("cgroup.file=/dev/full\0cgroup.write=1\0", -ENOSPC,
            "memory.max that the kernel refuses"),
        ROW("cgroup.file=/nothing/memory.max\0cgroup.write=1\0", -ENOENT,
            "a limit that is not there"),
        ROW("cgroup.except=2\0cgroup.file=/nothing/memsw\0cgroup.write=1\0", 0,
            "a thing few kernels have"),
        ROW("cgroup.except=2\0cgroup.file=/dev/full\0cgroup.write=1\0", -ENOSPC,
            "refused for another reason"),
        ROW("cgroup.except=28\0cgroup.file=/dev/full\0cgroup.write=1\0"
            "cgroup.file=/dev/full\0cgroup.write=1\0",
            -ENOSPC, "the exception is of one file"),
        ROW("cgroup.make=/dev/null/x\0", -ENOTDIR, "a group that cannot be made"),
#undef ROW
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char words[256] = "";
        struct records records = {.p = malloc(rows[i].len), .len = rows[i].len};
        test_case(rows[i].why);
        EXPECT(records.p != NULL);
        memcpy(records.p, rows[i].records, rows[i].len);
        EXPECT(records_cut(&records) == 0);
        EXPECT(groups_make(&records, words) == rows[i].want);
        EXPECT((rows[i].want != 0) == (*words != '\0'));
        if (rows[i].want == -ENOSPC)
            EXPECT(strstr(words, "cannot set the limit /dev/full: No space left") != NULL);
        free(records.items);
        free(records.p);
    }
}
