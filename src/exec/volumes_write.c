#include "exec/volumes_write.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "sched/sched.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SELECTED_NODE       "volume.kubernetes.io/selected-node"
#define BOUND_BY_CONTROLLER "pv.kubernetes.io/bound-by-controller"

struct volume_change {
    struct volumes_write *write;
    struct str ns;
    struct str claim;
    struct str volume; /* empty: its provisioner makes one */
    struct str node;
    struct str uid;   /* of the claim */
    uint64_t written; /* revision of what was written, or of what there was; 0: not known */
    uint64_t seen;    /* the last one that was looked at */
    bool open;        /* it is waited for */
};

struct volumes_pod {
    struct sched_pod_ref pod;
    struct str node;
    struct volume_change *claim; /* that it waits for */
    struct volume_change *said;  /* that it was said to wait for */
};

struct volumes_write {
    struct arena *arena;
    struct volumes_options options;
    VEC(struct volume_change *) changes;
    VEC(struct volumes_pod) pods;
    int64_t until_ms;
    size_t pending; /* writes under way */
    bool waiting;   /* all is written */
    int code;
    struct err err;
};

/* ---- what is to be written ---- */

static void volume_add(struct volumes_write *write,
                       struct map *known,
                       const struct sched_bind *bind,
                       const struct sched_bind_volume *volume)
{
    struct arena *arena = write->arena;

    if (map_get(known, volume->claim))
        return;
    struct volume_change *change = ARENA_NEW(arena, struct volume_change);
    *change = (struct volume_change){.write = write,
                                     .ns = str_dup(arena, bind->pod.ns),
                                     .claim = str_dup(arena, volume->claim),
                                     .volume = str_dup(arena, volume->volume),
                                     .node = str_dup(arena, volume->node)};
    map_set(known, change->claim, change);
    VEC_PUSH(arena, &write->changes, change);
}

struct volumes_write *volumes_write_new(struct arena *arena,
                                        const struct sched_bind *binds,
                                        size_t count,
                                        int64_t now_ms)
{
    struct volumes_write *write = NULL;
    struct map known = {0};

    for (size_t i = 0; i < count; i++) {
        const struct sched_bind_more *more = binds[i].more;

        for (size_t v = 0; more && v < more->volume_count; v++) {
            if (!write) {
                write = ARENA_NEW(arena, struct volumes_write);
                *write =
                    (struct volumes_write){.arena = arena, .until_ms = now_ms + VOLUMES_WAIT_MS};
            }
            volume_add(write, &known, &binds[i], &more->volumes[v]);
        }
    }
    for (size_t i = 0; write && i < count; i++)
        VEC_PUSH(arena, &write->pods,
                 (struct volumes_pod){.pod = {str_dup(arena, binds[i].pod.ns),
                                              str_dup(arena, binds[i].pod.name),
                                              str_dup(arena, binds[i].pod.uid)},
                                      .node = str_dup(arena, binds[i].node)});
    map_done(&known);
    return write;
}

/* ---- the writes ---- */

static void end(struct volumes_write *write)
{
    write->waiting = false;
    write->options.done(write->options.user, write->code, write->code ? &write->err : NULL);
}

static void written(struct volumes_write *write)
{
    if (--write->pending)
        return;
    if (write->code) {
        end(write);
        return;
    }
    write->waiting = true;
    write->options.parked(write->options.user);
}

static void on_written(void *user, const struct api_result *result)
{
    struct volume_change *change = user;
    struct volumes_write *write = change->write;

    if (result->object)
        change->written = result->object->revision;
    if (result->code && !write->code) {
        write->code = result->code;
        if (result->err)
            write->err = *result->err;
        (void)err_wrap(&write->err, result->code, "PersistentVolumeClaim " STR_FMT,
                       STR_ARG(change->claim));
    }
    written(write);
}

