#pragma once

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
struct runner;
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
    struct lease *lease; /* NULL: leads alone */
    struct runner *runner;
    struct scheduler *scheduler;
    struct http_server *http;
    uint64_t seed;
    bool leading;
    bool stopping;
    int status;
};

/* /healthz (the loop turns), /readyz (the API server answers, and all watches of a leader have told
 * what exists), /metrics. `listen` is "ADDR:PORT"; empty: no endpoint. */
int operator_http_start(struct operator* op, const char *listen, struct err *err);
void operator_http_stop(struct operator* op);
