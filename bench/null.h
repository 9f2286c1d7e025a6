#pragma once

#include "base/str.h"

#include <stdint.h>

/* null: a server that does nothing but HTTP and TLS (libmicrohttpd, epoll, one thread), as the
 * limit beside our measurements: it answers every request with the same bytes. */
struct null_server;

/* NULL when the library is not there. Certificate and key are PEM, NUL-terminated. */
struct null_server *null_start(const char *certificate, const char *key, struct str body);
uint16_t null_port(const struct null_server *server);
void null_stop(struct null_server *server);
