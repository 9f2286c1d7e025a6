#pragma once

#include <stdbool.h>
#include <stdint.h>

/* region: how much of each device the processes of the container hold, in a file they all map.
 *
 *     owners[slot]        the process of a slot: pid and start time
 *     held[device][slot]  bytes that process holds there
 *
 * What is used of a device is the sum over the slots; there is no total that could go wrong. To
 * reserve, a process adds to its own field (one atomic add) and then looks at the sum: above the
 * limit it takes back what it added and is refused. Of two processes that together would pass the
 * limit the one that added later sees the other's bytes, so they never both succeed. Both may be
 * refused; so a refused one tries again holding the lock, when nobody else does.
 *
 * A process that was killed leaves its slot behind. Whoever is refused, asks for a sum or needs a
 * slot looks whether the owners are alive, and clears the slots of the dead. Slots and devices
 * change hands under a lock of the file alone, which the kernel drops with its holder. Zeroes are
 * an empty region: no process has to be the first.
 *
 * A region that cannot be used (no file, not writable, of another layout) is replaced by one of the
 * process's own: the limit then holds for each process. */
#define REGION_SLOTS   512 /* processes with device memory: each has a context of 200 MiB or more */
#define REGION_DEVICES 64

struct region_uuid {
    uint8_t bytes[16];
};

/* The device of that UUID, or -1 where there are too many. */
int region_device(const struct region_uuid *uuid);
/* False: the limit would be passed, or no slot is free. */
bool region_reserve(int device, int64_t bytes);
/* Counts whatever the limit says: the memory is there already. */
void region_add(int device, int64_t bytes);
void region_give_back(int device, int64_t bytes);
/* Bytes that live processes hold. */
int64_t region_used(int device);
/* Bytes that this process holds, of all devices; -1: they are not counted. */
int64_t region_own(void);
