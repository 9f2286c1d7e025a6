#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sockaddr_in;

/* dial: a connection to a port of a pod, for port-forward and the proxies.
 *
 * What listens there is the tenant's own, so nobody waits for it: the socket does not block, and may
 * still be connecting when it is returned (a listener that takes nobody in answers never). Where the
 * pod shares the machine's network its own address is tried, and then, for programs that listen on
 * localhost only, 127.0.0.1. A pod with a network of its own is reached there alone: 127.0.0.1 would
 * be the machine's, with all that trusts whoever comes from there. */
int dial_pod(const char *ip, bool own_network, uint16_t port);

/* Whether the address leads to the machine itself, whoever asks there: 127.0.0.0/8 and 0.0.0.0/8. */
bool dial_is_loopback(const struct sockaddr_in *address);
