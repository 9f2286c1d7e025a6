#include "control/cluster/sharing.h"

#include "api/autoscale.h"
#include "api/gpu.h"
#include "api/gpu_page.h"
#include "api/install.h"
#include "api/object.h"
#include "api/share.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- reservation pods ---- */

static void add_field(struct arena *arena, struct json *env, const char *name, const char *path)
{
    struct json *item = json_push(env, json_new_object(arena));

    json_add_c(arena, item, "name", name);
    json_add_c(arena, json_make_path(arena, item, "valueFrom.fieldRef"), "fieldPath", path);
}

static void add_container(struct arena *arena, struct json *spec, struct str image)
{
    static const char *const parts[] = {"limits", "requests"};
    struct json *container =
        json_push(json_add_array(arena, spec, "containers"), json_new_object(arena));
    struct json *resources;

    json_fill(arena, container, "{name: 'reservation', image: $, args: [$]}", image,
              STR(SHARING_COMMAND));
    struct json *env = json_add_array(arena, container, "env");
    add_field(arena, env, "POD_NAME", "metadata.name");
    add_field(arena, env, "POD_NAMESPACE", "metadata.namespace");
    add_field(arena, env, "POD_UID", "metadata.uid");
    resources = json_add_object(arena, container, "resources");
    for (size_t i = 0; i < 2; i++)
        json_add_c(arena, json_add_object(arena, resources, parts[i]), GPU_RESOURCE, "1");
    json_add_c(arena, json_get(resources, "requests"), "cpu", "1m");
    json_add_c(arena, json_get(resources, "requests"), "memory", "10Mi");
    json_set(container, STR("securityContext"), install_security(arena, NULL));
}

struct str sharing_reservation_name(struct arena *arena, struct str node, struct str group)
{
    return str_printf(arena, "gpu-reservation-" STR_FMT "-" STR_FMT, STR_ARG(node), STR_ARG(group));
}

struct json *sharing_reservation(struct arena *arena,
                                 const struct sharing_settings *settings,
                                 struct str node,
                                 struct str group)
{
    struct json *spec;
    struct json *pod =
        json_make(arena,
                  "{apiVersion: 'v1', kind: 'Pod', metadata: {name: $, namespace: $, labels: {app: "
                  "$, " GPU_LABEL_GROUP ": $}, annotations: {" AUTOSCALE_DISRUPT
                  ": '" AUTOSCALE_DISRUPT_NEVER "'}}}",
                  sharing_reservation_name(arena, node, group), settings->ns, SHARING_APP, group);

    spec = json_add_object(arena, pod, "spec");
    /* Past every scheduler: the device was chosen with the node. */
    json_add_str(arena, spec, "nodeName", node);
    json_add_str(arena, spec, "serviceAccountName", settings->service_account);
    if (settings->runtime_class.len)
        json_add_str(arena, spec, "runtimeClassName", settings->runtime_class);
    json_add_i64(arena, spec, "terminationGracePeriodSeconds", 0);
    json_add_c(arena, json_push(json_add_array(arena, spec, "tolerations"), json_new_object(arena)),
               "operator", "Exists");
    add_container(arena, spec, settings->image);
    return pod;
}

bool sharing_is_reservation(const struct sharing_settings *settings, const struct object *pod)
{
    return str_eq(pod->ns, settings->ns) && object_label(pod, GPU_LABEL_GROUP).len > 0;
}

/* ---- users ---- */

static struct json *config(struct arena *arena, const struct object *pod, struct str name)
{
    return json_make(arena,
                     "{apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: $, "
                     "namespace: $, ownerReferences: [{apiVersion: 'v1', kind: 'Pod', "
                     "name: $, uid: $}]}, data: {}}",
                     name, pod->ns, pod->name, pod->uid);
}

/* Limits that NVIDIA's MPS keeps itself; they mean something to its clients only. */
static void add_mps(struct arena *arena, struct json *data, const struct sharing_portion *portion)
{
    int64_t percent = (portion->fraction_micro + 5000) / 10000;

    json_add_str(arena, data, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
                 str_printf(arena, "%lld", (long long)(percent ? percent : 1)));
}

bool sharing_configs(struct arena *arena,
                     const struct object *pod,
                     const struct sharing_portion *portion,
                     struct json *ret[static 2])
{
    const struct json *tree = object_json(pod, arena);
    struct str prefix = object_annotation(pod, GPU_ANNOTATION_CONFIG);
    int64_t hundredths = (portion->fraction_micro + 5000) / 10000;
    struct str text = str_printf(arena, "%lld.%02lld", (long long)(hundredths / 100),
                                 (long long)(hundredths % 100));
    struct share_target target;

    if (!prefix.len || !share_find_target(tree, &target))
        return false;
    ret[0] = config(arena, pod, share_config_name(arena, prefix, target));
    ret[1] = config(arena, pod, share_evar_name(arena, prefix, target));
    struct json *data = json_get(ret[0], "data");
    json_fill(arena, data, "{" SHARE_VISIBLE ": $, " SHARE_PORTION ": $, " SHARE_GPUS ": $}",
              portion->devices, text, text);
    data = json_get(ret[1], "data");
    if (portion->memory_mib)
        json_add_str(arena, data, SHARE_MEMORY,
                     str_printf(arena, "%lld", (long long)portion->memory_mib));
    if (portion->movable)
        json_add_c(arena, data, GPU_PAGE_ENV, "1");
    if (str_is(object_annotation(pod, GPU_ANNOTATION_MPS), "true"))
        add_mps(arena, data, portion);
    return true;
}

static bool is_group_label(struct str key)
{
    return str_is(key, GPU_LABEL_GROUP) || str_starts(key, STR(GPU_LABEL_GROUP_PREFIX));
}

struct json *sharing_labels(struct arena *arena,
                            const struct object *pod,
                            const struct str *groups,
                            size_t count)
{
    struct json *patch = json_new_object(arena);
    struct json *labels = json_make_path(arena, patch, "metadata.labels");
    size_t same = 0;
    size_t others = 0;

    for (size_t i = 0; i < count; i++)
        json_set(labels,
                 count == 1 ? STR(GPU_LABEL_GROUP)
                            : str_printf(arena, GPU_LABEL_GROUP_PREFIX STR_FMT, STR_ARG(groups[i])),
                 json_new_str(arena, groups[i]));
    for (size_t i = 0; i < pod->label_count; i++) {
        const struct json *wanted = json_get_str(labels, pod->labels[i].key);

        if (!is_group_label(pod->labels[i].key))
            continue;
        if (wanted && str_eq(json_str(wanted), pod->labels[i].value)) {
            same++;
        } else if (!wanted) {
            others++;
            json_set(labels, pod->labels[i].key, json_new_null(arena));
        }
    }
    return same == count && !others ? NULL : patch;
}

const struct str *sharing_groups(struct arena *arena, const struct object *pod, size_t *ret_count)
{
    VEC(struct str) groups = {0};

    for (size_t i = 0; i < pod->label_count; i++)
        if (is_group_label(pod->labels[i].key))
            VEC_PUSH(arena, &groups, pod->labels[i].value);
    *ret_count = groups.count;
    return groups.items;
}

/* ---- pods ---- */

bool sharing_has_share(const struct object *pod)
{
    return object_annotation(pod, GPU_ANNOTATION_FRACTION).len ||
           object_annotation(pod, GPU_ANNOTATION_FRACTION_MEMORY).len;
}
