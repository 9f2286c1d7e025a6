#include "control/cluster/reservation.h"

#include "api/gpu.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "control/cluster/sharing.h"
#include "sched/sched.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Flow: pods with shares that are seen become users of reservations, gangs that are wanted claim
 * theirs. Every change of a reservation marks it, and a turn looks at those that are marked. */

#define KEY_BYTES       512 /* node (253), '/', group (63) */
#define CREATE_AGAIN_MS 1000

/* What the scheduler was told about the reservation pod. */
enum counted {
    COUNTED_NOTHING,
    COUNTED_FREE,  /* it is there; users or claims stand for its device */
    COUNTED_TAKEN, /* it is there, and its device is taken */
    COUNTED_AHEAD, /* it was not seen yet, and its device is taken */
};

/* A reservation pod that was seen. */
struct seen {
    struct sched_pod_ref pod;
    struct reservation_shown shown;
    char text[]; /* name, uid and device */
};

struct reservation {
    struct str node; /* both inside the key */
    struct str group;
    enum reservation_state state;
    struct seen *seen; /* NULL: no pod is there */
    int64_t due_ms;    /* STARTING: when it should have told its device */
    int64_t again_ms;  /* DOUBTFUL: when its creation is asked for again */
    size_t users;
    size_t claims;
    enum counted counted;
    bool changed; /* the next turn looks at it */
    bool opened;  /* the node gave its device, and the scheduler knows */
    char key[KEY_BYTES];
};

/* A pod with shares that is bound, or about to be. */
struct user {
    struct reservation *reservations[GPU_SHARE_DEVICES_MAX];
    size_t count;
    bool claims; /* about to be: the pod does not show it yet */
    bool ending; /* it is being deleted */
    struct sched_pod_ref pod;
    struct str key; /* "ns/name" */
    char text[];    /* key and uid */
};

enum member_state {
    MEMBER_WAITS, /* for its devices */
    MEMBER_WRITES,
    MEMBER_READY,
};

struct gang {
    struct gang *next;
    uint64_t id;
    const struct reservation_member *members; /* borrowed */
    enum member_state *states;
    size_t count;
    int64_t until_ms;
    struct err err; /* code 0: it has not failed */
};

struct reservation_set {
    const struct sharing_settings *settings;
    int64_t timeout_ms;
    struct map reservations; /* by "node/group" */
    struct map users;        /* by "ns/name" */
    struct gang *gangs;      /* latest first */
    bool wants_turn;
};

/* One event on its way through. */
struct work {
    struct reservation_set *set;
    int64_t now_ms;
    struct reservation_actions *actions;
};

static struct sched_pod_ref pod_copy(struct arena *arena, const struct sched_pod_ref *pod)
{
    return (struct sched_pod_ref){str_dup(arena, pod->ns), str_dup(arena, pod->name),
                                  str_dup(arena, pod->uid)};
}

static void act(const struct work *work, const struct reservation_action *action)
{
    struct arena *arena = &work->actions->arena;
    struct reservation_action copy = *action;

    copy.node = str_dup(arena, action->node);
    copy.group = str_dup(arena, action->group);
    copy.pod = pod_copy(arena, &action->pod);
    copy.devices = str_dup(arena, action->devices);
    if (action->err) {
        struct err *err = ARENA_NEW(arena, struct err);

        *err = *action->err;
        copy.err = err;
    }
    VEC_PUSH(arena, &work->actions->list, copy);
}

void reservation_actions_done(struct reservation_actions *actions)
{
    arena_done(&actions->arena);
    *actions = (struct reservation_actions){0};
}

/* ---- reservations ---- */

static struct str reservation_key(struct str node, struct str group, char out[static KEY_BYTES])
{
    int len = snprintf(out, KEY_BYTES, STR_FMT "/" STR_FMT, STR_ARG(node), STR_ARG(group));

    return (struct str){out, len < KEY_BYTES ? (size_t)len : KEY_BYTES - 1};
}

static struct reservation *reservation_find(const struct reservation_set *set,
                                            struct str node,
                                            struct str group)
{
    char text[KEY_BYTES];

