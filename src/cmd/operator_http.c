#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "cmd/operator.h"
#include "control/cluster/coexist.h"
#include "exec/runner.h"
#include "exec/scheduler.h"
#include "http/server.h"
#include "kube/kube.h"
#include "kube/refusals.h"
#include "tool/turn.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* METRICS(X): every number /metrics tells. X(name, type, help, value of struct kube_stats s) */
#define METRICS(X)                                                                               \
    X("muster_api_requests_total", "counter", "Requests sent to the API server",                 \
      s->client.requests)                                                                        \
    X("muster_api_failures_total", "counter", "Requests that got no answer", s->client.failures) \
    X("muster_api_throttled_total", "counter", "Answers 429", s->client.throttled)               \
    X("muster_api_server_errors_total", "counter", "Answers 5xx", s->client.by_status[5])        \
    X("muster_api_client_errors_total", "counter", "Answers 4xx", s->client.by_status[4])        \
    X("muster_api_connection_resets_total", "counter",                                           \
      "Connections closed because the server was silent", s->client.resets)                      \
    X("muster_api_waiting", "gauge", "Requests that wait for the rate limit", s->client.waiting) \
    X("muster_api_under_way", "gauge", "Requests in flight", s->client.under_way)                \
    X("muster_watches", "gauge", "Open watches", s->watches)                                     \
    X("muster_watches_synced", "gauge", "Watches that have received their initial state",        \
      s->watches_synced)                                                                         \
    X("muster_watch_listed_total", "counter", "Initial states that a watch took from lists",     \
      s->listed)                                                                                 \
    X("muster_watch_streamed_total", "counter",                                                  \
      "Initial states that a watch took from its stream", s->streamed)                           \
    X("muster_watch_relists_total", "counter", "Lists made again after a gap", s->relists)       \
    X("muster_watch_failures_total", "counter", "Lists and watches that failed",                 \
      s->watch_failures)                                                                         \
    X("muster_binds_total", "counter", "Pods bound", s->binds)                                   \
    X("muster_gangs_undone_total", "counter", "Gangs of which only a part could be bound",       \
      s->binds_undone)                                                                           \
    X("muster_api_unguarded_total", "counter",                                                   \
      "Writes without the uid or resourceVersion of their object (more than 0 is a bug)",        \
      s->unguarded)

static void metric(struct buf *buf,
                   const char *name,
                   const char *type,
                   const char *help,
                   uint64_t value)
{
    buf_addf(buf, "# HELP %s %s\n# TYPE %s %s\n%s %" PRIu64 "\n", name, help, name, type, name,
             value);
}

static void write_metrics(struct buf *buf, const struct operator* op)
{
    struct kube_stats stats;
    const struct kube_stats *s = &stats;

    kube_stats(op->kube, &stats);
#define METRIC(name, type, help, value) metric(buf, name, type, help, (uint64_t)(value));
    METRICS(METRIC)
#undef METRIC
    metric(buf, "muster_webhook_reviews_total", "counter", "Admission reviews answered",
           operator_webhook_reviews(op));
    metric(buf, "muster_leading", "gauge", "1 in the replica that leads", op->leading);
    buf_addf(buf, "# HELP muster_left_to_others 1 while another operator runs here and Muster "
                  "leaves its kinds to it\n"
                  "# TYPE muster_left_to_others gauge\n");
    for (size_t i = 0; i < COEXIST_OTHERS; i++)
        buf_addf(buf, "muster_left_to_others{operator=\"%s\"} %d\n", coexist_others[i].name,
                 operator_leaves(op, i));
    if (op->scheduler)
        scheduler_metrics(op->scheduler, buf);
    if (op->runner)
        runner_write_metrics(op->runner, buf);
    turns_write_metrics(op->turns, buf);
}

