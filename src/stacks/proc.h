#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

/* proc: what the readers of /proc share. */

#define PROC_MAPS_BYTES_MAX ((size_t)8 << 20) /* 60,000 mappings: the kernel's own limit */

/* Bytes of /proc/PID/NAME, at most so many; STR_NONE when it cannot be read. */
struct str proc_file(struct arena *arena, int64_t pid, const char *name, size_t bytes_max);
/* Hexadecimal digits, at most 16 of them. */
bool proc_hex(struct str text, uint64_t *ret);
/* What is behind the last slash. */
struct str proc_base(struct str path);
/* struct memory's read(), of the descriptor of a /proc/PID/mem. */
bool proc_read(void *fd, uint64_t address, void *out, size_t size);
