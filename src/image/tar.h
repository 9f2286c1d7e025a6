#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* tar: archives of images, unpacked below one folder.
 *
 * Their bytes are not trusted: every name is resolved by the kernel as if the folder were /
 * (openat2, RESOLVE_IN_ROOT), so neither ".." nor a link of the archive leads out of it; devices
 * and pipes are left out; sizes and counts are bounded. Plain, gzip and zstd; ustar, the pax
 * records path, linkpath and size, and GNU's long names. */
struct tar_limits {
    int64_t bytes;   /* of all files */
    int64_t entries; /* files, folders, links */
};

struct tar_options {
    int root_fd;       /* the folder */
    bool layer;        /* ".wh.NAME" removes NAME, ".wh..wh..opq" everything in its folder */
    bool owners;       /* owners as the archive says; else ours */
    struct str digest; /* "sha256:..." of the archive as it is stored; empty: not looked at */
    struct tar_limits *limits; /* counted down over several archives */
};

/* Unpack what can be read from fd. What was unpacked before a failure stays. */
int tar_extract(int fd, const struct tar_options *options, struct err *err);
