#pragma once

#include <netinet/in.h>

/* reach: the address under which others reach a server that listens on `listen`: the same, but for
 * 0.0.0.0 and :: the one with which this machine goes out; without a network, the loopback one. */
void reach_address(const char *listen, char out[static INET6_ADDRSTRLEN]);
