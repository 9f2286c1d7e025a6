#pragma once

#include <stdbool.h>

#define BOOT_ID_BYTES 64

/* What tells this run of the machine from the one before: after a power cut or a restart it is
 * another. False, and "", where the system does not say. */
bool boot_id(char ret[static BOOT_ID_BYTES]);
