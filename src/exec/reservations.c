#include "exec/reservations.h"

#include "api/api.h"
#include "api/gpu.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/pod.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "exec/reservations_write.h"
#include "sched/decode.h"
#include "sched/spec.h"
#include "tool/log.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Flow: pods that are observed become users of holdings (a holding is one group on one node), or
 * the holding's reservation pod. Gangs that are prepared claim their holdings. Every change of a
 * holding puts it on the list of those that a turn looks at. */

#define KEY_BYTES       512 /* node (253), '/', group (63) */
#define CREATE_AGAIN_MS 1000

struct holding {
    struct str node; /* both inside the key */
    struct str group;
    const struct object *pod; /* the reservation; NULL: none */
    int64_t due_ms;           /* when it should have told its device */
    bool late;                /* that moment has passed */
    bool over;                /* it has ended */
    size_t users;
    size_t claims;
    bool creating;
    int64_t again_ms; /* whether that worked is not known: asked for again then; 0: it is */
    bool deleting;
    bool dirty;
    bool served; /* the node gave its device, and the core knows */
    int counted; /* what the core was told: devices it holds; -1: nothing yet */
    bool ahead;  /* the core counts a reservation pod that nobody has seen yet */
    char key[KEY_BYTES];
};

/* A pod with shares that is bound, or about to be. */
struct user {
    struct holding *holdings[GPU_SHARE_DEVICES_MAX];
    size_t count;
    bool claimed; /* about to be: the pod does not show it yet */
    struct str uid;
    struct str key; /* "ns/name" */
    char text[];    /* key and uid */
};

struct gang {
    struct gang *next;
    struct reservations *owner;
    struct arena arena;
    struct reservations_pod *pods;
    struct member_write **writes; /* one a pod, NULL: not begun or not needed */
    bool *ready;
    size_t count;
    int64_t until_ms;
    reservations_done_fn *done;
    void *user;
    int code;
    struct err err;
};

struct reservations {
    struct reservations_options options;
    struct map holdings; /* by "node/group" */
    struct map users;    /* by "ns/name" */
    struct gang *gangs;
    size_t calls; /* that will still come back */
    bool dirty;
    bool stopped;
};

/* ---- holdings ---- */

static struct sharing_facts facts_of(const struct holding *holding)
{
    const struct object *pod = holding->pod;

    return (struct sharing_facts){
        .there = pod,
        .ending = pod && pod->deleted_ms,
        .over = pod && holding->over,
        .told = pod && object_annotation(pod, GPU_ANNOTATION_RESERVED).len > 0,
        .late = pod && holding->late,
        .users = holding->users,
        .claims = holding->claims,
        .deleting = holding->deleting,
        .creating = holding->creating,
    };
}

static struct str holding_key(struct str node, struct str group, char out[static KEY_BYTES])
{
    int len = snprintf(out, KEY_BYTES, STR_FMT "/" STR_FMT, STR_ARG(node), STR_ARG(group));

    return (struct str){out, len < KEY_BYTES ? (size_t)len : KEY_BYTES - 1};
}

static struct holding *holding_get(struct reservations *reservations,
                                   struct str node,
                                   struct str group)
{
    char text[KEY_BYTES];
    struct str key = holding_key(node, group, text);
    struct holding *holding = map_get(&reservations->holdings, key);

    if (holding)
        return holding;
    holding = MEM_NEW(struct holding);
    key = holding_key(node, group, holding->key);
    holding->node = str_sub(key, 0, node.len);
    holding->group = str_sub(key, node.len + 1, group.len);
    holding->counted = -1;
    map_set(&reservations->holdings, key, holding);
    return holding;
}

static int64_t now_of(const struct reservations *reservations)
{
    return reservations->options.now(reservations->options.user);
}

/* For what begins now. */
static int64_t time_is_up(const struct reservations *reservations)
{
    int64_t timeout_ms = reservations->options.timeout_ms;

    return now_of(reservations) + (timeout_ms ? timeout_ms : SHARING_TIMEOUT_MS);
}

static void want_turn(struct reservations *reservations)
{
    if (!reservations->dirty && !reservations->stopped)
        reservations->options.again(reservations->options.user);
    reservations->dirty = true;
}

static void holding_touch(struct reservations *reservations, struct holding *holding)
{
    holding->dirty = true;
    want_turn(reservations);
}

