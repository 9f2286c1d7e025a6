#include "api/limit.h"

#include "api/install.h"
#include "api/share.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

#define REGION_VOLUME "muster-gpu-region"
#define REGION_SIZE   "1Mi" /* the region has less, see preload/region.h */
/* As the image has it (deploy/image/build.py). */
#define IMAGE_PATH "/usr/lib/muster/" LIMIT_LIBRARY_NAME
/* What the user's LD_PRELOAD is called where its value is not known yet. */
#define ENV_BEFORE "MUSTER_GPU_LD_PRELOAD"

struct str limit_preload(struct arena *arena, struct str before, struct str library)
{
    struct str rest = before;
    struct str part;

    while (str_cut(&rest, ':', &part))
        if (str_eq(part, library))
            return before;
    return before.len ? str_printf(arena, STR_FMT ":" STR_FMT, STR_ARG(before), STR_ARG(library))
                      : library;
}

static struct json *variable(struct arena *arena, struct json *list, const char *name)
{
    struct json *item;

    JSON_FOREACH(list, same)
        if (str_is(json_str(json_get(same, "name")), name))
            return same;
    item = json_push(list, json_new_object(arena));
    json_add_c(arena, item, "name", name);
    return item;
}

/* A value from a ConfigMap, a Secret or a field is known to the kubelet alone: it gets another name
 * and is referred to. */
static void add_preload(struct arena *arena, struct json *list)
{
    struct json *item = variable(arena, list, LIMIT_ENV_PRELOAD);
    struct str before = json_str(json_get(item, "value"));

    if (json_get(item, "valueFrom")) {
        json_add_c(arena, item, "name", ENV_BEFORE);
        item = variable(arena, list, LIMIT_ENV_PRELOAD);
        before = STR("$(" ENV_BEFORE ")");
    }
    json_add_str(arena, item, "value", limit_preload(arena, before, STR(LIMIT_LIBRARY)));
}

static void add_region(struct arena *arena, struct json *pod, struct json *container)
{
    struct json *volume = install_volume(arena, pod, REGION_VOLUME);

    if (volume) {
        json_fill(arena, volume, "{emptyDir: {medium: 'Memory', sizeLimit: $}}", REGION_SIZE);
    }
    install_mount(arena, container, REGION_VOLUME, LIMIT_REGION_DIR, false);
}

/* The limit is what the scheduler writes to the ConfigMap of the share, and nothing else. The list
 * may be as long as a request: it is gone through once. */
static struct json *without_own_limit(struct arena *arena, struct json *list)
{
    struct json *kept = json_new_array(arena);

    for (struct json *item = json_first(list), *next = NULL; item; item = next) {
        next = json_next(item);
        if (!str_is(json_str(json_get(item, "name")), SHARE_MEMORY))
            json_push(kept, item);
    }
    return kept;
}

void limit_mutate(struct arena *arena, struct json *pod, struct str image)
{
    const struct json *annotations = json_at(pod, "metadata.annotations");
    struct json *spec = json_get(pod, "spec");
    struct share_target target;

    if (str_is(json_str(json_get(annotations, LIMIT_ANNOTATION)), "false") ||
        !share_find_target(pod, &target))
        return;
    struct json *container =
        json_index(json_get(spec, target.init ? "initContainers" : "containers"), target.index);
    struct json *said = json_get(container, "env");
    struct json *env =
        without_own_limit(arena, json_is(said, JSON_ARRAY) ? said : json_new_array(arena));

    json_set(container, STR("env"), env);
    add_preload(arena, env);
    struct json *region = variable(arena, env, LIMIT_ENV_REGION);
    json_remove(region, STR("valueFrom"));
    json_add_c(arena, region, "value", LIMIT_REGION);
    install_mount(arena, container, LIMIT_CONTAINER, LIMIT_LIBRARY_DIR, true);
    add_region(arena, pod, container);
    install_add(arena, pod,
                &(struct install){.name = LIMIT_CONTAINER,
                                  .from = IMAGE_PATH,
                                  .to = LIMIT_LIBRARY,
                                  .also = LIMIT_HELPER,
                                  .folder = LIMIT_LIBRARY_DIR,
                                  .image = image,
                                  .like = container});
}
