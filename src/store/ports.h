#pragma once

struct admit;
struct write;

/* ports: the ports of nodes that Services of the types NodePort and LoadBalancer have. One that says
 * none gets a free one; one that is asked for must be of the range and nobody else's. A Service that
 * becomes another type gives them back. */
#define NODE_PORT_FIRST 30000
#define NODE_PORT_COUNT 2768 /* up to 32767, as Kubernetes has it */

void ports_admit(struct write *write, struct admit *admit);