    return map_get(&set->reservations, reservation_key(node, group, text));
}

static struct reservation *reservation_get(struct reservation_set *set,
                                           struct str node,
                                           struct str group)
{
    struct reservation *one = reservation_find(set, node, group);

    if (one)
        return one;
    one = MEM_NEW(struct reservation);
    struct str key = reservation_key(node, group, one->key);
    one->node = str_sub(key, 0, node.len);
    one->group = str_sub(key, node.len + 1, group.len);
    map_set(&set->reservations, key, one);
    return one;
}

static void reservation_free(struct reservation *one)
{
    mem_free(one->seen);
    mem_free(one);
}

/* Nobody knows it any more. */
static void reservation_release(struct reservation_set *set, struct reservation *one)
{
    if (one->state != RESERVATION_NONE || one->users || one->claims)
        return;
    map_remove(&set->reservations, (struct str){one->key, one->node.len + 1 + one->group.len});
    reservation_free(one);
}

static void reservation_touch(const struct work *work, struct reservation *one)
{
    one->changed = true;
    work->set->wants_turn = true;
}

static void reservation_input(struct reservation *one, enum reservation_input input)
{
    static const struct reservation_shown nothing = {0};

    one->state = reservation_after(one->state, input, one->seen ? &one->seen->shown : &nothing);
}

/* The scheduler counts a device for the reservation pod only while no user and no claim stands for
 * it. That holds as well for a pod that was asked for by somebody who gave up: it will come and
 * take a device, and until it is seen and released the device must not be given away. */
static enum counted reservation_counts(const struct reservation *one)
{
    bool stands = one->users || one->claims;

    if (one->seen)
        return stands || one->seen->shown.over ? COUNTED_FREE : COUNTED_TAKEN;
    return !stands && one->state != RESERVATION_NONE ? COUNTED_AHEAD : COUNTED_NOTHING;
}

static void reservation_tell(const struct work *work, struct reservation *one, bool always)
{
    _cleanup_(arena_done) struct arena arena = {0};
    enum counted now = reservation_counts(one);
    struct sched_pod_ref unseen = {.ns = work->set->settings->ns};

    if (now == one->counted && !always)
        return;
    if (!one->seen)
        unseen.name = sharing_reservation_name(&arena, one->node, one->group);
    one->counted = now;
    act(work, &(struct reservation_action){.kind = now == COUNTED_AHEAD ? RESERVATION_COUNT_AHEAD
                                                   : one->seen          ? RESERVATION_COUNT
                                                                        : RESERVATION_FORGET,
                                           .node = one->node,
                                           .group = one->group,
                                           .pod = one->seen ? one->seen->pod : unseen,
                                           .gpus = now == COUNTED_FREE ? 0 : 1});
}

static struct str put_text(char **at, struct str text)
{
    char *start = *at;

    if (text.len)
        memcpy(start, text.p, text.len);
    *at += text.len;
    return (struct str){start, text.len};
}

static struct seen *seen_new(struct str ns, const struct reservation_event *event)
{
    struct seen *seen = mem_alloc(sizeof(*seen) + event->pod.name.len + event->pod.uid.len +
                                  event->shown.device.len);
    char *at = seen->text;

    seen->shown = event->shown;
    seen->pod.ns = ns;
    seen->pod.name = put_text(&at, event->pod.name);
    seen->pod.uid = put_text(&at, event->pod.uid);
    seen->shown.device = put_text(&at, event->shown.device);
    return seen;
}

static void on_seen(const struct work *work, const struct reservation_event *event)
{
    struct reservation *one = reservation_get(work->set, event->node, event->group);
    bool same = one->seen && str_eq(one->seen->pod.uid, event->pod.uid);

    mem_free(one->seen);
    one->seen = seen_new(work->set->settings->ns, event);
    if (!same)
        one->due_ms = work->now_ms + work->set->timeout_ms;
    reservation_input(one, same ? RESERVATION_IN_SEEN : RESERVATION_IN_REPLACED);
    reservation_tell(work, one, true);
    reservation_touch(work, one);
}

