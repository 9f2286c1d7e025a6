#include "plugin/kubectl.h"

#include "base/err.h"
#include "base/str.h"
#include "plugin/plugin.h"
#include "system/errors.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void kubectl_add(struct kubectl_args *args, const char *item)
{
    if (args->count + 1 < KUBECTL_ARGS_MAX)
        args->items[args->count++] = item;
    args->items[args->count] = NULL;
}

/* In a pod there is neither a file nor a context to name: kubectl finds the account by itself. */
void kubectl_begin_in(struct kubectl_args *args,
                      const struct session *session,
                      const char *ns,
                      const char *verb)
{
    const struct kube_config *config = &session->config;

    kubectl_add(args, "kubectl");
    if (!config->in_cluster && config->source && *config->source) {
        kubectl_add(args, "--kubeconfig");
        kubectl_add(args, config->source);
    }
    if (!config->in_cluster && *config->context) {
        kubectl_add(args, "--context");
        kubectl_add(args, config->context);
    }
    kubectl_add(args, "-n");
    kubectl_add(args, ns);
    kubectl_add(args, verb);
}

void kubectl_begin(struct kubectl_args *args, const struct session *session, const char *verb)
{
    kubectl_begin_in(args, session, session->config.ns, verb);
}

int kubectl_find(struct err *err)
{
    const char *path = getenv("PATH");
    struct str rest = str_from(path ? path : "");
    struct str folder;

    while (str_cut(&rest, ':', &folder)) {
        char file[PATH_MAX];

        (void)snprintf(file, sizeof(file), STR_FMT "/kubectl", STR_ARG(folder));
        if (access(file, X_OK) == 0)
            return 0;
    }
    return err_set(err, -ENOENT, "this command needs kubectl, and there is none on PATH");
}

int kubectl_become(const struct kubectl_args *args, struct err *err)
{
    (void)execvp(args->items[0], (char *const *)(uintptr_t)args->items);
    return err_set(err, -errno, "cannot run kubectl, which this command needs: %s",
                   errno_words(errno));
}
