#pragma once

#include "base/str.h"

#include <netinet/in.h>
#include <stdint.h>

struct err;

/* resolve: names to IPv4 addresses with libc's help only where a static binary may have it.
 *
 * getaddrinfo() of a static binary loads shared libraries of the image it runs in, which may not
 * fit. So: numbers, /etc/hosts, then the name servers of /etc/resolv.conf (with its search
 * domains), over UDP, A records. Blocks for at most RESOLVE_LIMIT_MS. */
#define RESOLVE_LIMIT_MS 4000

int resolve_host(struct str host, struct in_addr *ret, struct err *err);

/* "http://host:port" -> its parts; the port is 80 when it is not given. */
int resolve_url(struct str url, struct str *ret_host, uint16_t *ret_port, struct err *err);

/* Pure parts, for the tests: the address of `host` in the text of a hosts file; a DNS query for
 * `name` (its size, or 0 when the name does not fit); the first A record of an answer. */
bool resolve_in_hosts(struct str hosts, struct str host, struct in_addr *ret);
size_t resolve_query(struct str name, uint16_t id, unsigned char *out, size_t out_bytes);
bool resolve_answer(const unsigned char *p, size_t len, uint16_t id, struct in_addr *ret);
