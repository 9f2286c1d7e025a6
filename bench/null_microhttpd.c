#include "base/mem.h"
#include "base/str.h"
#include "null.h"

#include <microhttpd.h>
#include <stddef.h>
#include <stdint.h>

#define CONNECTIONS_MAX 2048

struct null_server {
    struct MHD_Daemon *daemon;
    struct MHD_Response *response;
};

static enum MHD_Result answer(void *user,
                              struct MHD_Connection *connection,
                              const char *url,
                              const char *method,
                              const char *version,
                              const char *upload,
                              size_t *upload_size,
                              void **state)
{
    struct null_server *server = user;

    (void)url;
    (void)method;
    (void)version;
    (void)upload;
    *upload_size = 0;
    if (!*state) { /* the head only: the library calls again */
        *state = server;
        return MHD_YES;
    }
    return MHD_queue_response(connection, 200, server->response);
}

struct null_server *null_start(const char *certificate, const char *key, struct str body)
{
    struct null_server *server = MEM_NEW(struct null_server);
    union {
        const char *in;
        void *out;
    } pun = {.in = body.p};

    server->response = MHD_create_response_from_buffer(body.len, pun.out, MHD_RESPMEM_PERSISTENT);
    server->daemon =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_TLS, 0, NULL, NULL, answer, server,
                         MHD_OPTION_HTTPS_MEM_CERT, certificate, MHD_OPTION_HTTPS_MEM_KEY, key,
                         MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX, MHD_OPTION_END);
    if (server->daemon)
        return server;
    MHD_destroy_response(server->response);
    mem_free(server);
    return NULL;
}

uint16_t null_port(const struct null_server *server)
{
    return MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
}

void null_stop(struct null_server *server)
{
    MHD_stop_daemon(server->daemon);
    MHD_destroy_response(server->response);
    mem_free(server);
}
