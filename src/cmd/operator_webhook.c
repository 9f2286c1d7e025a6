#include "api/api.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "cmd/operator.h"
#include "exec/runner.h"
#include "http/server.h"
#include "http/tls.h"
#include "keys/certificates.h"
#include "kube/kube.h"
#include "server/progress_elsewhere.h"
#include "server/ranks_elsewhere.h"
#include "server/webhook.h"
#include "tool/log.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The admission webhooks of `muster operator`, and where trainings tell their progress and
 * pods of their ranks: every replica answers, leading or not, from the moment it has a certificate. */

struct operator_webhook {
    struct operator* op;
    struct webhook_rules rules;
    struct certificates *certificates;
    struct http_server *server; /* NULL until there is a certificate */
    char address[OPERATOR_ADDRESS_BYTES];
    uint16_t port;
    uint64_t reviews;
    struct str progress_url;
    struct buf authorities; /* by which trainings know us; empty: not known yet */
};

static void on_begin(void *user, struct http_exchange *x)
{
    (void)user;
    progress_elsewhere_begin(x);
    if (!x->user)
        ranks_elsewhere_begin(x);
}

static void on_request(void *user, struct http_exchange *x)
{
    struct operator_webhook *webhook = user;
    struct str answer = STR_NONE;
    struct err err = {0};

    if (ranks_elsewhere_is(x)) {
        ranks_elsewhere_handle(&webhook->op->ranks, x);
        return;
    }
    if (x->user) {
        progress_elsewhere_handle(&webhook->op->progress, x);
        return;
    }
    if (!str_is(x->head.method, "POST") || !webhook_serves(x->head.path)) {
        http_reply(x, 404, "text/plain",
                   STR("POST an AdmissionReview to " WEBHOOK_PODS ", " WEBHOOK_KINDS
                       " or " WEBHOOK_MARKS "\n"));
        return;
    }
    webhook->reviews++;
    if (webhook_answer(&x->arena, &webhook->rules, x->head.path, x->body, &answer, &err) < 0)
        http_reply(x, 400, "text/plain", str_printf(&x->arena, "%s\n", err.text));
    else
        http_reply(x, 200, "application/json", answer);
}

/* The server starts with its first certificate, and goes on with each later one. */
static void on_certificate(void *user, const struct certificates_served *served)
{
    struct operator_webhook *webhook = user;
    const struct log *log = &webhook->op->log;
    struct tls_identity *identity = NULL;
    struct err err = {0};

    if (tls_identity_new(served->certificate, served->key, STR_NONE, &identity, &err) < 0) {
        log_error(log, "webhook.certificate", LOG_ERR(&err));
        return;
    }
    if (!str_eq(buf_str(&webhook->authorities), served->authorities)) {
        buf_clear(&webhook->authorities);
        buf_add(&webhook->authorities, served->authorities);
        operator_webhook_tell(webhook->op);
    }
    if (webhook->server)
        http_server_set_tls(webhook->server, identity);
    else if (http_server_start(&(struct http_server_options){.loop = &webhook->op->loop,
                                                             .address = webhook->address,
                                                             .port = webhook->port,
                                                             .tls = identity,
                                                             .begin = on_begin,
                                                             .handle = on_request,
                                                             .user = webhook},
                               &webhook->server, &err) < 0)
        log_error(log, "webhook.listen", LOG_ERR(&err));
    else
        log_info(log, "webhook.ready", LOG_I64("port", http_server_port(webhook->server)));
    tls_identity_free(identity);
}

/* Where trainings reach this server. A URL of its own is https://HOST[:PORT], and its host a name
 * of the certificate. */
static int choose_url(struct operator_webhook *webhook,
                      const struct operator_webhook_options *options,
                      const char **ret_alias,
                      struct err *err)
{
    struct arena *arena = webhook->op->arena;
    struct str scheme = STR("https://");
    struct str url = str_from(options->progress_url);
    struct str host = str_sub(url, scheme.len, url.len);
    struct str name = str_starts(host, STR("[")) ? str_sub(host, 1, str_find(host, ']') - 1)
                                                 : str_sub(host, 0, str_find(host, ':'));

    if (!url.len) {
        webhook->progress_url =
            str_printf(arena, "https://%s.%s.svc", options->service, options->ns);
        return 0;
    }
    if (!str_starts(url, scheme) || !name.len || str_find(host, '/') < host.len)
        return err_set(err, -EINVAL, "--progress-url: \"%s\" is not https://HOST[:PORT]",
                       options->progress_url);
    webhook->progress_url = url;
    *ret_alias = str_c(arena, name);
    return 0;
}

int operator_webhook_start(struct operator* op,
                           const struct operator_webhook_options *options,
                           struct err *err)
{
    struct operator_webhook *webhook;
    const char *alias = NULL;

    if (!options->listen || !*options->listen)
        return 0;
    webhook = MEM_NEW(struct operator_webhook);
    webhook->op = op;
    int r = operator_listen_parse("--webhook-listen", options->listen, webhook->address,
                                  &webhook->port, err);
    if (r == 0)
        r = choose_url(webhook, options, &alias, err);
    if (r < 0) {
        mem_free(webhook);
        return r;
    }
    op->progress = (struct progress_elsewhere){.api = kube_api(op->kube), .log = &op->log};
    op->ranks = (struct ranks_elsewhere){
        .api = kube_api(op->kube), .log = &op->log, .told = {.pods = {.seed = op->seed}}};
    webhook->rules = (struct webhook_rules){
        .kinds = kube_api(op->kube)->kinds,
        .scheduler_name = str_from(options->scheduler_name),
        .shares = options->shares,
        .limit_image = str_from(options->limit_image),
        .runtime_class = str_from(options->runtime_class),
        .namespace = str_from(options->ns),
        .administrators = str_from(options->administrators ? options->administrators : ""),
        .without = op->without.items,
        .without_count = op->without.count,
        .own_devices = options->own_devices,
    };
    webhook->certificates =
        certificates_start(&(struct certificates_options){.loop = &op->loop,
                                                          .api = kube_api(op->kube),
                                                          .ns = options->ns,
                                                          .secret = options->service,
                                                          .service = options->service,
                                                          .configuration = options->configuration,
                                                          .lifetime_ms = options->lifetime_ms,
                                                          .alias = alias,
                                                          .serve = on_certificate,
                                                          .user = webhook,
                                                          .log = &op->log});
    op->webhook = webhook;
    return 0;
}

void operator_webhook_tell(struct operator* op)
{
    if (op->webhook && op->runner && op->webhook->authorities.len)
        runner_set_trainer(op->runner, op->webhook->progress_url,
                           buf_str(&op->webhook->authorities));
}

void operator_webhook_lead(struct operator* op, bool leads)
{
    if (op->webhook)
        certificates_lead(op->webhook->certificates, leads);
}

bool operator_webhook_is_ready(const struct operator* op)
{
    return !op->webhook || op->webhook->server;
}

uint64_t operator_webhook_reviews(const struct operator* op)
{
    return op->webhook ? op->webhook->reviews : 0;
}

void operator_webhook_stop(struct operator* op)
{
    if (!op->webhook)
        return;
    certificates_stop(op->webhook->certificates);
    http_server_stop(op->webhook->server);
    ranks_elsewhere_done(&op->ranks);
    buf_done(&op->webhook->authorities);
    mem_free(op->webhook);
    op->webhook = NULL;
}
