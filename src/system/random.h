#pragma once

#include <stdbool.h>
#include <stddef.h>

/* No more are asked for at once: so many come whole, whatever interrupts. */
#define RANDOM_BYTES_MAX 256

/* Bytes that nobody can guess, from the system; false when it has none to give. */
bool random_bytes(void *to, size_t size);
