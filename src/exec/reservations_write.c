#include "exec/reservations_write.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "cache/cache.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The ConfigMaps go first, side by side, then the labels, which carry the pod's resourceVersion: a
 * leader that was deposed meanwhile cannot change what its successor decided. */

#define CONFIGS 2

struct config_write {
    struct member_write *owner;
    struct str name;
    struct str body;
    struct str data; /* a merge patch */
};

struct member_write {
    struct member_write_options options;
    struct arena arena;
    struct config_write configs[CONFIGS];
    size_t calls;
    uint64_t tried; /* version of the pod that the labels met; 0: not yet */
    bool labelling;
    bool forgotten;
    int code;
    struct err err;
};

static void fail(struct member_write *write, int code, const struct err *err)
{
    if (write->code)
        return;
    write->code = code;
    write->err = *err;
}

static void end(struct member_write *write)
{
    if (!write->forgotten)
        write->options.done(write->options.user, write->code, write->code ? &write->err : NULL);
    arena_done(&write->arena);
    mem_free(write);
}

static void label(struct member_write *write);

/* A call came back; true: go on. */
static bool came_back(struct member_write *write)
{
    if (--write->calls)
        return false;
    if (write->code || write->forgotten) {
        end(write);
        return false;
    }
    return true;
}

static void send(struct member_write *write,
                 const struct api_request *request,
                 api_done_fn *done,
                 void *user)
{
    write->calls++;
    api_call(write->options.api, request, done, user);
}

/* ---- labels ---- */

static void on_labelled(void *user, const struct api_result *result)
{
    struct member_write *write = user;

    write->labelling = false;
    if (result->code && result->err->http_status != 409)
        fail(write, result->code, result->err);
    else if (!result->code)
        write->tried = UINT64_MAX;
    if (!came_back(write))
        return;
    if (write->tried == UINT64_MAX)
        end(write);
    else
        label(write); /* if the newer version is known already */
}

static void label(struct member_write *write)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct member_write_options *options = &write->options;
    const struct object *pod =
        cache_get(options->cache, &kind_pod, options->pod.ns, options->pod.name);

    if (write->labelling || (pod && pod->revision <= write->tried))
        return;
    struct json *patch =
        pod ? sharing_labels(&arena, pod, options->groups, options->group_count) : NULL;
    if (pod && !patch) {
        end(write);
        return;
    }
    if (!patch) /* it is gone: the answer will say so */
        patch = json_new_object(&arena);
    write->labelling = true;
    write->tried = pod ? pod->revision : UINT64_MAX - 1;
    if (pod)
        json_add_str(&arena, json_make_path(&arena, patch, "metadata"), "resourceVersion",
                     str_printf(&arena, "%llu", (unsigned long long)pod->revision));
    send(write,
         &(struct api_request){.verb = API_PATCH,
                               .kind = &kind_pod,
                               .ns = options->pod.ns,
                               .name = options->pod.name,
                               .uid = options->pod.uid,
                               .patch = API_PATCH_MERGE,
                               .body = json_text(&arena, patch)},
         on_labelled, write);
}

void member_write_again(struct member_write *write)
{
    if (write && write->tried && !write->labelling && !write->calls)
        label(write);
}

/* ---- ConfigMaps ---- */

static void on_config(void *user, const struct api_result *result)
{
    struct config_write *config = user;
    struct member_write *write = config->owner;

    if (result->code)
        fail(write, result->code, result->err);
    if (came_back(write))
        label(write);
}

/* One of that name is there: ours of an earlier attempt, or another pod's. */
static void on_found(void *user, const struct api_result *result)
{
    struct config_write *config = user;
    struct member_write *write = config->owner;
    struct err err = {0};

    if (write->forgotten) {
        (void)came_back(write);
        return;
    }
    if (result->code) {
        fail(write, result->code, result->err);
    } else if (!result->object->owner_count ||
               !str_eq(result->object->owners[0].uid, write->options.pod.uid)) {
        fail(write,
             err_set(&err, -EEXIST,
                     "ConfigMap " STR_FMT " belongs to another pod: the annotation "
                     "runai/shared-gpu-configmap was copied from it; remove it",
                     STR_ARG(config->name)),
             &err);
    } else {
        send(write,
             &(struct api_request){.verb = API_PATCH,
                                   .kind = &kind_configmap,
                                   .ns = write->options.pod.ns,
                                   .name = config->name,
                                   .uid = result->object->uid,
                                   .patch = API_PATCH_MERGE,
                                   .body = config->data},
             on_config, config);
    }
    if (came_back(write))
        label(write);
}

static void on_created(void *user, const struct api_result *result)
{
    struct config_write *config = user;
    struct member_write *write = config->owner;

    if (!result->code || result->err->http_status != 409 || write->forgotten) {
        on_config(user, result);
        return;
    }
    send(write,
         &(struct api_request){.verb = API_GET,
                               .kind = &kind_configmap,
                               .ns = write->options.pod.ns,
                               .name = config->name},
         on_found, config);
    (void)came_back(write);
}

static void on_nothing(void *user, const struct api_result *result)
{
    (void)result;
    if (came_back(user))
        end(user);
}

struct member_write *member_write_start(const struct member_write_options *options)
{
    struct member_write *write = MEM_NEW(struct member_write);
    const struct object *pod =
        cache_get(options->cache, &kind_pod, options->pod.ns, options->pod.name);
    struct json *maps[CONFIGS];
    struct err err = {0};

    write->options = *options;
    if (!pod || !sharing_configs(&write->arena, pod, &options->portion, maps)) {
        fail(write,
             err_set(&err, -EINVAL,
                     "the pod was deleted, or the admission webhook did not prepare it"),
             &err);
        /* Told from the loop, as everything. */
        send(write,
             &(struct api_request){.verb = API_GET,
                                   .kind = &kind_pod,
                                   .ns = options->pod.ns,
                                   .name = options->pod.name},
             on_nothing, write);
        return write;
    }
    for (size_t i = 0; i < CONFIGS; i++) {
        struct config_write *config = &write->configs[i];
        struct json *data = json_new_object(&write->arena);

        json_set(data, STR("data"), json_clone(&write->arena, json_get(maps[i], "data")));
        config->owner = write;
        config->name = str_dup(&write->arena, json_str_at(maps[i], "metadata.name"));
        config->body = json_text(&write->arena, maps[i]);
        config->data = json_text(&write->arena, data);
        send(write,
             &(struct api_request){.verb = API_CREATE,
                                   .kind = &kind_configmap,
                                   .ns = options->pod.ns,
                                   .body = config->body},
             on_created, config);
    }
    return write;
}

void member_write_forget(struct member_write *write)
{
    if (!write)
        return;
    write->forgotten = true;
    if (!write->calls)
        end(write);
}
