#pragma once

#include "base/str.h"

#include <stdatomic.h>
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

/* How long a reader of processes goes on. What is in a process is that process's to make up, so every
 * read asks: one that comes too late gives nothing, and what makes no progress without reading ends. */
struct patience {
    int64_t until_ms; /* of the monotonic clock */
    const atomic_bool
        *given_up; /* set by whoever waited, from another thread; NULL: nobody leaves */
};

int64_t patience_now_ms(void);
/* `patience` NULL: never. */
bool patience_over(const struct patience *patience);

/* What struct memory's user is for proc_read(). */
struct proc_memory {
    int fd; /* of a /proc/PID/mem */
    const struct patience *patience;
};
bool proc_read(void *proc_memory, uint64_t address, void *out, size_t size);