/* The core counts the reservation pod's device only while no user stands for it. */
static void tell_core(struct reservations *reservations, struct holding *holding, bool changed)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct sharing_facts facts = facts_of(holding);
    int counted = sharing_counts(&facts);
    struct sched_pod spec;

    if (!holding->pod || (!changed && holding->counted == counted))
        return;
    struct decode decode = {.config = sched_config(reservations->options.core),
                            .arena = &arena,
                            .object = holding->pod,
                            .tree = object_json(holding->pod, &arena)};
    decode_pod(&decode, &spec);
    spec.gpus = counted;
    holding->counted = counted;
    sched_put_pod(reservations->options.core, &spec);
}

/* Whoever asked for a reservation pod gave up, but it will come and take a device: until it is seen
 * and released, the core must not give that device away. */
static void count_ahead(struct reservations *reservations, struct holding *holding)
{
    _cleanup_(arena_done) struct arena arena = {0};
    bool coming = holding->creating && !holding->pod && !holding->users && !holding->claims;
    struct str ns = reservations->options.settings.ns;
    struct str name = sharing_reservation_name(&arena, holding->node, holding->group);

    if (coming == holding->ahead)
        return;
    holding->ahead = coming;
    if (coming)
        sched_put_pod(
            reservations->options.core,
            &(struct sched_pod){
                .ns = ns, .name = name, .phase = SCHED_BOUND, .node = holding->node, .gpus = 1});
    else if (!holding->pod)
        sched_drop_pod(reservations->options.core, ns, name);
}

/* Nobody knows it any more. */
static void holding_release(struct reservations *reservations, struct holding *holding)
{
    if (holding->pod || holding->users || holding->claims || holding->creating)
        return;
    map_remove(&reservations->holdings,
               (struct str){holding->key, holding->node.len + 1 + holding->group.len});
    mem_free(holding);
}

static void observe_reservation(struct reservations *reservations,
                                enum sched_change change,
                                const struct object *pod)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *tree = object_json(pod, &arena);
    struct holding *holding = holding_get(reservations, json_str_at(tree, "spec.nodeName"),
                                          object_label(pod, GPU_LABEL_GROUP));
    bool ours = !holding->pod || str_eq(holding->pod->uid, pod->uid) || change == SCHED_PUT;

    if (change == SCHED_DROP) {
        sched_drop_pod(reservations->options.core, pod->ns, pod->name);
        if (ours) {
            object_unref(holding->pod);
            holding->pod = NULL;
            holding->deleting = false;
            holding->counted = -1;
        }
    } else {
        if (!holding->pod || !str_eq(holding->pod->uid, pod->uid)) {
            holding->due_ms = time_is_up(reservations);
            holding->late = false;
        }
        object_unref(holding->pod);
        holding->pod = object_ref(pod);
        holding->over = pod_is_over(tree);
        holding->creating = false;
        holding->again_ms = 0;
        holding->ahead = false; /* what is told now takes its place */
        tell_core(reservations, holding, true);
    }
    holding_touch(reservations, holding);
}

/* ---- users ---- */

static struct str user_key(struct arena *arena, struct str ns, struct str name)
{
    return str_printf(arena, STR_FMT "/" STR_FMT, STR_ARG(ns), STR_ARG(name));
}

static void user_drop(struct reservations *reservations, struct user *user)
{
    for (size_t i = 0; i < user->count; i++) {
        struct holding *holding = user->holdings[i];

        if (user->claimed)
            holding->claims--;
        else
            holding->users--;
        tell_core(reservations, holding, false);
        count_ahead(reservations, holding);
        holding_touch(reservations, holding);
    }
    map_remove(&reservations->users, user->key);
    mem_free(user);
}

struct place {
    struct str ns, name, uid;
    struct str node;
    const struct str *groups;
    size_t count;
};

static void user_add(struct reservations *reservations, const struct place *place, bool claimed)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str key = user_key(&arena, place->ns, place->name);
    struct user *user = mem_alloc(sizeof(*user) + key.len + place->uid.len);

    memcpy(user->text, key.p, key.len);
    memcpy(user->text + key.len, place->uid.p, place->uid.len);
    user->key = (struct str){user->text, key.len};
    user->uid = (struct str){user->text + key.len, place->uid.len};
    user->claimed = claimed;
    for (size_t i = 0; i < place->count && i < GPU_SHARE_DEVICES_MAX; i++) {
        struct holding *holding = holding_get(reservations, place->node, place->groups[i]);

        user->holdings[user->count++] = holding;
        if (claimed)
            holding->claims++;
        else
            holding->users++;
        tell_core(reservations, holding, false);
        count_ahead(reservations, holding);
        holding_touch(reservations, holding);
    }
    map_set(&reservations->users, user->key, user);
}

