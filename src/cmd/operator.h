#pragma once

#include "exec/runner.h"
#include "server/progress_elsewhere.h"
#include "server/ranks_elsewhere.h"
#include "tool/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct arena;
struct connect_options;
struct err;
struct http_server;
struct kube;
struct lease;
struct notifier;
struct operator_inside;
struct operator_others;
struct operator_page;
struct operator_page_values;
struct operator_values;
struct operator_webhook;
struct recorder;
struct scheduler;
struct suspender_inside;
struct turns;

/* What the files of `muster operator` share. */
struct operator
{
    struct arena *arena;
    const struct operator_values *values;
    struct log log;
    uv_loop_t loop;
    struct turns *turns;
    uv_signal_t sigterm;
    uv_signal_t sigint;
    struct kube *kube;
    struct lease *lease;         /* NULL: leads alone */
    struct runner_names without; /* controllers that stay off, whoever else runs */
    struct operator_others *others;
    struct runner *runner;
    struct notifier *notifier;
    struct scheduler *scheduler;
    struct recorder *recorder; /* NULL: nothing is recorded */
    struct http_server *http;
    struct http_server *debug;
    struct operator_webhook *webhook; /* NULL: none */
    struct operator_page *page;       /* NULL: none */
    struct operator_inside *inside;   /* NULL: pods are not suspended */
    struct progress_elsewhere progress;
    struct ranks_elsewhere ranks;
    uint64_t seed;
    bool leading;
    bool in_doubt; /* it leads or another does: nothing is decided until that is clear */
    bool stopping;
    int status;
};

/* /healthz (the loop turns), /readyz (the API server answers, and all watches of a leader have told
 * what exists), /metrics. `listen` is "ADDR:PORT"; empty: no endpoint. */
int operator_http_start(struct operator* op, const char *listen, struct err *err);
void operator_http_stop(struct operator* op);
/* /debug/snapshot: a v1 List of what the scheduler sees, with the moment and its settings, which
 * `muster simulate` decides as the scheduler would have; pods and nodes as api/kept.h keeps them:
 * without environments, commands and mounts. On an address of its own, loopback as a rule: it tells
 * everything about everybody's pods. */
int operator_debug_start(struct operator* op, const char *listen, struct err *err);

/* Commands in containers, for the scheduler. stop(): those under way end soon, and say so; free() when
 * the loop has nothing left. */
int operator_inside_start(struct operator* op,
                          const struct connect_options *connect,
                          struct err *err);
const struct suspender_inside *operator_inside_calls(const struct operator* op);
void operator_inside_stop(struct operator* op);
void operator_inside_free(struct operator* op);

/* The admission webhooks (server/webhook.h) and their certificates (keys/certificates.h); the same
 * server takes what trainings tell of themselves (server/progress_elsewhere.h), and pods of their ranks
 * (server/ranks_elsewhere.h). */
struct operator_webhook_options {
    const char *listen; /* empty: none */
    const char *ns;
    const char *service; /* in front of them; the Secret of the certificates has the same name */
    const char *configuration;
    int64_t lifetime_ms;      /* of a certificate */
    const char *progress_url; /* of this server, as trainings see it; empty: by the Service */
    const char *scheduler_name;
    bool shares;
    const char *limit_image; /* empty or NULL: shares are no limits */
    const char *runtime_class;
    bool own_devices;
    const char *administrators; /* groups, with commas between */
};
int operator_webhook_start(struct operator* op,
                           const struct operator_webhook_options *options,
                           struct err *err);
void operator_webhook_lead(struct operator* op, bool leads);
/* Tells op->runner where trainings tell their progress, as soon as that is known. */
void operator_webhook_tell(struct operator* op);
/* It answers, or there is none. */
bool operator_webhook_is_ready(const struct operator* op);
uint64_t operator_webhook_reviews(const struct operator* op);
void operator_webhook_stop(struct operator* op);

/* The web page, where --page-listen says so. */
int operator_page_start(struct operator* op,
                        const struct operator_page_values *values,
                        const struct connect_options *connect,
                        struct err *err);
void operator_page_stop(struct operator* op);

/* Looks for other operators of our kinds (control/cluster/coexist.h). `changed` comes from the
 * loop, once it is known who is there and whenever that changes; operator_leaves() then says whose
 * kinds are not ours. */
void operator_others_start(struct operator* op, void (*changed)(struct operator* op));
bool operator_leaves(const struct operator* op, size_t other);
void operator_others_stop(struct operator* op);

/* "ADDR:PORT" as http_server_start() wants it; `option` is its name in messages. */
#define OPERATOR_ADDRESS_BYTES 64
int operator_listen_parse(const char *option,
                          const char *listen,
                          char address[static OPERATOR_ADDRESS_BYTES],
                          uint16_t *ret_port,
                          struct err *err);