/* Writes why this replica is not ready, a line for each reason; nothing when it is. */
static void write_unready(struct buf *buf, const struct operator* op)
{
    const struct refusals *refusals = kube_refusals(op->kube);
    bool shadow = op->scheduler && scheduler_shadow(op->scheduler); /* which leads nobody */
    struct kube_stats stats;

    kube_stats(op->kube, &stats);
    if (op->stopping)
        buf_addf(buf, "this replica is stopping\n");
    else if (!operator_webhook_is_ready(op))
        buf_addf(buf, "waiting for the certificate of the webhooks, which the leader writes into "
                      "the Secret that --webhook-service names\n");
    else if ((op->leading && !op->runner) ||
             ((op->leading || shadow) && stats.watches_synced < stats.watches))
        buf_addf(
            buf,
            "waiting for the API server: %zu of %zu watches have received their initial state\n",
            stats.watches_synced, stats.watches);
    else if (stats.client.by_status[2] == 0)
        buf_addf(buf, "waiting for the API server: it has answered no request yet\n");
    else
        return;
    for (size_t i = 0; i < refusals->count; i++)
        buf_addf(buf, "a permission is missing: %s\n", refusals->items[i].text);
    if (refusals->count)
        buf_addf(buf, "Apply deploy/rbac/role.yaml, and webhook.yaml beside it for "
                      "--webhook-listen, sharing.yaml for --gpu-sharing, suspend.yaml for "
                      "--gpu-suspend, health.yaml for --node-health, mpi.yaml for MPIJobs (or "
                      "leave these out: --controllers=-mpijob), secrets.yaml for Secrets that "
                      "TorchrunQueues make, provisioning.yaml for --provisioning-class\n");
}

static void on_request(void *user, struct http_exchange *x)
{
    struct operator* op = user;
    struct str path = x->head.path;
    _cleanup_(buf_done) struct buf body = {0};

    if (!str_is(x->head.method, "GET") && !str_is(x->head.method, "HEAD")) {
        http_reply(x, 405, "text/plain", STR("only GET is supported here\n"));
    } else if (str_is(path, "/healthz") || str_is(path, "/livez")) {
        http_reply(x, 200, "text/plain", STR("ok\n"));
    } else if (str_is(path, "/readyz")) {
        write_unready(&body, op);
        http_reply(x, body.len ? 503 : 200, "text/plain", body.len ? buf_str(&body) : STR("ok\n"));
    } else if (str_is(path, "/metrics")) {
        write_metrics(&body, op);
        http_reply(x, 200, "text/plain; version=0.0.4", buf_str(&body));
    } else {
        http_reply(x, 404, "text/plain", STR("try /metrics, /healthz or /readyz\n"));
    }
}

int operator_listen_parse(const char *option,
                          const char *listen,
                          char address[static OPERATOR_ADDRESS_BYTES],
                          uint16_t *ret_port,
                          struct err *err)
{
    const char *colon = strrchr(listen, ':');
    struct str host;
    uint64_t port;

    if (!colon || !str_to_u64(str_from(colon + 1), &port) || port > UINT16_MAX)
        return err_set(err, -EINVAL, "%s: \"%s\" is not ADDRESS:PORT", option, listen);
    host = str_sub(str_from(listen), 0, (size_t)(colon - listen));
    if (host.len > 2 && host.p[0] == '[')
        host = str_sub(host, 1, host.len - 2);
    if (host.len == 0)
        host = STR("0.0.0.0");
    if (host.len >= OPERATOR_ADDRESS_BYTES)
        return err_set(err, -EINVAL, "%s: \"%s\" is not a numeric address", option, listen);
    memcpy(address, host.p, host.len);
    address[host.len] = '\0';
    *ret_port = (uint16_t)port;
    return 0;
}

int operator_http_start(struct operator* op, const char *listen, struct err *err)
{
    char address[OPERATOR_ADDRESS_BYTES];
    uint16_t port;
    int r;

    if (!listen || !*listen)
        return 0;
    r = operator_listen_parse("--listen", listen, address, &port, err);
    if (r < 0)
        return r;
    return http_server_start(
        &(struct http_server_options){
            .loop = &op->loop, .address = address, .port = port, .handle = on_request, .user = op},
        &op->http, err);
}

void operator_http_stop(struct operator* op)
{
    http_server_stop(op->http);
    http_server_stop(op->debug);
    op->http = op->debug = NULL;
}