static void send_patch(struct volume_change *change,
                       const struct object *object,
                       struct arena *arena,
                       struct json *body)
{
    /* Who changed it since the plan was made may have meant something else. */
    json_add_str(arena, json_make_path(arena, body, "metadata"), "resourceVersion",
                 str_printf(arena, "%llu", (unsigned long long)object->revision));
    api_call(change->write->options.api,
             &(struct api_request){.verb = API_PATCH,
                                   .kind = object->kind,
                                   .ns = object->ns,
                                   .name = object->name,
                                   .uid = object->uid,
                                   .patch = API_PATCH_MERGE,
                                   .body = json_text(arena, body)},
             on_written, change);
}

/* Somebody else was quicker: what was decided is worth nothing. */
static void refuse(struct volume_change *change, const char *words, struct str what)
{
    struct volumes_write *write = change->write;

    if (!write->code)
        write->code = err_set(&write->err, -EAGAIN, "PersistentVolumeClaim " STR_FMT " %s " STR_FMT,
                              STR_ARG(change->claim), words, STR_ARG(what));
    written(write);
}

/* The volume is the claim's from now on; who binds the two is the cluster's controller. */
static void give_volume(struct volume_change *change,
                        const struct object *claim,
                        const struct object *volume)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *ref = json_at(object_json(volume, &arena), "spec.claimRef");
    struct json *body = json_new_object(&arena);

    if (str_eq(json_str(json_get(ref, "uid")), claim->uid)) {
        change->written = volume->revision;
        written(change->write);
        return;
    }
    if (!json_is_null(ref) && (json_str(json_get(ref, "uid")).len ||
                               !str_eq(json_str(json_get(ref, "namespace")), claim->ns) ||
                               !str_eq(json_str(json_get(ref, "name")), claim->name))) {
        refuse(change, "was to have what another claim has by now: PersistentVolume", volume->name);
        return;
    }
    if (json_is_null(ref)) /* else somebody kept it for the claim, and keeps it after it is gone */
        json_add_c(&arena, json_make_path(&arena, body, "metadata.annotations"),
                   BOUND_BY_CONTROLLER, "yes");
    json_set(json_make_path(&arena, body, "spec"), STR("claimRef"),
             json_make(&arena,
                       "{apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace: $, name: $, "
                       "uid: $}",
                       claim->ns, claim->name, claim->uid));
    send_patch(change, volume, &arena, body);
}

static void tell_node(struct volume_change *change, const struct object *claim)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *body = json_new_object(&arena);
    struct str told = object_annotation(claim, SELECTED_NODE);

    if (told.len && !str_eq(told, change->node)) {
        refuse(change, "is being made for another node:", told);
        return;
    }
    if (told.len || json_str_at(object_json(claim, &arena), "spec.volumeName").len) {
        change->written = claim->revision;
        written(change->write);
        return;
    }
    json_add_str(&arena, json_make_path(&arena, body, "metadata.annotations"), SELECTED_NODE,
                 change->node);
    send_patch(change, claim, &arena, body);
}

static void change_send(struct volume_change *change)
{
    struct volumes_write *write = change->write;
    const struct cache *cache = write->options.cache;
    const struct object *claim = cache_get(cache, &kind_pvc, change->ns, change->claim);
    const struct object *volume =
        change->volume.len ? cache_get(cache, &kind_pv, STR(""), change->volume) : NULL;

    if (claim && change->volume.len ? !volume : !claim) {
        if (!write->code)
            write->code = err_set(&write->err, -ENOENT, "%s " STR_FMT " is gone",
                                  claim ? "PersistentVolume" : "PersistentVolumeClaim",
                                  STR_ARG(claim ? change->volume : change->claim));
        written(write);
        return;
    }
    change->uid = str_dup(write->arena, claim->uid);
    if (volume) {
        give_volume(change, claim, volume);
    } else {
        tell_node(change, claim);
    }
}

void volumes_write_send(struct volumes_write *write, const struct volumes_options *options)
{
    write->options = *options;
    /* One more than there are, so that the last one to end is not the first. */
    write->pending = write->changes.count + 1;
    for (size_t i = 0; i < write->changes.count; i++)
        change_send(write->changes.items[i]);
    written(write);
}

/* ---- waiting ---- */

/* Whether what was written has been taken back: a provisioner cannot make a volume for the node, or
 * the cluster's controller has given the volume away. */
