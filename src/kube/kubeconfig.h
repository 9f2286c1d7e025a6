#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct err;

/* kubeconfig: where the API server is and who we are to it.
 *
 * Read as kubectl reads it: $KUBECONFIG may name several files separated by ":"; of each cluster,
 * user and context the first file that has it counts, files that do not exist are skipped, and
 * relative paths inside a file are relative to that file. Everything a result points to is in the
 * arena. */
struct kubeconfig_env {
    const char *name;
    const char *value;
};

/* A program that prints a credential (client.authentication.k8s.io). */
struct kubeconfig_exec {
    const char *api_version;
    const char *command;     /* a name to look up in PATH, or an absolute path */
    const char *const *args; /* NULL-terminated, without the command itself */
    const struct kubeconfig_env *env;
    size_t env_count;
    const char *install_hint; /* or NULL */
    bool provide_cluster_info;
};

struct kube_config {
    const char *source;  /* the file it came from, for messages */
    bool in_cluster;     /* no file: of the pod that we run in */
    const char *context; /* name of the context, or "" */
    const char *ns;      /* "default" when nothing says otherwise */
    const char *server;
    const char *server_name; /* tls-server-name, or NULL */
    const char *proxy;       /* proxy-url, or NULL */
    struct str ca_pem;       /* empty: the system's authorities */
    bool insecure;
    struct str cert_pem; /* client certificate and key; empty: none */
    struct str key_pem;
    const char
        *ca_file; /* where they were read from, to be read again: they are rotated; or NULL */
    const char *cert_file;
    const char *key_file;
    const char *token;                  /* NULL: none */
    const char *token_file;             /* NULL: none; read again now and then, it is rotated */
    const struct kubeconfig_exec *exec; /* or NULL */
};

struct kubeconfig_options {
    const char *path;    /* --kubeconfig: exactly this file, which must exist */
    const char *env;     /* $KUBECONFIG */
    const char *home;    /* $HOME: HOME/.kube/config is read when nothing is named */
    const char *context; /* --context; NULL: current-context */
    const char *ns;      /* -n; NULL: the context's */
    const char *server;  /* --server, or NULL */
};

/* -ENOENT when there is no file at all, -EINVAL with words naming file and entry. */
int kubeconfig_load(struct arena *arena,
                    const struct kubeconfig_options *options,
                    struct kube_config *ret,
                    struct err *err);
/* Inside a pod: the mounted ServiceAccount. `host` and `port` are KUBERNETES_SERVICE_HOST and
 * _PORT; -ENOENT when they are NULL. */
int kubeconfig_in_cluster(struct arena *arena,
                          const char *host,
                          const char *port,
                          struct kube_config *ret,
                          struct err *err);