static void observe_user(struct reservations *reservations,
                         enum sched_change change,
                         const struct object *pod)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct user *user = map_get(&reservations->users, user_key(&arena, pod->ns, pod->name));
    const struct json *tree = object_json(pod, &arena);
    struct place place = {pod->ns, pod->name, pod->uid, json_str_at(tree, "spec.nodeName"),
                          NULL,    0};
    bool bound = change == SCHED_PUT && place.node.len && !pod_is_over(tree);

    /* We know more than the pod shows: it is about to be bound. Unless it goes: for the core it is
     * gone, and its device free, so the reservation pod must count from now on. */
    if (user && user->claimed && change == SCHED_PUT && !place.node.len && !pod->deleted_ms &&
        str_eq(user->uid, pod->uid))
        return;
    place.groups = sharing_groups(&arena, pod, &place.count);
    /* The new one first: a holding that both name must not look unused in between. */
    if (user)
        map_remove(&reservations->users, user->key);
    if (bound && place.count)
        user_add(reservations, &place, false);
    if (user) {
        struct user *now = map_get(&reservations->users, user->key);

        user_drop(reservations, user);
        if (now)
            map_set(&reservations->users, now->key, now);
    }
}

bool reservations_has(const struct reservations *reservations, const struct object *pod)
{
    return sharing_is_reservation(&reservations->options.settings, pod);
}

void reservations_observe(struct reservations *reservations,
                          enum sched_change change,
                          const struct object *pod)
{
    if (reservations_has(reservations, pod)) {
        observe_reservation(reservations, change, pod);
    } else if (sharing_has_share(pod)) {
        observe_user(reservations, change, pod);
        if (reservations->gangs)
            want_turn(reservations);
    }
}

/* ---- writes about holdings ---- */

struct call {
    struct reservations *owner;
    bool create;
    char key[KEY_BYTES];
};

static void unref(struct reservations *reservations)
{
    if (reservations->stopped && !reservations->calls)
        mem_free(reservations);
}

static void gangs_fail(struct reservations *reservations,
                       const struct holding *holding,
                       int code,
                       const struct err *err);

static void on_written(void *user, const struct api_result *result)
{
    struct call *call = user;
    struct reservations *reservations = call->owner;
    struct holding *holding =
        reservations->stopped ? NULL : map_get(&reservations->holdings, str_from(call->key));
    int status = result->code ? result->err->http_status : 0;

    reservations->calls--;
    if (holding && call->create) {
        /* Made, or there already: its change says so. Where nobody knows it is asked for once more,
         * and counts until then, for it may come and take its device. */
        if (result->code && status != 409) {
            bool unknown = !status || status >= 500;

            holding->again_ms = unknown ? now_of(reservations) + CREATE_AGAIN_MS : 0;
            holding->creating = unknown;
            count_ahead(reservations, holding);
            log_warn(reservations->options.log, "reservation.create", LOG_ERR(result->err));
            gangs_fail(reservations, holding, result->code, result->err);
        } else if (status == 409 && holding->pod) {
            holding->creating = false;
        }
    } else if (holding && result->code && status != 404) {
        holding->deleting = false; /* once more */
        log_warn(reservations->options.log, "reservation.delete", LOG_ERR(result->err));
    }
    if (holding)
        holding_touch(reservations, holding);
    mem_free(call);
    unref(reservations);
}

static struct call *call_new(struct reservations *reservations,
                             const struct holding *holding,
                             bool create)
{
    struct call *call = MEM_NEW(struct call);

    call->owner = reservations;
    call->create = create;
    memcpy(call->key, holding->key, sizeof(call->key));
    reservations->calls++;
    return call;
}

