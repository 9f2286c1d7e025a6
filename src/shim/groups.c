#include "shim/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* shim_groups: what the kernel holds a container to, and its pod's settings. All or nothing: a container for which one of them
 * cannot be had does not start. */

static int write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = write(fd, text, strlen(text));
    int r = n < 0 ? -errno : 0;
    close(fd);
    return r;
}

int groups_make(const struct records *spec, char words[static 256])
{
    const char *file = "";
    uint64_t except = 0;
    struct record record;
    for (size_t next = 0; records_next(spec, &next, &record);) {
        if (record_is(&record, "cgroup.make") && mkdir(record.value, 0755) < 0 && errno != EEXIST)
            return shim_fail(words, "mkdir", record.value);
        if (record_is(&record, "cgroup.file"))
            file = record.value;
        if (record_is(&record, "cgroup.except"))
            (void)shim_number(record.value, 10, &except);
        if (!record_is(&record, "cgroup.write"))
            continue;
        int r = write_text(file, record.value);
        bool spared = except && r == -(int)except;
        except = 0;
        errno = -r;
        if (r && !spared)
            return shim_fail(words, "cannot set the limit", file);
    }
    return 0;
}

int groups_kernel(const struct records *spec, char words[static 256])
{
    const char *file = "";
    struct record record;
    for (size_t next = 0; records_next(spec, &next, &record);) {
        if (record_is(&record, "sysctl.file"))
            file = record.value;
        if (!record_is(&record, "sysctl.write"))
            continue;
        int r = write_text(file, record.value);
        errno = -r;
        if (r)
            return shim_fail(words, "write", file);
    }
    return 0;
}

int groups_join(const struct records *spec, char words[static 256])
{
    struct record record;
    for (size_t next = 0; records_next(spec, &next, &record);)
        if (record_is(&record, "cgroup.join") && write_text(record.value, "0") < 0)
            return shim_fail(words, "join", record.value);
    const char *score = records_get(spec, "oomscore");
    if (score && write_text("/proc/self/oom_score_adj", score) < 0)
        return shim_fail(words, "write", "oom_score_adj");
    return 0;
}
