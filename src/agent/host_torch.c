#include "agent/host_torch.h"

#include "base/str.h"

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PYTHON_MINOR_BROKEN 11
#define VERSION_FILE_BYTES  1024

static bool python_is_new(const char *python)
{
    char target[PATH_MAX];
    ssize_t len = readlink(python, target, sizeof(target) - 1);
    struct str text = {target, len > 0 ? (size_t)len : 0};
    int64_t minor = 0;

    while (str_contains(text, STR("/")))
        text = str_sub(text, str_find(text, '/') + 1, text.len);
    if (!str_starts(text, STR("python3.")))
        return false;
    return str_to_i64(str_sub(text, strlen("python3."), text.len), &minor) &&
           minor >= PYTHON_MINOR_BROKEN;
}

bool host_torch_is_broken(const char *python, const char *packages)
{
    char path[PATH_MAX];
    char text[VERSION_FILE_BYTES];
    ssize_t got = -1;
    int fd;

    (void)snprintf(path, sizeof(path), "%s/torch/version.py", packages);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        got = read(fd, text, sizeof(text));
        close(fd);
    }
    return got > 0 && str_contains((struct str){text, (size_t)got}, STR("__version__ = '1.")) &&
           python_is_new(python);
}
