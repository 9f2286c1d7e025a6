#include "api/api.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "cmd/operator.h"
#include "exec/certificates.h"
#include "http/server.h"
#include "http/tls.h"
#include "kube/kube.h"
#include "server/webhook.h"
#include "tool/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The admission webhooks of `muster operator`: every replica answers them, leading or not, from the
 * moment it has a certificate. */

struct operator_webhook {
    struct operator* op;
    struct webhook_rules rules;
    struct certificates *certificates;
    struct http_server *server; /* NULL until there is a certificate */
    char address[OPERATOR_ADDRESS_BYTES];
    uint16_t port;
    uint64_t reviews;
};

static void on_review(void *user, struct http_exchange *x)
{
    struct operator_webhook *webhook = user;
    struct str answer = STR_NONE;
    struct err err = {0};

    if (!str_is(x->head.method, "POST") || !webhook_serves(x->head.path)) {
        http_reply(x, 404, "text/plain",
                   STR("POST an AdmissionReview to " WEBHOOK_PODS " or " WEBHOOK_KINDS "\n"));
        return;
    }
    webhook->reviews++;
    if (webhook_answer(&x->arena, &webhook->rules, x->head.path, x->body, &answer, &err) < 0)
        http_reply(x, 400, "text/plain", str_printf(&x->arena, "%s\n", err.text));
    else
        http_reply(x, 200, "application/json", answer);
}

/* The server starts with its first certificate, and goes on with each later one. */
static void on_certificate(void *user, struct str certificate, struct str key)
{
    struct operator_webhook *webhook = user;
    const struct log *log = &webhook->op->log;
    struct tls_identity *identity = NULL;
    struct err err = {0};

    if (tls_identity_new(certificate, key, STR_NONE, &identity, &err) < 0) {
        log_error(log, "webhook.certificate", LOG_ERR(&err));
        return;
    }
    if (webhook->server)
        http_server_set_tls(webhook->server, identity);
    else if (http_server_start(&(struct http_server_options){.loop = &webhook->op->loop,
                                                             .address = webhook->address,
                                                             .port = webhook->port,
                                                             .tls = identity,
                                                             .handle = on_review,
                                                             .user = webhook},
                               &webhook->server, &err) < 0)
        log_error(log, "webhook.listen", LOG_ERR(&err));
    else
        log_info(log, "webhook.ready", LOG_I64("port", http_server_port(webhook->server)));
    tls_identity_free(identity);
}

int operator_webhook_start(struct operator* op,
                           const struct operator_webhook_options *options,
                           struct err *err)
{
    struct operator_webhook *webhook;

    if (!options->listen || !*options->listen)
        return 0;
    webhook = MEM_NEW(struct operator_webhook);
    int r = operator_listen_parse("--webhook-listen", options->listen, webhook->address,
                                  &webhook->port, err);
    if (r < 0) {
        mem_free(webhook);
        return r;
    }
    webhook->op = op;
    webhook->rules = (struct webhook_rules){
        .kinds = kube_api(op->kube)->kinds,
        .scheduler_name = str_from(options->scheduler_name),
        .shares = options->shares,
        .limit_image = str_from(options->limit_image),
        .runtime_class = str_from(options->runtime_class),
    };
    webhook->certificates =
        certificates_start(&(struct certificates_options){.loop = &op->loop,
                                                          .api = kube_api(op->kube),
                                                          .ns = options->ns,
                                                          .secret = options->service,
                                                          .service = options->service,
                                                          .configuration = options->configuration,
                                                          .lifetime_ms = options->lifetime_ms,
                                                          .serve = on_certificate,
                                                          .user = webhook,
                                                          .log = &op->log});
    op->webhook = webhook;
    return 0;
}

void operator_webhook_lead(struct operator* op)
{
    if (op->webhook)
        certificates_lead(op->webhook->certificates);
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
    mem_free(op->webhook);
    op->webhook = NULL;
}