static void create(struct reservations *reservations, struct holding *holding)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *body =
        sharing_reservation(&arena, &reservations->options.settings, holding->node, holding->group);

    holding->creating = true;
    holding->again_ms = 0;
    api_call(reservations->options.api,
             &(struct api_request){.verb = API_CREATE,
                                   .kind = &kind_pod,
                                   .ns = reservations->options.settings.ns,
                                   .body = json_text(&arena, body)},
             on_written, call_new(reservations, holding, true));
}

static void release(struct reservations *reservations, struct holding *holding)
{
    holding->deleting = true;
    log_info(reservations->options.log, "reservation.release", LOG_STR("node", holding->node),
             LOG_STR("pod", holding->pod->name));
    api_call(reservations->options.api,
             &(struct api_request){.verb = API_DELETE,
                                   .kind = &kind_pod,
                                   .ns = holding->pod->ns,
                                   .name = holding->pod->name,
                                   .uid = holding->pod->uid,
                                   .body = STR("{\"gracePeriodSeconds\":0}")},
             on_written, call_new(reservations, holding, false));
}

/* That it goes is seen in its changes; one that could not be asked is asked again. */
static void on_user_deleted(void *user, const struct api_result *result)
{
    struct call *call = user;
    struct reservations *reservations = call->owner;
    struct holding *holding =
        reservations->stopped ? NULL : map_get(&reservations->holdings, str_from(call->key));

    reservations->calls--;
    if (holding && result->code && result->err->http_status != 404)
        holding_touch(reservations, holding);
    mem_free(call);
    unref(reservations);
}

static bool holds(const struct user *user, const struct holding *holding)
{
    for (size_t i = 0; i < user->count; i++)
        if (user->holdings[i] == holding)
            return true;
    return false;
}

/* Its users sit on a device that nobody holds for them. */
static void evict(struct reservations *reservations, const struct holding *holding)
{
    MAP_FOREACH(&reservations->users, entry) {
        const struct user *user = entry->value;
        size_t slash = str_find(user->key, '/');
        struct str ns = str_sub(user->key, 0, slash);
        struct str name = str_sub(user->key, slash + 1, user->key.len);
        const struct object *pod = cache_get(reservations->options.cache, &kind_pod, ns, name);

        if (user->claimed || !holds(user, holding) || !pod || pod->deleted_ms)
            continue;
        log_warn(reservations->options.log, "reservation.lost", LOG_STR("namespace", ns),
                 LOG_STR("pod", name), LOG_STR("group", holding->group));
        api_call(reservations->options.api,
                 &(struct api_request){.verb = API_DELETE,
                                       .kind = &kind_pod,
                                       .ns = ns,
                                       .name = name,
                                       .uid = user->uid,
                                       .body = STR("{}")},
                 on_user_deleted, call_new(reservations, holding, false));
    }
}

/* ---- gangs ---- */

static void gang_free(struct gang *gang)
{
    for (size_t i = 0; i < gang->count; i++)
        member_write_forget(gang->writes[i]);
    arena_done(&gang->arena);
    mem_free(gang);
}

static void drop_claims(struct reservations *reservations,
                        const struct reservations_pod *pods,
                        size_t count)
{
    for (size_t i = 0; i < count; i++)
        reservations_bound(reservations, &pods[i].pod, 1, -ECANCELED);
}

/* Takes it off the list and tells. */
static void gang_end(struct reservations *reservations, struct gang *gang)
{
    struct gang **at = &reservations->gangs;

    while (*at != gang)
        at = &(*at)->next;
    *at = gang->next;
    if (gang->code)
        drop_claims(reservations, gang->pods, gang->count);
    gang->done(gang->user, gang->code, gang->code ? &gang->err : NULL);
    gang_free(gang);
}

static void gang_fail(struct gang *gang, int code, const struct err *err)
{
    if (gang->code)
        return;
    gang->code = code;
    gang->err = *err;
}

static void gangs_fail(struct reservations *reservations,
                       const struct holding *holding,
                       int code,
                       const struct err *err)
{
    for (struct gang *gang = reservations->gangs; gang; gang = gang->next)
        for (size_t i = 0; i < gang->count; i++)
            for (size_t j = 0; j < gang->pods[i].group_count; j++)
                if (str_eq(gang->pods[i].node, holding->node) &&
                    str_eq(gang->pods[i].groups[j], holding->group))
                    gang_fail(gang, code, err);
}

