#pragma once

struct err;

/* reach: can the rendezvous work from here? Asked before torchrun starts, which would wait for
 * minutes and then name no port.
 *
 * The pod that hosts the store must be able to listen on its port; a service that somebody else
 * runs (etcd) must answer. 0, or -errno with what to do. */
int reach_listen(const char *endpoint, struct err *err);
int reach_connect(const char *endpoint, struct err *err);
