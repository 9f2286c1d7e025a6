#pragma once

#include "base/str.h"

#include <stdint.h>

/* address: IPv4 addresses, as numbers in the machine's byte order, and which of them pods get. */
#define ADDRESS_BYTES 16 /* of the longest one as text, and its NUL */

void address_v4_text(uint32_t address, char out[static ADDRESS_BYTES]);

/* Pods get addresses in turn, so that one that was just given up is not another's at once: of the
 * pod network (net/bridge.h), or of 127.64.0.0/10, which needs no privilege. */
struct address_pool {
    uint32_t first; /* of the pod network; 0: there is none */
    uint32_t next;
};

/* The next one. Whether a pod has it is for the caller to see. */
void address_pool_next(struct address_pool *pool, char out[static ADDRESS_BYTES]);
/* A pod of an earlier muster has this one: go on behind it. Other text is ignored. */
void address_pool_pass(struct address_pool *pool, const char *address);
