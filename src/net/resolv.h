#pragma once

struct buf;
struct json;

/* resolv: the resolv.conf of a pod with a network of its own and this spec: the host's, without the
 * name servers that cannot be reached from another namespace; dnsConfig adds name servers, where to
 * search, and options. With the dnsPolicy None there is nothing else. */
void resolv_conf_of(const struct json *spec, struct buf *out);
