#pragma once

#include "exec/runner.h"
#include "tool/log.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct arena;
struct err;
struct http_server;
struct kube;
struct lease;
struct operator_values;
struct scheduler;

/* What the files of `muster operator` share. */
struct operator
{
    struct arena *arena;
    const struct operator_values *values;
    struct log log;
    uv_loop_t loop;
    uv_signal_t sigterm;
    uv_signal_t sigint;
    struct kube *kube;
    struct lease *lease;         /* NULL: leads alone */
    struct runner_names without; /* controllers that stay off; NULL-terminated */
    struct runner *runner;
    struct scheduler *scheduler;
    struct http_server *http;
    struct http_server *debug;
    uint64_t seed;
    bool leading;
    bool stopping;
    int status;
};

/* /healthz (the loop turns), /readyz (the API server answers, and all watches of a leader have told
 * what exists), /metrics. `listen` is "ADDR:PORT"; empty: no endpoint. */
int operator_http_start(struct operator* op, const char *listen, struct err *err);
void operator_http_stop(struct operator* op);
/* /debug/snapshot: a v1 List of what the scheduler sees, pods without the values of their
 * environment. On an address of its own, loopback as a rule: it tells everything about everybody's
 * pods. */
int operator_debug_start(struct operator* op, const char *listen, struct err *err);

/* "ADDR:PORT" as http_server_start() wants it; `option` is its name in messages. */
#define OPERATOR_ADDRESS_BYTES 64
int operator_listen_parse(const char *option,
                          const char *listen,
                          char address[static OPERATOR_ADDRESS_BYTES],
                          uint16_t *ret_port,
                          struct err *err);
