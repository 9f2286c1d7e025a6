#include "system/boot.h"

#include <stddef.h>
#include <string.h>

#ifdef __linux__

#    include <fcntl.h>
#    include <unistd.h>

bool boot_id(char ret[static BOOT_ID_BYTES])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, ret, BOOT_ID_BYTES - 1);

    if (fd >= 0)
        (void)close(fd);
    ret[n < 0 ? 0 : n] = '\0';
    ret[strcspn(ret, "\n")] = '\0';
    return ret[0] != '\0';
}

#else /* macOS: compiled by tests/portable.py, and so far run by nobody */

#    include <sys/sysctl.h>
#    include <sys/types.h>

bool boot_id(char ret[static BOOT_ID_BYTES])
{
    size_t size = BOOT_ID_BYTES;

    if (sysctlbyname("kern.bootsessionuuid", ret, &size, NULL, 0) != 0)
        ret[0] = '\0';
    return ret[0] != '\0';
}

#endif