/* The UUIDs of a pod's devices; false: not all are known. */
static bool devices_of(struct reservations *reservations,
                       const struct reservations_pod *pod,
                       struct arena *arena,
                       struct str *ret)
{
    *ret = STR_NONE;
    for (size_t i = 0; i < pod->group_count; i++) {
        const struct holding *holding = holding_get(reservations, pod->node, pod->groups[i]);
        struct sharing_facts facts = facts_of(holding);

        if (sharing_decide(&facts) != SHARING_READY)
            return false;
        struct str uuid = object_annotation(holding->pod, GPU_ANNOTATION_RESERVED);
        *ret = str_printf(arena, STR_FMT "%s" STR_FMT, STR_ARG(*ret), i ? "," : "", STR_ARG(uuid));
    }
    return true;
}

static void on_member(void *user, int code, const struct err *err);

struct member {
    struct gang *gang;
    size_t index;
};

static void gang_is_late(const struct reservations *reservations, struct gang *gang)
{
    struct err err = {0};

    for (size_t i = 0; i < gang->count; i++) {
        const struct reservations_pod *pod = &gang->pods[i];

        if (gang->ready[i])
            continue;
        gang_fail(gang,
                  err_set(&err, -ETIMEDOUT,
                          "node " STR_FMT ": the reservation pod of a shared GPU reported no "
                          "device in time: check the pods in namespace " STR_FMT,
                          STR_ARG(pod->node), STR_ARG(reservations->options.settings.ns)),
                  &err);
    }
}

static void gang_step(struct reservations *reservations, struct gang *gang, int64_t now_ms)
{
    for (size_t i = 0; i < gang->count && !gang->code; i++) {
        const struct reservations_pod *pod = &gang->pods[i];
        struct sharing_portion portion = {.fraction_micro = pod->fraction_micro,
                                          .memory_mib = pod->memory_mib};

        if (gang->ready[i] || gang->writes[i]) {
            member_write_again(gang->writes[i]);
            continue;
        }
        if (!devices_of(reservations, pod, &gang->arena, &portion.devices))
            continue;
        struct member *member = ARENA_NEW(&gang->arena, struct member);
        *member = (struct member){gang, i};
        gang->writes[i] =
            member_write_start(&(struct member_write_options){.api = reservations->options.api,
                                                              .cache = reservations->options.cache,
                                                              .pod = pod->pod,
                                                              .groups = pod->groups,
                                                              .group_count = pod->group_count,
                                                              .portion = portion,
                                                              .done = on_member,
                                                              .user = member});
    }
    if (!gang->code && now_ms >= gang->until_ms)
        gang_is_late(reservations, gang);
}

static void on_member(void *user, int code, const struct err *err)
{
    struct member *member = user;
    struct gang *gang = member->gang;

    gang->writes[member->index] = NULL;
    gang->ready[member->index] = !code;
    if (code)
        gang_fail(gang, code, err);
    want_turn(gang->owner);
}

static bool gang_is_done(const struct gang *gang)
{
    for (size_t i = 0; i < gang->count; i++)
        if (!gang->ready[i])
            return gang->code != 0;
    return true;
}

void reservations_prepare(struct reservations *reservations,
                          const struct reservations_pod *pods,
                          size_t count,
                          reservations_done_fn *done,
                          void *user)
{
    struct gang *gang = MEM_NEW(struct gang);

    gang->owner = reservations;
    gang->pods = ARENA_ARRAY(&gang->arena, struct reservations_pod, count);
    gang->writes = ARENA_ARRAY(&gang->arena, struct member_write *, count);
    gang->ready = ARENA_ARRAY(&gang->arena, bool, count);
    gang->count = count;
    gang->until_ms = time_is_up(reservations);
    gang->done = done;
    gang->user = user;
    for (size_t i = 0; i < count; i++) {
        struct reservations_pod *to = &gang->pods[i];
        struct str *groups = ARENA_ARRAY(&gang->arena, struct str, pods[i].group_count + 1);

        *to = pods[i];
        to->pod = (struct sched_pod_ref){str_dup(&gang->arena, pods[i].pod.ns),
                                         str_dup(&gang->arena, pods[i].pod.name),
                                         str_dup(&gang->arena, pods[i].pod.uid)};
        to->node = str_dup(&gang->arena, pods[i].node);
        for (size_t j = 0; j < pods[i].group_count; j++)
            groups[j] = str_dup(&gang->arena, pods[i].groups[j]);
        to->groups = groups;
        gang->ready[i] = !to->group_count;
        if (to->group_count)
            user_add(reservations,
                     &(struct place){to->pod.ns, to->pod.name, to->pod.uid, to->node, to->groups,
                                     to->group_count},
                     true);
    }
    gang->next = reservations->gangs;
    reservations->gangs = gang;
    want_turn(reservations);
}