static void on_gone(const struct work *work, const struct reservation_event *event)
{
    struct reservation *one = reservation_get(work->set, event->node, event->group);

    act(work, &(struct reservation_action){.kind = RESERVATION_FORGET, .pod = event->pod});
    if (!one->seen || str_eq(one->seen->pod.uid, event->pod.uid)) {
        mem_free(one->seen);
        one->seen = NULL;
        one->counted = COUNTED_NOTHING;
        reservation_input(one, RESERVATION_IN_GONE);
        reservation_tell(work, one, false);
    }
    reservation_touch(work, one);
}

static void gangs_fail(const struct reservation_set *set,
                       const struct reservation *one,
                       const struct err *err);

/* A request about a reservation came back. */
static void on_answer(const struct work *work, const struct reservation_event *event)
{
    struct reservation *one = reservation_find(work->set, event->node, event->group);

    if (!one)
        return;
    if (event->kind == RESERVATION_KEPT)
        reservation_input(one, RESERVATION_IN_KEPT);
    if (event->kind == RESERVATION_REFUSED)
        reservation_input(one, RESERVATION_IN_REFUSED);
    if (event->kind == RESERVATION_UNANSWERED) {
        reservation_input(one, RESERVATION_IN_UNANSWERED);
        one->again_ms = work->now_ms + CREATE_AGAIN_MS;
    }
    reservation_tell(work, one, false);
    if (event->err)
        gangs_fail(work->set, one, event->err);
    reservation_touch(work, one);
}

/* ---- users ---- */

static struct str user_key(struct arena *arena, const struct sched_pod_ref *pod)
{
    return str_printf(arena, STR_FMT "/" STR_FMT, STR_ARG(pod->ns), STR_ARG(pod->name));
}

static struct user *user_find(const struct reservation_set *set, const struct sched_pod_ref *pod)
{
    _cleanup_(arena_done) struct arena arena = {0};

    return map_get(&set->users, user_key(&arena, pod));
}

static void user_count(const struct work *work, const struct user *user, bool more)
{
    for (size_t i = 0; i < user->count; i++) {
        struct reservation *one = user->reservations[i];
        size_t *count = user->claims ? &one->claims : &one->users;

        *count = more ? *count + 1 : *count - 1;
        reservation_tell(work, one, false);
        reservation_touch(work, one);
    }
}

static struct user *user_new(struct reservation_set *set, const struct reservation_member *member)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str key = user_key(&arena, &member->pod);
    struct user *user = mem_alloc(sizeof(*user) + key.len + member->pod.uid.len);
    char *at = user->text;

    user->key = put_text(&at, key);
    user->pod.ns = str_sub(user->key, 0, member->pod.ns.len);
    user->pod.name = str_sub(user->key, member->pod.ns.len + 1, member->pod.name.len);
    user->pod.uid = put_text(&at, member->pod.uid);
    for (size_t i = 0; i < member->group_count && i < GPU_SHARE_DEVICES_MAX; i++)
        user->reservations[user->count++] = reservation_get(set, member->node, member->groups[i]);
    return user;
}

/* `to` takes the place of `from`; either may be NULL. The new one counts first: a reservation that
 * both name must not look unused in between. */
static void user_replace(const struct work *work, struct user *from, struct user *to)
{
    if (from)
        map_remove(&work->set->users, from->key);
    if (to) {
        map_set(&work->set->users, to->key, to);
        user_count(work, to, true);
    }
    if (from)
        user_count(work, from, false);
    mem_free(from);
}

static void user_add(const struct work *work,
                     const struct reservation_member *member,
                     const struct reservation_shown *shown,
                     bool claims)
{
    struct user *user = user_new(work->set, member);

    user->claims = claims;
    user->ending = shown && shown->ending;
    user_replace(work, user_find(work->set, &member->pod), user);
}

