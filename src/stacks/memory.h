#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* memory: that of another process, as a function; tests bring their own. */
struct memory {
    /* All `size` bytes at `address`, or false: they are not there. */
    bool (*read)(void *user, uint64_t address, void *out, size_t size);
    void *user;
    /* How often it may still be asked; what a process holds can lead in circles. */
    size_t reads_left;
};

static inline bool memory_read(struct memory *memory, uint64_t address, void *out, size_t size)
{
    if (!memory->reads_left)
        return false;
    memory->reads_left--;
    return address && memory->read(memory->user, address, out, size);
}

static inline bool memory_u64(struct memory *memory, uint64_t address, uint64_t *ret)
{
    return memory_read(memory, address, ret, sizeof(*ret));
}