static bool is_taken_back(struct volume_change *change)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct cache *cache = change->write->options.cache;
    const struct object *object = change->volume.len
                                      ? cache_get(cache, &kind_pv, STR(""), change->volume)
                                      : cache_get(cache, &kind_pvc, change->ns, change->claim);

    if (!object || !change->written || object->revision < change->written ||
        object->revision == change->seen)
        return !object;
    change->seen = object->revision;
    const struct json *root = object_json(object, &arena);
    if (change->volume.len)
        return !str_eq(json_str_at(root, "spec.claimRef.uid"), change->uid);
    return !str_eq(object->uid, change->uid) ||
           (!json_str_at(root, "spec.volumeName").len &&
            !str_eq(object_annotation(object, SELECTED_NODE), change->node));
}

static void changes_poll(struct volumes_write *write)
{
    for (size_t i = 0; i < write->changes.count && !write->code; i++) {
        struct volume_change *change = write->changes.items[i];

        if (is_taken_back(change))
            write->code =
                err_set(&write->err, -EAGAIN,
                        "PersistentVolumeClaim " STR_FMT " could not be made for node " STR_FMT,
                        STR_ARG(change->claim), STR_ARG(change->node));
        change->open = false;
    }
}

static struct volume_change *change_of(const struct volumes_write *write, struct str claim)
{
    for (size_t i = 0; i < write->changes.count; i++)
        if (str_eq(write->changes.items[i]->claim, claim))
            return write->changes.items[i];
    return write->changes.items[0]; /* it was bound when this was planned */
}

static void pod_poll(struct volumes_write *write, struct volumes_pod *pod)
{
    struct str claim = STR_NONE;

    switch (write->options.state(write->options.state_user, &pod->pod, pod->node, &claim)) {
    case SCHED_VOLUMES_READY: pod->claim = NULL; return;
    case SCHED_VOLUMES_WAIT:
    case SCHED_VOLUMES_TOLD_NOT: /* the core has not heard of it yet */ break;
    case SCHED_VOLUMES_LOST:
        write->code = err_set(&write->err, -EAGAIN,
                              "PersistentVolumeClaim " STR_FMT " cannot be used from node " STR_FMT
                              " any more",
                              STR_ARG(claim), STR_ARG(pod->node));
        return;
    }
    if (!pod->claim || !str_eq(pod->claim->claim, claim))
        pod->claim = change_of(write, claim);
    pod->claim->open = true;
}

/* What each pod waits for, when that is another claim than it was. */
static void tell_pods(struct volumes_write *write, struct volume_change *first, int64_t now_ms)
{
    for (size_t i = 0; i < write->pods.count; i++) {
        struct volumes_pod *pod = &write->pods.items[i];
        struct volume_change *claim = pod->claim ? pod->claim : first;

        if (pod->said && (pod->said == claim || (!pod->claim && pod->said->open)))
            continue;
        pod->said = claim;
        write->options.waits(write->options.user, &pod->pod, pod->node, claim->claim, now_ms);
    }
}

int64_t volumes_write_poll(struct volumes_write *write, int64_t now_ms)
{
    struct volume_change *first = NULL;

    if (!write->waiting)
        return INT64_MAX;
    changes_poll(write);
    for (size_t i = 0; i < write->pods.count && !write->code; i++) {
        pod_poll(write, &write->pods.items[i]);
        first = first ? first : write->pods.items[i].claim;
    }
    if (first && !write->code && now_ms >= write->until_ms)
        write->code = err_set(&write->err, -ETIMEDOUT,
                              "PersistentVolumeClaim " STR_FMT
                              " was not bound within %d minutes; look at its events",
                              STR_ARG(first->claim), VOLUMES_WAIT_MS / 60000);
    if (first && !write->code) {
        tell_pods(write, first, now_ms);
        return write->until_ms;
    }
    end(write);
    return INT64_MAX;
}

void volumes_write_stop(struct volumes_write *write)
{
    if (!write->code)
        write->code = err_set(&write->err, -ECANCELED, "the scheduler ends");
    if (write->waiting)
        end(write);
}