static void on_user(const struct work *work, const struct reservation_event *event)
{
    const struct reservation_member *member = &event->member;
    const struct reservation_shown *shown = &event->shown;
    struct user *user = user_find(work->set, &member->pod);
    bool there = event->kind == RESERVATION_USER_SEEN;

    if (work->set->gangs)
        work->set->wants_turn = true;
    /* We know more than the pod shows: it is about to be bound. Unless it goes: for the scheduler
     * it is gone, and its device free, so the reservation pod must count from now on. */
    if (user && user->claims && there && !member->node.len && !shown->ending &&
        str_eq(user->pod.uid, member->pod.uid))
        return;
    if (there && member->node.len && !shown->over && member->group_count)
        user_add(work, member, shown, false);
    else
        user_replace(work, user, NULL);
}

static void claim_drop(const struct work *work, const struct sched_pod_ref *pod)
{
    struct user *user = user_find(work->set, pod);

    if (user && user->claims && str_eq(user->pod.uid, pod->uid))
        user_replace(work, user, NULL);
}

static bool user_has(const struct user *user, const struct reservation *one)
{
    for (size_t i = 0; i < user->count; i++)
        if (user->reservations[i] == one)
            return true;
    return false;
}

/* ---- gangs ---- */

static void gang_fail(struct gang *gang, const struct err *err)
{
    if (!gang->err.code)
        gang->err = *err;
}

static void gangs_fail(const struct reservation_set *set,
                       const struct reservation *one,
                       const struct err *err)
{
    for (struct gang *gang = set->gangs; gang; gang = gang->next)
        for (size_t i = 0; i < gang->count; i++)
            for (size_t j = 0; j < gang->members[i].group_count; j++)
                if (str_eq(gang->members[i].node, one->node) &&
                    str_eq(gang->members[i].groups[j], one->group))
                    gang_fail(gang, err);
}

static void on_wanted(const struct work *work, const struct reservation_event *event)
{
    struct gang *gang = MEM_NEW(struct gang);

    gang->id = event->gang;
    gang->members = event->members;
    gang->count = event->member_count;
    gang->states = mem_alloc(sizeof(*gang->states) * (gang->count + 1));
    gang->until_ms = work->now_ms + work->set->timeout_ms;
    for (size_t i = 0; i < gang->count; i++) {
        gang->states[i] = gang->members[i].group_count ? MEMBER_WAITS : MEMBER_READY;
        if (gang->members[i].group_count)
            user_add(work, &gang->members[i], NULL, true);
    }
    gang->next = work->set->gangs;
    work->set->gangs = gang;
    work->set->wants_turn = true;
}

static void on_written(const struct work *work, const struct reservation_event *event)
{
    struct gang *gang = work->set->gangs;

    while (gang && gang->id != event->gang)
        gang = gang->next;
    if (!gang || event->index >= gang->count)
        return;
    gang->states[event->index] = event->err ? MEMBER_WAITS : MEMBER_READY;
    if (event->err)
        gang_fail(gang, event->err);
    work->set->wants_turn = true;
}

/* Takes it off the list and tells. */
static void gang_end(const struct work *work, struct gang *gang)
{
    struct gang **at = &work->set->gangs;

    while (*at != gang)
        at = &(*at)->next;
    *at = gang->next;
    for (size_t i = 0; gang->err.code && i < gang->count; i++)
        claim_drop(work, &gang->members[i].pod);
    act(work, &(struct reservation_action){.kind = RESERVATION_PREPARED,
                                           .gang = gang->id,
                                           .err = gang->err.code ? &gang->err : NULL});
    mem_free(gang->states);
    mem_free(gang);
}

/* The UUIDs of a member's devices; false: not all are known. */
static bool devices_of(const struct reservation_set *set,
                       const struct reservation_member *member,
                       struct arena *arena,
                       struct str *ret)
{
    struct str devices = STR_NONE;

    for (size_t i = 0; i < member->group_count; i++) {
        const struct reservation *one = reservation_find(set, member->node, member->groups[i]);

        if (!one || reservation_todo(one->state, one->users, one->claims) != RESERVATION_DO_GO_ON)
            return false;
        devices = str_printf(arena, STR_FMT "%s" STR_FMT, STR_ARG(devices), i ? "," : "",
                             STR_ARG(one->seen->shown.device));
    }
    *ret = devices;
    return true;
}

