#include "workspace/sync_worker.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "workspace/httpd.h"

#include <stdbool.h>
#include <stdio.h>

static uint64_t number_of(const struct httpd_conn *conn, const char *name, uint64_t fallback)
{
    char text[64] = "";
    uint64_t number = fallback;

    if (httpd_query(conn, name, text, sizeof(text)))
        (void)str_to_u64(str_from(text), &number);
    return number;
}

void sync_worker_begin(struct sync_worker *worker,
                       const struct httpd_conn *conn,
                       struct hash revision)
{
    *worker = (struct sync_worker){.rank = number_of(conn, "rank", 0), .acked = revision};
    (void)httpd_query(conn, "trouble", worker->trouble, sizeof(worker->trouble));
}

struct sync_ack sync_ack_read(const struct httpd_conn *conn)
{
    struct sync_ack ack = {.rank = number_of(conn, "rank", UINT64_MAX),
                           .restart = number_of(conn, "restart", 0),
                           .kept = number_of(conn, "kept", 0)};
    char text[64] = "";

    if (httpd_query(conn, "revision", text, sizeof(text)))
        (void)hash_parse(str_from(text), &ack.revision);
    return ack;
}

void sync_worker_ack(struct sync_worker *worker, const struct sync_ack *ack, struct str names)
{
    if (ack->restart > worker->stopped)
        worker->stopped = ack->restart;
    if (hash_is_zero(ack->revision))
        return;
    worker->acked = ack->revision;
    worker->kept = ack->kept;
    worker->trouble[0] = '\0';
    (void)snprintf(worker->names, sizeof(worker->names), STR_FMT, STR_ARG(names));
}

void sync_worker_write(struct buf *out, const struct sync_worker *worker)
{
    _cleanup_(arena_done) struct arena arena = {0};
    char hex[HASH_HEX_BYTES];

    buf_addf(out, "{\"rank\":%llu,\"revision\":\"%s\",\"kept\":%llu,\"names\":",
             (unsigned long long)worker->rank, hash_hex(worker->acked, hex),
             (unsigned long long)worker->kept);
    json_write_string(out, str_utf8(&arena, str_from(worker->names)));
    buf_add(out, STR(",\"trouble\":"));
    json_write_string(out, str_utf8(&arena, str_from(worker->trouble)));
    buf_addc(out, '}');
}
