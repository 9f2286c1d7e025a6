#pragma once

#include <stdbool.h>
#include <stdint.h>

/* outside: how pods of the pod network reach what is not on this machine.
 *
 * Through a masquerade of nftables, in a table of our own, where the machine forwards packets
 * already (net.ipv4.ip_forward): Muster changes no setting of the machine, and nothing of anybody
 * else's rules is touched. */

/* What the machine lacks for it, as an order to its administrator; NULL: nothing. */
const char *outside_missing(void);
/* The table gets the bridge's name. False: pods do not reach the outside. */
bool outside_open(const char *bridge, uint32_t base, int prefix);
void outside_close(const char *bridge);
