#pragma once

#include "agent/cgroup.h"
#include "agent/gpu.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* machine: what this machine is and allows. */
struct machine {
    int64_t cpu_count;
    int64_t memory_bytes;
    int64_t disk_bytes;
    bool root;
    bool user_ns;  /* needed, and can be made: not root */
    bool mount_ns; /* mount, pid, uts and ipc namespaces can be made */
    bool overlay;
    bool scopes; /* abstract sockets can be a pod's own on a shared network */
    uid_t uid;   /* whom pods run as */
    gid_t gid;
    char home[256];
    char path[4096]; /* PATH of muster up */
    gid_t groups[64];
    size_t group_count;
    struct cgroups cgroups;
    struct gpus gpus;
    char boot_id[64];
    char machine_id[64];
    char kernel[128];
    char os_image[128];
    char hostname[256];
    bool old_torch; /* see agent/host_torch.h */
};
void machine_look(struct machine *machine, const char *data_dir);