static void gang_is_late(const struct reservation_set *set, struct gang *gang)
{
    struct err err = {0};

    for (size_t i = 0; i < gang->count; i++) {
        if (gang->states[i] == MEMBER_READY)
            continue;
        (void)err_set(&err, -ETIMEDOUT,
                      "node " STR_FMT ": the reservation pod of a shared GPU has not told its "
                      "device in time: see the pods of namespace " STR_FMT,
                      STR_ARG(gang->members[i].node), STR_ARG(set->settings->ns));
        gang_fail(gang, &err);
    }
}

static void gang_step(const struct work *work, struct gang *gang)
{
    _cleanup_(arena_done) struct arena arena = {0};

    for (size_t i = 0; i < gang->count && !gang->err.code; i++) {
        struct reservation_action write = {.kind = RESERVATION_WRITE, .gang = gang->id, .index = i};

        if (gang->states[i] == MEMBER_READY)
            continue;
        if (gang->states[i] == MEMBER_WAITS &&
            !devices_of(work->set, &gang->members[i], &arena, &write.devices))
            continue;
        gang->states[i] = MEMBER_WRITES;
        act(work, &write);
    }
    if (!gang->err.code && work->now_ms >= gang->until_ms)
        gang_is_late(work->set, gang);
}

static bool gang_is_done(const struct gang *gang)
{
    for (size_t i = 0; i < gang->count; i++)
        if (gang->states[i] != MEMBER_READY)
            return gang->err.code != 0;
    return true;
}

static void on_stop(const struct work *work)
{
    struct err err = {0};

    (void)err_set(&err, -ECANCELED, "the scheduler stops");
    while (work->set->gangs) {
        gang_fail(work->set->gangs, &err);
        gang_end(work, work->set->gangs);
    }
}

/* ---- turns ---- */

static void reservation_act(const struct work *work,
                            const struct reservation *one,
                            enum reservation_action_kind kind)
{
    struct reservation_action action = {.kind = kind, .node = one->node, .group = one->group};

    if (one->seen)
        action.pod = one->seen->pod;
    act(work, &action);
}

static void reservation_create(const struct work *work, struct reservation *one)
{
    reservation_input(one, RESERVATION_IN_ASK);
    reservation_act(work, one, RESERVATION_CREATE);
}

/* Its users sit on a device that nobody holds for them. */
static void reservation_evict(const struct work *work, const struct reservation *one)
{
    MAP_FOREACH(&work->set->users, entry) {
        const struct user *user = entry->value;

        if (!user->claims && !user->ending && user_has(user, one))
            act(work, &(struct reservation_action){.kind = RESERVATION_EVICT,
                                                   .node = one->node,
                                                   .group = one->group,
                                                   .pod = user->pod});
    }
}

static void reservation_fail(const struct work *work, const struct reservation *one)
{
    struct err err = {0};

    (void)err_set(&err, -EBUSY,
                  "node " STR_FMT " could not give a whole GPU to reservation pod " STR_FMT "%s",
                  STR_ARG(one->node), STR_ARG(one->seen->pod.name),
                  one->state == RESERVATION_OVER ? "" : " in time");
    reservation_act(work, one, RESERVATION_SHUT);
    gangs_fail(work->set, one, &err);
}

static void reservation_step(const struct work *work, struct reservation *one)
{
    switch (reservation_todo(one->state, one->users, one->claims)) {
    case RESERVATION_DO_CREATE: reservation_create(work, one); break;
    case RESERVATION_DO_RELEASE:
        reservation_input(one, RESERVATION_IN_RELEASE);
        reservation_act(work, one, RESERVATION_RELEASE);
        break;
    case RESERVATION_DO_EVICT: reservation_evict(work, one); break;
    case RESERVATION_DO_FAIL: reservation_fail(work, one); break;
    case RESERVATION_DO_GO_ON:
        if (!one->opened)
            reservation_act(work, one, RESERVATION_OPENED);
        one->opened = true;
        break;
    case RESERVATION_DO_NOTHING: break;
    }
}

