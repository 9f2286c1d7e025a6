#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* driver: whether a process uses NVIDIA's driver, by what the kernel tells of it. */

/* 1: it has the driver's library; 0: it has not, or is gone; -errno: it may not be looked at. */
int driver_mapped(pid_t pid);
/* The driver's own threads, which a process that was only forked off such a one does not have. */
bool driver_has_thread(pid_t pid);
