#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct json;
struct sockaddr_storage;

/* resolv: where a pod of this spec looks names up, as its resolv.conf says it.
 *
 * Where a name server of ours (net/dns.h) is, a pod with the dnsPolicy ClusterFirst, and one in the machine's
 * network with ClusterFirstWithHostNet, asks that one first, and searches its namespace, the cluster and where the
 * machine does. Behind it stand the machine's own servers that can be reached from a pod: they are asked while
 * muster is not there. With Default it is the machine's own file, without the servers that cannot be
 * reached. With None there is nothing but dnsConfig, which adds servers, where to search, and
 * options to all of them. */
struct resolv_cluster {
    const char *server; /* NULL or empty: there is none */
    struct str ns;      /* of the pod */
};

/* `machine`: the text of the machine's file. */
void resolv_conf_write(const struct json *spec,
                       const struct resolv_cluster *cluster,
                       struct str machine,
                       struct buf *out);
/* Whether such a pod needs a file of its own although it is in the machine's network. */
bool resolv_is_cluster(const struct json *spec);
/* The machine's file: one with servers that can be reached from another namespace, where there is one. */
void resolv_machine(struct buf *out);
/* Its servers, those on the loopback too: for who is on the machine itself. */
size_t resolv_servers(struct sockaddr_storage *out, size_t max);
