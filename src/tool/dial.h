#pragma once

#include <stdint.h>

/* dial: begins a TCP connection to a numeric address, IPv4 or IPv6. The socket does not block and
 * may still be connecting when it is returned; -errno where it was refused at once. */
int dial_address(const char *ip, uint16_t port);
