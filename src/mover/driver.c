#include "mover/driver.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

int driver_mapped(pid_t pid)
{
    char path[64], line[4096];
    bool found = false;

    (void)snprintf(path, sizeof(path), "/proc/%d/maps", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return errno == ENOENT || errno == ESRCH ? 0 : -errno;
    while (!found && fgets(line, sizeof(line), file))
        found = strstr(line, "/libcuda.so") != NULL;
    (void)fclose(file);
    return found;
}

bool driver_has_thread(pid_t pid)
{
    char path[64 + NAME_MAX], name[32];
    bool found = false;

    (void)snprintf(path, sizeof(path), "/proc/%d/task", pid);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && !found && (entry = readdir(folder));) {
        (void)snprintf(path, sizeof(path), "/proc/%d/task/%s/comm", pid, entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
        found = file && fgets(name, sizeof(name), file) && strncmp(name, "cuda", 4) == 0;
        if (file)
            (void)fclose(file);
    }
    if (folder)
        closedir(folder);
    return found;
}
