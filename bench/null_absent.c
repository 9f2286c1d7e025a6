#include "base/str.h"
#include "null.h"

#include <stddef.h>
#include <stdint.h>

struct null_server *null_start(const char *certificate, const char *key, struct str body)
{
    (void)certificate;
    (void)key;
    (void)body;
    return NULL;
}

uint16_t null_port(const struct null_server *server)
{
    (void)server;
    return 0;
}

void null_stop(struct null_server *server)
{
    (void)server;
}
