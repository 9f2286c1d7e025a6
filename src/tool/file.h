#pragma once

#include "base/str.h"

#include <stddef.h>

struct arena;
struct err;

/* file: whole small files, for shells. */
#define FILE_BYTES_MAX ((size_t)16 << 20)

/* The whole content, NUL-terminated behind its length. -ENOENT, ... or -EFBIG; errors name the
 * path. */
int file_read(struct arena *arena, const char *path, struct str *ret, struct err *err);
