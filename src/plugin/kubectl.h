#pragma once

#include <stddef.h>

struct err;
struct session;

/* kubectl: what it can do better, with the same cluster, context and namespace as ours. It knows every
 * way into a container. */
#define KUBECTL_ARGS_MAX 140

struct kubectl_args {
    const char *items[KUBECTL_ARGS_MAX];
    size_t count;
};

void kubectl_add(struct kubectl_args *args, const char *item);
/* In the session's namespace, or in another one. */
void kubectl_begin(struct kubectl_args *args, const struct session *session, const char *verb);
void kubectl_begin_in(struct kubectl_args *args,
                      const struct session *session,
                      const char *ns,
                      const char *verb);
/* -ENOENT with words: it is not on PATH. */
int kubectl_find(struct err *err);
/* This process goes on as kubectl. Returns only if that fails. */
int kubectl_become(const struct kubectl_args *args, struct err *err);
