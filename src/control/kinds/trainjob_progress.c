#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "control/cluster/progress.h"
#include "control/core/control.h"
#include "control/core/owner.h"
#include "control/kinds/list.h"
#include "control/kinds/trainjob.h"

#include <stddef.h>

/* How a training can tell its progress: in every container of the trainer a URL, the certificate of
 * who serves it, and a token that is good for nothing else. */

#define FOLDER  "/var/run/secrets/kubeflow/trainer"
#define VOLUME  "kubeflow-trainer-token"
#define TOKEN_S 3600

static struct str config_name(const struct trainjob_build *build)
{
    return str_printf(build->arena, STR_FMT "-tls-config", STR_ARG(build->object->name));
}

static struct str path_of(const struct trainjob_build *build)
{
    return progress_path(build->arena, build->object->ns, build->object->name);
}

static void add_volume(struct trainjob_build *build, struct json *pod_spec)
{
    struct arena *arena = build->arena;
    struct json *volume = json_push(list_at(arena, pod_spec, "volumes"), json_new_object(arena));

    json_add_c(arena, volume, "name", VOLUME);
    struct json *sources =
        json_add_array(arena, json_add_object(arena, volume, "projected"), "sources");
    struct json *token =
        json_add_object(arena, json_push(sources, json_new_object(arena)), "serviceAccountToken");
    json_fill(arena, token, "{audience: $, expirationSeconds: $, path: 'token'}", path_of(build),
              TOKEN_S);
    struct json *map =
        json_add_object(arena, json_push(sources, json_new_object(arena)), "configMap");
    json_fill(arena, map, "{name: $, items: [{key: 'ca.crt', path: 'ca.crt'}]}",
              config_name(build));
}

void trainjob_progress(struct trainjob_build *build, struct json *part)
{
    struct arena *arena = build->arena;
    struct str server = build->config->trainer_url;
    struct json *pod_spec = json_at(part, "template.spec.template.spec");

    if (!server.len || !pod_spec)
        return;
    JSON_FOREACH(json_get(pod_spec, "containers"), container) {
        json_push(list_at(arena, container, "volumeMounts"),
                  json_make(arena, "{name: $, mountPath: $, readOnly: true}", VOLUME, FOLDER));
        trainjob_env(
            arena, container, "KUBEFLOW_TRAINER_SERVER_URL",
            str_printf(arena, STR_FMT "/apis/" STR_FMT, STR_ARG(server), STR_ARG(path_of(build))));
        trainjob_env(arena, container, "KUBEFLOW_TRAINER_SERVER_CA_CERT", STR(FOLDER "/ca.crt"));
        trainjob_env(arena, container, "KUBEFLOW_TRAINER_SERVER_TOKEN", STR(FOLDER "/token"));
    }
    add_volume(build, pod_spec);
    build->certificate = owner_make(arena, build->object, &kind_configmap, config_name(build));
    json_add_str(arena, json_add_object(arena, build->certificate, "data"), "ca.crt",
                 build->config->trainer_ca);
}
