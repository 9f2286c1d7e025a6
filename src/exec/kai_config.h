#pragma once

#include "base/str.h"

struct arena;
struct json;

/* kai_config: what KAI's Config `kai-config` says that means something here. Pure.
 *
 * KAI's operator makes its Deployments from it; Muster is one program, so most of it belongs to
 * whoever deploys that. */
#define KAI_CONFIG_NAME "kai-config"

struct kai_config {
    struct str queue_label;    /* global.queueLabelKey; empty fields: nothing is said */
    struct str scheduler_name; /* global.schedulerName */
    struct str pool_label;     /* global.nodePoolLabelKey */
    struct str prometheus;     /* prometheus.externalPrometheusUrl: of shards that name none */
    struct str ignored;        /* fields without effect, one sentence; empty: none */
};

/* Strings live in the arena or in `tree`. */
void kai_config_read(const struct json *tree, struct arena *arena, struct kai_config *ret);
