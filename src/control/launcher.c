#include "control/launcher.h"

#include "base/json.h"
#include "launch/launch.h"

#include <stdbool.h>
#include <stddef.h>

#define VOLUME "muster-launch"

/* As the image has it (deploy/image/build.py). */
#define IMAGE_PATH "/usr/bin/muster-launch"

static void mount_in(struct json *container, struct arena *arena)
{
    struct json *mounts = json_get(container, "volumeMounts");
    struct json *mount = json_new_object(arena);

    if (!json_is(mounts, JSON_ARRAY))
        mounts = json_add_array(arena, container, "volumeMounts");
    json_push(mounts, mount);
    json_add_c(arena, mount, "name", VOLUME);
    json_add_c(arena, mount, "mountPath", LAUNCH_DIR);
}

static struct json *init_container(const struct json *spec, struct str image, struct arena *arena)
{
    static const char *const command[] = {IMAGE_PATH, "install", LAUNCH_PATH};
    struct json *container = json_new_object(arena);
    struct json *list;

    json_add_c(arena, container, "name", VOLUME);
    json_add_str(arena, container, "image", image);
    struct str policy = json_str_at(spec, "containers.0.imagePullPolicy");
    if (policy.len)
        json_add_str(arena, container, "imagePullPolicy", policy);
    list = json_add_array(arena, container, "command");
    for (size_t i = 0; i < sizeof(command) / sizeof(command[0]); i++)
        json_push(list, json_new_str(arena, str_from(command[i])));
    struct json *security = json_add_object(arena, container, "securityContext");
    json_add_bool(arena, security, "allowPrivilegeEscalation", false);
    json_add_bool(arena, security, "readOnlyRootFilesystem", true);
    json_push(json_add_array(arena, json_add_object(arena, security, "capabilities"), "drop"),
              json_new_str(arena, STR("ALL")));
    mount_in(container, arena);
    return container;
}

void launcher_add(struct json *pod, struct str image, struct arena *arena)
{
    struct json *spec = json_get(pod, "spec");
    struct json *volumes = json_get(spec, "volumes");
    struct json *inits = json_get(spec, "initContainers");
    bool used = false;

    if (!image.len)
        return;
    JSON_FOREACH(json_get(spec, "containers"), container) {
        if (!str_is(json_str_at(container, "command.0"), LAUNCH_PATH))
            continue;
        mount_in(container, arena);
        used = true;
    }
    if (!used)
        return;
    if (!json_is(volumes, JSON_ARRAY))
        volumes = json_add_array(arena, spec, "volumes");
    struct json *volume = json_push(volumes, json_new_object(arena));
    json_add_c(arena, volume, "name", VOLUME);
    (void)json_add_object(arena, volume, "emptyDir");
    if (!json_is(inits, JSON_ARRAY))
        inits = json_add_array(arena, spec, "initContainers");
    /* First: init containers of the user's may want it too. */
    json_insert(inits, 0, init_container(spec, image, arena));
}
