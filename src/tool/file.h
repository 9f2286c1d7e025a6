#pragma once

#include "base/str.h"

#include <stddef.h>
#include <sys/types.h>

struct arena;
struct err;

/* file: whole files, for shells: config, kubeconfig, manifests, tokens; the largest is a snapshot
 * of a cluster of some 50,000 pods. Errors name the path. */
#define FILE_BYTES_MAX ((size_t)64 << 20)

/* The whole content, NUL-terminated behind its length. -ENOENT, ... or -EFBIG. "-" is standard
 * input. */
int file_read(struct arena *arena, const char *path, struct str *ret, struct err *err);
/* Replace the file so that a reader sees the old or the new content whole, and a crash leaves one
 * of them; once this returned, a power cut too leaves the new one. The file gets `mode` exactly. */
int file_replace(const char *path, struct str content, mode_t mode, struct err *err);
