#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* openin: openat2(), for paths that are not trusted. Libc only: muster-shim uses it too. All
 * return a descriptor, closed on exec, or -errno, and follow none of /proc's magic links. */

/* As if the folder were /: neither ".." nor a link leads out of it. `mode` is for O_CREAT. */
int open_in(int root_fd, const char *path, uint64_t flags, mode_t mode);
/* The same, and what is mounted in it is refused with -EXDEV. */
int open_own(int root_fd, const char *path, uint64_t flags);
/* What would lead out of the folder is refused. */
int open_beneath(int root_fd, const char *path, uint64_t flags);
/* As open_in(), but a link on the way has to be root's or this process's own: a folder that somebody
 * else can put a link in its place is not the one that was meant. Others are refused with -ELOOP,
 * and so is "..". */
int open_trusted(int root_fd, const char *path, uint64_t flags);
/* Names as the kernel gives them: links are refused. */
int open_exact(const char *path, uint64_t flags);
/* Whether a mount is at the path, as far as the kernel says: one older than 5.8 does not, and then
 * whatever exists is taken for one. */
bool is_mount_point(const char *path);
