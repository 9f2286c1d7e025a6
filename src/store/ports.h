#pragma once

struct admit;
struct write;

/* ports: the ports of nodes that Services of the types NodePort and LoadBalancer have. One that says
 * none gets a free one; one that is asked for must be of the range (api/host_ports.h) and nobody else's. A Service that
 * becomes another type gives them back. */
void ports_admit(struct write *write, struct admit *admit);