void reservations_bound(struct reservations *reservations,
                        const struct sched_pod_ref *pods,
                        size_t count,
                        int code)
{
    _cleanup_(arena_done) struct arena arena = {0};

    for (size_t i = 0; code && i < count; i++) {
        struct user *user =
            map_get(&reservations->users, user_key(&arena, pods[i].ns, pods[i].name));

        if (user && user->claimed && str_eq(user->uid, pods[i].uid))
            user_drop(reservations, user);
    }
}

/* ---- turns ---- */

static void holding_step(struct reservations *reservations, struct holding *holding, int64_t now_ms)
{
    struct sharing_facts facts = facts_of(holding);
    struct err err = {0};

    switch (sharing_decide(&facts)) {
    case SHARING_CREATE: create(reservations, holding); break;
    case SHARING_RELEASE: release(reservations, holding); break;
    case SHARING_EVICT: evict(reservations, holding); break;
    case SHARING_FAIL:
        (void)err_set(
            &err, -EBUSY,
            "node " STR_FMT " could not give a whole GPU to reservation pod " STR_FMT "%s",
            STR_ARG(holding->node), STR_ARG(holding->pod->name), holding->over ? "" : " in time");
        sched_share_opened(reservations->options.core, holding->node, true, now_ms);
        gangs_fail(reservations, holding, err.code, &err);
        break;
    case SHARING_READY:
        if (!holding->served)
            sched_share_opened(reservations->options.core, holding->node, false, now_ms);
        holding->served = true;
        break;
    case SHARING_NOTHING: break;
    }
}

/* It has still to tell its device, and may. */
static bool is_waited_for(const struct holding *holding)
{
    struct sharing_facts facts = facts_of(holding);

    return facts.there && facts.claims && !facts.told && !facts.late && !facts.over &&
           !facts.ending;
}

int64_t reservations_turn(struct reservations *reservations, int64_t now_ms)
{
    int64_t next = INT64_MAX;
    struct gang *following;

    reservations->dirty = false;
    MAP_FOREACH(&reservations->holdings, entry) {
        struct holding *holding = entry->value;

        if (is_waited_for(holding) && now_ms < holding->due_ms)
            next = holding->due_ms < next ? holding->due_ms : next;
        else if (is_waited_for(holding))
            holding->late = holding->dirty = true;
        if (holding->again_ms && now_ms < holding->again_ms)
            next = holding->again_ms < next ? holding->again_ms : next;
        else if (holding->again_ms)
            create(reservations, holding);
        if (!holding->dirty)
            continue;
        holding->dirty = false;
        holding_step(reservations, holding, now_ms);
        holding_release(reservations, holding);
    }
    for (struct gang *gang = reservations->gangs; gang; gang = following) {
        following = gang->next;
        gang_step(reservations, gang, now_ms);
        if (gang_is_done(gang))
            gang_end(reservations, gang);
        else if (gang->until_ms < next)
            next = gang->until_ms;
    }
    return reservations->dirty ? now_ms : next;
}

struct reservations *reservations_new(const struct reservations_options *options)
{
    struct reservations *reservations = MEM_NEW(struct reservations);

    reservations->options = *options;
    reservations->holdings.seed = reservations->users.seed = options->seed;
    return reservations;
}

void reservations_free(struct reservations *reservations)
{
    struct err err = {0};

    if (!reservations)
        return;
    reservations->stopped = true;
    while (reservations->gangs) {
        gang_fail(reservations->gangs, err_set(&err, -ECANCELED, "the scheduler stops"), &err);
        gang_end(reservations, reservations->gangs);
    }
    MAP_FOREACH(&reservations->users, entry)
        mem_free(entry->value);
    MAP_FOREACH(&reservations->holdings, entry) {
        struct holding *holding = entry->value;

        object_unref(holding->pod);
        mem_free(holding);
    }
    map_done(&reservations->users);
    map_done(&reservations->holdings);
    unref(reservations);
}
