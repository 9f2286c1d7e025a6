#include "api/install.h"

#include "base/arena.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

/* As the image has it (deploy/image/build.py). */
#define PROGRAM "/usr/bin/muster-launch"

static struct json *list_of(struct arena *arena, struct json *object, const char *key)
{
    struct json *list = json_get(object, key);

    return json_is(list, JSON_ARRAY) ? list : json_add_array(arena, object, key);
}

static bool has_name(const struct json *list, const char *name)
{
    JSON_FOREACH(list, item)
        if (str_is(json_str(json_get(item, "name")), name))
            return true;
    return false;
}

struct json *install_volume(struct arena *arena, struct json *pod, const char *name)
{
    struct json *list = list_of(arena, json_get(pod, "spec"), "volumes");
    struct json *volume;

    if (has_name(list, name))
        return NULL;
    volume = json_push(list, json_new_object(arena));
    json_add_c(arena, volume, "name", name);
    return volume;
}

void install_mount(struct arena *arena,
                   struct json *container,
                   const char *volume,
                   const char *at,
                   bool read_only)
{
    struct json *list = list_of(arena, container, "volumeMounts");
    struct json *mount;

    if (has_name(list, volume))
        return;
    mount = json_push(list, json_new_object(arena));
    json_add_c(arena, mount, "name", volume);
    json_add_c(arena, mount, "mountPath", at);
    if (read_only)
        json_add_bool(arena, mount, "readOnly", true);
}

static void add_resources(struct arena *arena, struct json *container, const struct json *like)
{
    static const char *const parts[] = {"requests", "limits"};
    static const char *const names[] = {"cpu", "memory"};

    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < 2; j++) {
            const struct json *amount =
                json_get(json_get(json_get(like, "resources"), parts[i]), names[j]);

            if (amount)
                json_set(
                    json_make_path(arena, container, i ? "resources.limits" : "resources.requests"),
                    str_from(names[j]), json_clone(arena, amount));
        }
}

struct json *install_security(struct arena *arena, const struct json *pod_security)
{
    const struct json *user = json_get(pod_security, "runAsUser");
    struct json *security =
        json_make(arena, "{allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, "
                         "runAsNonRoot: true, capabilities: {drop: ['ALL']}, "
                         "seccompProfile: {type: 'RuntimeDefault'}}");

    if (user && json_i64_or(user, 0) == 0)
        json_add_i64(arena, security, "runAsUser", INSTALL_USER);
    return security;
}

void install_requests(struct arena *arena, struct json *container)
{
    static const char *const amounts[][2] = {{"cpu", INSTALL_CPU}, {"memory", INSTALL_MEMORY}};
    const struct json *limits = json_at(container, "resources.limits");

    for (size_t i = 0; i < 2; i++) {
        const char *name = amounts[i][0];

        /* A limit without a request is one: the server makes it so. */
        if (!json_get(limits, name) && !json_get(json_at(container, "resources.requests"), name))
            json_add_c(arena, json_make_path(arena, container, "resources.requests"), name,
                       amounts[i][1]);
    }
}

static struct json *init_container(struct arena *arena,
                                   const struct json *spec,
                                   const struct install *install)
{
    const char *const command[] = {PROGRAM,       "install",     install->to,
                                   install->from, install->also, PROGRAM};
    size_t words = !install->from ? 3 : install->also ? 6 : 4;
    struct str policy = json_str_at(spec, "containers.0.imagePullPolicy");
    struct json *list;
    struct json *container = json_make(arena, "{name: $, image: $}", install->name, install->image);

    if (policy.len)
        json_add_str(arena, container, "imagePullPolicy", policy);
    list = json_add_array(arena, container, "command");
    for (size_t i = 0; i < words; i++)
        json_push(list, json_new_str(arena, str_from(command[i])));
    json_set(container, STR("securityContext"),
             install_security(arena, json_get(spec, "securityContext")));
    add_resources(arena, container, install->like);
    if (install->asks)
        install_requests(arena, container);
    install_mount(arena, container, install->name, install->folder, false);
    return container;
}

void install_add(struct arena *arena, struct json *pod, const struct install *install)
{
    struct json *spec = json_get(pod, "spec");
    struct json *inits = list_of(arena, spec, "initContainers");
    struct json *volume = install_volume(arena, pod, install->name);

    if (volume)
        (void)json_add_object(arena, volume, "emptyDir");
    if (!has_name(inits, install->name))
        json_insert(inits, 0, init_container(arena, spec, install));
}
