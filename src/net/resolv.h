#pragma once

struct buf;

/* resolv: the resolv.conf of pods with a network of their own: the host's, without the name servers
 * that cannot be reached from another namespace. */
void resolv_conf(struct buf *out);
