#pragma once

struct buf;
struct json;

/* resolv: the resolv.conf of pods with a network of their own: the host's, without the name servers
 * that cannot be reached from another namespace. */
void resolv_conf(struct buf *out);
/* The same for a pod with this spec: dnsConfig adds name servers, where to search, and options;
 * with the dnsPolicy None there is nothing else. */
void resolv_conf_of(const struct json *spec, struct buf *out);
