#include "cmd/connect.h"

#include "base/err.h"
#include "kube/kube.h"
#include "kube/kubeconfig.h"
#include "plugin/local.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

int connect_config(struct arena *arena,
                   const struct connect_options *options,
                   struct kube_config *ret,
                   struct err *err)
{
    const char *env = getenv("KUBECONFIG");
    int r;

    if (!options->kubeconfig && (!env || !*env)) { /* empty is not set, as for kubectl */
        r = kubeconfig_in_cluster(arena, getenv("KUBERNETES_SERVICE_HOST"),
                                  getenv("KUBERNETES_SERVICE_PORT"), ret, err);
        if (r != -ENOENT)
            return r;
    }
    struct kubeconfig_options file = {
        .path = options->kubeconfig,
        .env = env,
        .home = getenv("HOME"),
        .context = options->context,
    };
    r = kubeconfig_load(arena, &file, ret, err);
    if (options->near && !options->kubeconfig && !options->context && r != -EINVAL &&
        local_is_here(arena) && (r < 0 || !local_is_served(ret))) {
        file = (struct kubeconfig_options){.path = local_kubeconfig(arena)};
        return kubeconfig_load(arena, &file, ret, err);
    }
    if (r != -ENOENT || options->kubeconfig || (env && *env))
        return r;
    /* As kubectl-torchrun: nothing is named, so the muster of this machine is meant. */
    file.path = local_kubeconfig(arena);
    return access(file.path, R_OK) < 0 ? r : kubeconfig_load(arena, &file, ret, err);
}

int connect_kube(struct arena *arena,
                 struct uv_loop_s *loop,
                 const struct connect_options *options,
                 struct kube **ret,
                 struct err *err)
{
    struct kube_config config = {0};
    int r = connect_config(arena, options, &config, err);

    if (r < 0)
        return r;
    return kube_open(loop,
                     &(struct kube_options){
                         .config = &config,
                         .per_second = options->per_second,
                         .burst = options->per_second * 2,
                         .whole = options->whole,
                         .log = options->log,
                     },
                     ret, err);
}
