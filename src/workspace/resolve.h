#pragma once

#include "base/str.h"
#include "workspace/address.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* resolve: names to IP addresses with libc's help only where a static binary may have it.
 *
 * getaddrinfo() of a static binary loads shared libraries of the image it runs in, which may not
 * fit. So: numbers, /etc/hosts, then the name servers of /etc/resolv.conf (with its search
 * domains), over UDP (TCP for what does not fit): A records, and AAAA for a name that has none.
 * Blocks for about RESOLVE_LIMIT_MS. */
#define RESOLVE_LIMIT_MS 4000

int resolve_host(struct str host, struct address *ret, struct err *err);
/* All addresses of a name, at most `max`; 0: nobody knows it. */
size_t resolve_all(struct str host, struct address *out, size_t max);

/* "http://host:port", or "http://[fd00::1]:port" -> its parts; the port is 80 when it is not given. */
int resolve_url(struct str url, struct str *ret_host, uint16_t *ret_port, struct err *err);

/* Pure parts, for the tests: how many addresses `host` has in the text of a hosts file, up to
 * `max`; a DNS query (its size, or 0 when the name does not fit); how many addresses an answer
 * has. */
enum resolve_type {
    RESOLVE_A = 1,
    RESOLVE_AAAA = 28,
};

struct resolve_question {
    struct str name;
    enum resolve_type type;
    uint16_t id;
};

size_t resolve_in_hosts(struct str hosts, struct str host, struct address *out, size_t max);
size_t resolve_query(const struct resolve_question *question, unsigned char *out, size_t out_bytes);
size_t resolve_answer(const unsigned char *p,
                      size_t len,
                      uint16_t id,
                      struct address *out,
                      size_t max);
/* Whether more was to be said than fits into the answer, and more than `count` of `max` is wanted. */
bool resolve_is_cut(const unsigned char *p, size_t len, size_t count, size_t max);
