#pragma once

#include "base/str.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct err;

/* address: an IP address of either version. One of version 4 is kept as IPv6 writes it
 * (::ffff:10.0.0.1), so that the same peer is the same whichever kind of socket it came in by. */
struct address {
    struct in6_addr ip;
};

/* Numbers only: "10.0.0.1", "fd00::1", "[fd00::1]". */
bool address_parse(struct str text, struct address *ret);
/* Four bytes or sixteen, as DNS has them. */
bool address_of_bytes(const void *bytes, size_t size, struct address *ret);
struct address address_of(const struct sockaddr_storage *from);
bool address_eq(struct address a, struct address b);
bool address_is_v4(struct address address);
const char *address_text(struct address address, char out[static INET6_ADDRSTRLEN]);
/* For bind() and connect(): of version 4 where it is one, so that a kernel without IPv6 will do. */
socklen_t address_to(struct address address, uint16_t port, struct sockaddr_storage *ret);

/* A socket that listens at `address`, or, when it is NULL, at every address of both versions; port
 * 0 picks one. Does not block. */
int address_listen(const char *address, uint16_t port, int backlog, struct err *err);
uint16_t address_port_of(const struct sockaddr_storage *from);
/* Of a bound socket; 0: none. */
uint16_t address_port(int fd);
