#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;

/* service: the addresses of Services. They are given at creation, out of a network that the one who
 * makes them reachable names; by itself that is a loopback network, which every process of the
 * machine can use without a privilege. */
struct service_network {
    uint32_t first; /* IPv4, in the machine's byte order */
    uint32_t count;
};

#define SERVICE_LOOPBACK ((struct service_network){0x7f200002u, 0x001ffff0u}) /* 127.32.0.2 ... */

/* "10.1.128.2" and nothing else. */
bool service_address_parse(struct str text, uint32_t *ret);
struct str service_address_text(struct arena *arena, uint32_t address);
/* "10.1.128.0/17": the smallest block that has all of it. */
struct str service_network_text(struct arena *arena, const struct service_network *network);
/* What is wrong with an address behind a Service; NULL: nothing. Those of pods on the machine's own
 * network are of its loopback (net/address.h). */
const char *service_end_wrong(struct str ip);
bool service_network_has(const struct service_network *network, struct str address);
