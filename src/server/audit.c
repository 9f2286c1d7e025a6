#include "server/audit.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "http/server.h"
#include "http1/parse.h"
#include "server/attributes.h"
#include "server/rbac.h"
#include "server/refused.h"
#include "server/request.h"
#include "server/route.h"
#include "tool/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

/* A line: the target of a request has 16 KiB at most, all other texts are shorter. */
#define URI_BYTES_MAX   4096
#define AGENT_BYTES_MAX 256

struct audit {
    char path[PATH_MAX];
    int fd;
    int64_t bytes;
    int64_t bytes_max;
    uint64_t lost;
    struct refused refused;
    const struct log *log;
};

static int file_open(struct audit *audit, struct err *err)
{
    struct stat stat;

    audit->fd = open(audit->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (audit->fd < 0)
        return err_set(err, -errno, "audit log %s: %s", audit->path, uv_strerror(-errno));
    audit->bytes = fstat(audit->fd, &stat) == 0 ? (int64_t)stat.st_size : 0;
    return 0;
}

int audit_open(const char *path,
               int64_t bytes_max,
               const struct log *log,
               struct audit **ret,
               struct err *err)
{
    struct audit *audit = MEM_NEW(struct audit);

    audit->log = log;
    audit->bytes_max = bytes_max ? bytes_max : AUDIT_BYTES_MAX;
    int length = snprintf(audit->path, sizeof(audit->path), "%s", path);
    int r = length >= (int)sizeof(audit->path) - 4
                ? err_set(err, -ENAMETOOLONG, "audit log: the path is too long")
                : file_open(audit, err);
    if (r < 0) {
        mem_free(audit);
        return r;
    }
    *ret = audit;
    return 0;
}

void audit_close(struct audit *audit)
{
    if (!audit)
        return;
    if (audit->fd >= 0)
        (void)close(audit->fd);
    refused_done(&audit->refused);
    mem_free(audit);
}

/* FILE.3 is lost, FILE.2 becomes FILE.3, ... */
static void rotate(struct audit *audit)
{
    struct err err = {0};

    for (int i = AUDIT_FILES - 1; i > 0; i--) {
        char from[PATH_MAX + 8];
        char to[PATH_MAX + 8];

        (void)snprintf(to, sizeof(to), "%s.%d", audit->path, i);
        (void)snprintf(from, sizeof(from), i > 1 ? "%s.%d" : "%s", audit->path, i - 1);
        (void)rename(from, to);
    }
    (void)close(audit->fd);
    if (file_open(audit, &err) < 0)
        log_error(audit->log, "audit.failed", LOG_ERR(&err));
}

void audit_line(struct audit *audit, struct str line)
{
    if (audit->fd >= 0 && audit->bytes + (int64_t)line.len > audit->bytes_max)
        rotate(audit);
    ssize_t written = audit->fd < 0 ? -1 : write(audit->fd, line.p, line.len);
    if (written > 0)
        audit->bytes += written;
    if (written == (ssize_t)line.len)
        return;
    audit->lost++;
    log_error(audit->log, "audit.lost", LOG_C("file", audit->path),
              LOG_I64("lost", (int64_t)audit->lost));
}

/* ---- a request as a line ---- */

static void member(struct buf *buf, const char *before, struct str value)
{
    buf_add(buf, str_from(before));
    json_write_string(buf, value);
}

static void user_write(struct buf *buf, const struct user *user)
{
    member(buf, "{\"username\":", user->name);
    if (user->uid.len)
        member(buf, ",\"uid\":", user->uid);
    buf_add(buf, STR(",\"groups\":["));
    for (size_t i = 0; i < user->group_count; i++)
        member(buf, i ? "," : "", user->groups[i]);
    buf_add(buf, STR("]}"));
}

static void reference_write(struct buf *buf, const struct route *route)
{
    member(buf, ",\"objectRef\":{\"resource\":", route->plural);
    if (route->ns.len)
        member(buf, ",\"namespace\":", route->ns);
    if (route->name.len)
        member(buf, ",\"name\":", route->name);
    if (route->group.len)
        member(buf, ",\"apiGroup\":", route->group);
    member(buf, ",\"apiVersion\":", route->version);
    if (route->subresource.len)
        member(buf, ",\"subresource\":", route->subresource);
    buf_addc(buf, '}');
}

struct stage {
    const char *name;
    int64_t received_ms;
    int64_t now_ms;
    int status;
    uint64_t left_out; /* refusals of the same user before this one that have no line */
};

static void request_write(struct audit *audit,
                          const struct request *request,
                          const struct stage *stage)
{
    /* Of its own: the request's is being released when it is over. */
    _cleanup_(arena_done) struct arena arena = {0};
    const struct http_head *head = &request->x->head;
    struct rbac_request wanted =
        attributes_of(&arena, &request->route, head->method, head->path, head->query);
    struct str agent = str_sub(http_head_get(head, "User-Agent"), 0, AGENT_BYTES_MAX);
    struct str uri = str_printf(&arena, STR_FMT "%s" STR_FMT, STR_ARG(head->path),
                                head->query.len ? "?" : "", STR_ARG(head->query));
    _cleanup_(buf_done) struct buf line = {0};
    char moment[TIME_TEXT_BYTES];

    buf_addf(&line,
             "{\"kind\":\"Event\",\"apiVersion\":\"audit.k8s.io/v1\",\"level\":\"Metadata\","
             "\"auditID\":\"%" PRIx64 "-%" PRIu64 "\",\"stage\":\"%s\"",
             (uint64_t)stage->received_ms, request->number, stage->name);
    member(&line, ",\"requestURI\":", str_utf8(&arena, str_sub(uri, 0, URI_BYTES_MAX)));
    member(&line, ",\"verb\":", wanted.verb);
    buf_add(&line, STR(",\"user\":"));
    if (request->impersonator.name.len) {
        user_write(&line, &request->impersonator);
        buf_add(&line, STR(",\"impersonatedUser\":"));
    }
    user_write(&line, &request->user);
    if (request->from.len) {
        member(&line, ",\"sourceIPs\":[", request->from);
        buf_addc(&line, ']');
    }
    if (agent.len)
        member(&line, ",\"userAgent\":", str_utf8(&arena, agent));
    reference_write(&line, &request->route);
    if (stage->status)
        buf_addf(&line, ",\"responseStatus\":{\"code\":%d}", stage->status);
    if (stage->left_out)
        buf_addf(&line, ",\"annotations\":{\"" AUDIT_LEFT_OUT "\":\"%" PRIu64 "\"}",
                 stage->left_out);
    member(&line, ",\"requestReceivedTimestamp\":", time_format_micro(stage->received_ms, moment));
    member(&line, ",\"stageTimestamp\":", time_format_micro(stage->now_ms, moment));
    buf_add(&line, STR("}\n"));
    audit_line(audit, buf_str(&line));
}

void audit_begin(struct audit *audit, const struct request *request)
{
    request_write(audit, request,
                  &(struct stage){.name = "RequestReceived",
                                  .received_ms = request->received_ms,
                                  .now_ms = request->received_ms});
}

void audit_end(struct audit *audit, const struct request *request, int64_t now_ms)
{
    int status = request->x->status;
    uint64_t left_out = 0;

    if ((status == 401 || status == 403 || status == 429) &&
        !refused_takes(&audit->refused, request->user.name, now_ms, &left_out))
        return;
    request_write(audit, request,
                  &(struct stage){.name = "ResponseComplete",
                                  .received_ms = request->received_ms,
                                  .now_ms = now_ms,
                                  .status = status,
                                  .left_out = left_out});
}
