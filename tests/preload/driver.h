#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* driver: a stand-in for NVIDIA's driver and NVML, for tests of libmuster-gpu.so: two devices of 1
 * GiB, a context for each process, memory that is only counted. What all processes have at once is
 * written to the file FAKE_DRIVER names, with the most it ever was. Addresses that were reserved are
 * real memory while something is mapped there. */
#define EXPORT __attribute__((visibility("default")))

#define FAKE_DEVICES     2
#define FAKE_TOTAL_BYTES (INT64_C(1) << 30)
#define FAKE_PITCH       1024 /* larger than the library guesses */

struct fake_shared {
    _Atomic int64_t used[FAKE_DEVICES];
    _Atomic int64_t peak[FAKE_DEVICES];
};

/* The next allocation fails with this. */
EXPORT void fake_fail(int result);
EXPORT struct fake_shared *fake_shared(void);
/* The current device of all threads. */
EXPORT void fake_set_device(int device);