/* What time alone changes. Returns when it will; INT64_MAX for never. */
static int64_t reservation_wait(const struct work *work, struct reservation *one)
{
    bool awaited = one->state == RESERVATION_STARTING && one->claims;

    if (awaited && work->now_ms < one->due_ms)
        return one->due_ms;
    if (awaited) {
        reservation_input(one, RESERVATION_IN_TIME_IS_UP);
        one->changed = true;
    }
    if (one->state == RESERVATION_DOUBTFUL && work->now_ms < one->again_ms)
        return one->again_ms;
    if (one->state == RESERVATION_DOUBTFUL)
        reservation_create(work, one);
    return INT64_MAX;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void on_turn(const struct work *work)
{
    struct reservation_set *set = work->set;
    int64_t next_ms = INT64_MAX;
    struct gang *following;

    set->wants_turn = false;
    MAP_FOREACH(&set->reservations, entry) {
        struct reservation *one = entry->value;

        next_ms = earlier(next_ms, reservation_wait(work, one));
        if (!one->changed)
            continue;
        one->changed = false;
        reservation_step(work, one);
        reservation_release(set, one);
    }
    for (struct gang *gang = set->gangs; gang; gang = following) {
        following = gang->next;
        gang_step(work, gang);
        if (gang_is_done(gang))
            gang_end(work, gang);
        else
            next_ms = earlier(next_ms, gang->until_ms);
    }
    work->actions->next_ms = next_ms;
}

/* ---- all of them ---- */

void reservation_event(struct reservation_set *set,
                       const struct reservation_event *event,
                       int64_t now_ms,
                       struct reservation_actions *actions)
{
    struct work work = {set, now_ms, actions};

    actions->next_ms = INT64_MAX;
    switch (event->kind) {
    case RESERVATION_SEEN: on_seen(&work, event); break;
    case RESERVATION_GONE: on_gone(&work, event); break;
    case RESERVATION_MADE:
    case RESERVATION_REFUSED:
    case RESERVATION_UNANSWERED:
    case RESERVATION_RELEASED:
    case RESERVATION_KEPT:
    case RESERVATION_USER_KEPT: on_answer(&work, event); break;
    case RESERVATION_USER_SEEN:
    case RESERVATION_USER_GONE: on_user(&work, event); break;
    case RESERVATION_WANTED: on_wanted(&work, event); break;
    case RESERVATION_WRITTEN: on_written(&work, event); break;
    case RESERVATION_NOT_BOUND: claim_drop(&work, &event->member.pod); break;
    case RESERVATION_STOP: on_stop(&work); break;
    case RESERVATION_TURN: on_turn(&work); break;
    }
    if (set->wants_turn)
        actions->next_ms = now_ms;
}

struct reservation_set *reservation_set_new(const struct sharing_settings *settings,
                                            int64_t timeout_ms,
                                            uint64_t seed)
{
    struct reservation_set *set = MEM_NEW(struct reservation_set);

    set->settings = settings;
    set->timeout_ms = timeout_ms;
    set->reservations.seed = set->users.seed = seed;
    return set;
}

void reservation_set_free(struct reservation_set *set)
{
    struct gang *gang;

    if (!set)
        return;
    while ((gang = set->gangs)) {
        set->gangs = gang->next;
        mem_free(gang->states);
        mem_free(gang);
    }
    MAP_FOREACH(&set->users, entry)
        mem_free(entry->value);
    MAP_FOREACH(&set->reservations, entry)
        reservation_free(entry->value);
    map_done(&set->users);
    map_done(&set->reservations);
    mem_free(set);
}

struct reservation_view reservation_look(const struct reservation_set *set,
                                         struct str node,
                                         struct str group)
{
    const struct reservation *one = reservation_find(set, node, group);

    if (!one)
        return (struct reservation_view){0};
    return (struct reservation_view){one->state, one->users, one->claims,
                                     one->seen ? one->seen->shown : (struct reservation_shown){0}};
}

size_t reservation_count(const struct reservation_set *set)
{
    return set->reservations.count;
}
