#pragma once

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct err;
struct kube;
struct kube_config;
struct log;
struct uv_loop_s;

/* connect: how every command finds its API server: the file it was given, else the ServiceAccount
 * of the pod it runs in, else what kubectl would take. */
struct connect_options {
    const char *kubeconfig; /* --kubeconfig, or NULL */
    const char *context;    /* --context, or NULL */
    int64_t per_second;     /* 0: the default of kube.h */
    bool whole;             /* of kube.h: objects are told whole */
    /* The muster of this machine, where there is one, comes before other clusters: as for `muster list`
     * and its like (plugin/session.c). */
    bool near;
    const struct log *log;
};

int connect_config(struct arena *arena,
                   const struct connect_options *options,
                   struct kube_config *ret,
                   struct err *err);
int connect_kube(struct arena *arena,
                 struct uv_loop_s *loop,
                 const struct connect_options *options,
                 struct kube **ret,
                 struct err *err);
