#pragma once

#include <stdbool.h>
#include <stdint.h>

/* device: which device of the region a call means, and counting on it. All are -1 where the driver
 * does not say; what is asked for there is not counted. */
struct place {
    int device;
    void *context;
};

/* Of the thread's current context. */
struct place device_current(void);
/* By the number the process knows it by, which differs between processes. */
int device_by_number(int number);
int device_by_nvml(void *handle);

/* region_reserve(), which lets pass what cannot be counted and says what it refuses where that was
 * asked for. */
bool device_reserve(int device, int64_t bytes);
void device_give_back(int device, int64_t bytes);
