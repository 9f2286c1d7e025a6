#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/rng.h"
#include "base/str.h"
#include "control/cluster/reservation.h"
#include "control/cluster/sharing.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

TEST(a_reservation_lives_from_before_the_first_user_until_after_the_last)
{
    static const struct {
        const char *why;
        enum reservation_state state;
        size_t users;
        size_t claims;
        enum reservation_todo todo;
    } rows[] = {
        {"nobody and nothing", RESERVATION_NONE, 0, 0, RESERVATION_DO_NOTHING},
        {"the first user", RESERVATION_NONE, 0, 1, RESERVATION_DO_CREATE},
        {"asked for", RESERVATION_ASKED, 0, 1, RESERVATION_DO_NOTHING},
        {"asked for, nobody knows", RESERVATION_DOUBTFUL, 0, 1, RESERVATION_DO_NOTHING},
        {"starting", RESERVATION_STARTING, 0, 1, RESERVATION_DO_NOTHING},
        {"its device is known", RESERVATION_HOLDING, 0, 1, RESERVATION_DO_GO_ON},
        {"a second user comes", RESERVATION_HOLDING, 1, 1, RESERVATION_DO_GO_ON},
        {"in use", RESERVATION_HOLDING, 2, 0, RESERVATION_DO_NOTHING},
        {"the last one is gone", RESERVATION_HOLDING, 0, 0, RESERVATION_DO_RELEASE},
        {"a crash before the first was bound", RESERVATION_STARTING, 0, 0, RESERVATION_DO_RELEASE},
        {"going", RESERVATION_RELEASING, 0, 0, RESERVATION_DO_NOTHING},
        {"going, and wanted again", RESERVATION_ENDING, 0, 1, RESERVATION_DO_NOTHING},
        {"gone, with users", RESERVATION_NONE, 1, 0, RESERVATION_DO_EVICT},
        {"gone, with users old and new", RESERVATION_NONE, 1, 1, RESERVATION_DO_EVICT},
        {"failed, with users", RESERVATION_OVER, 1, 0, RESERVATION_DO_EVICT},
        {"failed at once", RESERVATION_OVER, 0, 1, RESERVATION_DO_FAIL},
        {"failed, and nobody left", RESERVATION_OVER, 0, 0, RESERVATION_DO_RELEASE},
        {"late", RESERVATION_LATE, 0, 2, RESERVATION_DO_FAIL},
        {"late, and nobody left", RESERVATION_LATE, 0, 0, RESERVATION_DO_RELEASE},
        {"late, and in use", RESERVATION_LATE, 1, 1, RESERVATION_DO_NOTHING},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        EXPECT(reservation_todo(rows[i].state, rows[i].users, rows[i].claims) == rows[i].todo);
    }
}

TEST(a_reservation_follows_its_pod_and_the_answers_about_it)
{
    static const struct reservation_shown none = {0};
    static const struct reservation_shown told = {.device = STR("GPU-1")};
    static const struct reservation_shown over = {.over = true, .device = STR("GPU-1")};
    static const struct reservation_shown ending = {.ending = true, .device = STR("GPU-1")};
    static const struct {
        const char *why;
        enum reservation_state from;
        enum reservation_input input;
        const struct reservation_shown *shown;
        enum reservation_state to;
    } rows[] = {
        {"asked for", RESERVATION_NONE, RESERVATION_IN_ASK, &none, RESERVATION_ASKED},
        {"comes", RESERVATION_ASKED, RESERVATION_IN_REPLACED, &none, RESERVATION_STARTING},
        {"tells", RESERVATION_STARTING, RESERVATION_IN_SEEN, &told, RESERVATION_HOLDING},
        {"fails", RESERVATION_HOLDING, RESERVATION_IN_SEEN, &over, RESERVATION_OVER},
        {"goes", RESERVATION_HOLDING, RESERVATION_IN_SEEN, &ending, RESERVATION_ENDING},
        {"is gone", RESERVATION_ENDING, RESERVATION_IN_GONE, &none, RESERVATION_NONE},
        {"too slow", RESERVATION_STARTING, RESERVATION_IN_TIME_IS_UP, &none, RESERVATION_LATE},
        {"still too slow", RESERVATION_LATE, RESERVATION_IN_SEEN, &none, RESERVATION_LATE},
        {"tells after all", RESERVATION_LATE, RESERVATION_IN_SEEN, &told, RESERVATION_HOLDING},
        {"another one", RESERVATION_LATE, RESERVATION_IN_REPLACED, &none, RESERVATION_STARTING},
        {"may not be made", RESERVATION_ASKED, RESERVATION_IN_REFUSED, &none, RESERVATION_NONE},
        {"who knows", RESERVATION_ASKED, RESERVATION_IN_UNANSWERED, &none, RESERVATION_DOUBTFUL},
        {"asked for again", RESERVATION_DOUBTFUL, RESERVATION_IN_ASK, &none, RESERVATION_ASKED},
        {"it was made", RESERVATION_DOUBTFUL, RESERVATION_IN_REPLACED, &none, RESERVATION_STARTING},
        {"no answer, but it is seen", RESERVATION_STARTING, RESERVATION_IN_UNANSWERED, &none,
         RESERVATION_STARTING},
        {"no answer, and gone again", RESERVATION_NONE, RESERVATION_IN_UNANSWERED, &none,
         RESERVATION_DOUBTFUL},
        {"a late refusal", RESERVATION_HOLDING, RESERVATION_IN_REFUSED, &told, RESERVATION_HOLDING},
        {"released", RESERVATION_HOLDING, RESERVATION_IN_RELEASE, &told, RESERVATION_RELEASING},
        {"still there", RESERVATION_RELEASING, RESERVATION_IN_SEEN, &told, RESERVATION_RELEASING},
        {"kept", RESERVATION_RELEASING, RESERVATION_IN_KEPT, &told, RESERVATION_HOLDING},
        {"kept, but going", RESERVATION_RELEASING, RESERVATION_IN_KEPT, &ending,
         RESERVATION_ENDING},
        {"released, and another one came", RESERVATION_RELEASING, RESERVATION_IN_REPLACED, &told,
         RESERVATION_HOLDING},
        {"a late answer", RESERVATION_STARTING, RESERVATION_IN_KEPT, &none, RESERVATION_STARTING},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        EXPECT(reservation_after(rows[i].from, rows[i].input, rows[i].shown) == rows[i].to);
    }
}

/* ---- random events ----
 *
 * A small cluster around the machine: reservation pods and user pods that come and go, watches that
 * bring their changes late but in order, requests that are answered late, wrongly or never. After
 * every event: what the machine says must fit what it was told. In the end everything is answered
 * and all users go: nothing may be left. */

#define SEEDS      200
#define STEPS      400
#define NODES      2
#define GROUPS     2
#define ALL        (NODES * GROUPS)
#define PODS       6
#define GANGS      400 /* one a step at most */
#define GANG_PODS  2
#define QUEUE      64
#define TIMEOUT_MS 5000

static const struct str node_names[NODES] = {STR("n0"), STR("n1")};
static const struct str group_names[GROUPS] = {STR("g0"), STR("g1")};
static const struct str all_names[ALL] = {
    STR("gpu-reservation-n0-g0"), STR("gpu-reservation-n0-g1"), STR("gpu-reservation-n1-g0"),
    STR("gpu-reservation-n1-g1")};
static const struct str pod_names[PODS] = {STR("p0"), STR("p1"), STR("p2"),
                                           STR("p3"), STR("p4"), STR("p5")};
static const struct sharing_settings settings = {.ns = STR("res")};

/* A pod of either sort at one moment. */
struct body {
    uint64_t uid; /* 0: there is none */
    bool ending;
    bool over;
    bool told;    /* reservation pods */
    size_t node;  /* users: NODES is none */
    size_t first; /* users: their groups, first to first + count - 1 */
    size_t count;
};

struct thing {
    struct body now;
    struct body queue[QUEUE]; /* what the watch has still to bring; uid 0: it was deleted */
    size_t queued;
    struct body known; /* what it has brought */
};

struct request {
    enum reservation_action_kind kind;
    size_t which; /* reservation */
    size_t pod;   /* of an eviction */
    uint64_t uid;
    bool ghost; /* answered already, and not done yet */
};

struct trial_gang {
    struct reservation_member members[GANG_PODS];
    uint64_t uids[GANG_PODS];
    size_t pods[GANG_PODS];
    bool writing[GANG_PODS];
    bool written[GANG_PODS];
    size_t node, first, count;
    size_t size;
    bool answered;
    bool binding;
};

enum claim {
    CLAIM_NONE,
    CLAIM_WAITS, /* about to be bound */
    CLAIM_BOUND,
};

struct world {
    struct rng rng;
    struct arena arena;
    struct reservation_set *set;
    int64_t now_ms;
    int64_t next_ms;
    uint64_t uid; /* the last one given */
    struct thing reservations[ALL];
    struct thing pods[PODS];
    struct request requests[QUEUE];
    size_t request_count;
    struct trial_gang gangs[GANGS];
    size_t gang_count;
    int counted[ALL]; /* -1: nothing, 0 and 1: a pod that is there, 2: ahead */
    enum claim claims[PODS];
    struct body claimed[PODS]; /* where, and who */
};

static bool chance(struct world *world, uint64_t in)
{
    return rng_below(&world->rng, in) == 0;
}

static struct str uid_text(struct world *world, uint64_t uid)
{
    return str_printf(&world->arena, "u%llu", (unsigned long long)uid);
}

static size_t which_of(struct str node, struct str group)
{
    for (size_t i = 0; i < ALL; i++)
        if (str_eq(node, node_names[i / GROUPS]) && str_eq(group, group_names[i % GROUPS]))
            return i;
    EXPECT(!"a reservation of the cluster");
    return 0;
}

static struct reservation_view view_of(const struct world *world, size_t which)
{
    return reservation_look(world->set, node_names[which / GROUPS], group_names[which % GROUPS]);
}

static bool body_uses(const struct body *body, size_t which)
{
    return body->node == which / GROUPS && which % GROUPS >= body->first &&
           which % GROUPS < body->first + body->count;
}

static size_t pod_of(struct str name)
{
    for (size_t i = 0; i < PODS; i++)
        if (str_eq(name, pod_names[i]))
            return i;
    EXPECT(!"a pod of the cluster");
    return 0;
}

/* ---- what comes out ---- */

static void check_count(struct world *world, const struct reservation_action *action)
{
    for (size_t i = 0; i < ALL; i++) {
        if (!str_eq(action->pod.name, all_names[i]))
            continue;
        world->counted[i] = action->kind == RESERVATION_FORGET        ? -1
                            : action->kind == RESERVATION_COUNT_AHEAD ? 2
                                                                      : action->gpus;
    }
}

static void check_request(struct world *world, const struct reservation_action *action)
{
    size_t which = which_of(action->node, action->group);
    const struct reservation_view view = view_of(world, which);
    const struct body *known = &world->reservations[which].known;
    struct request request = {.kind = action->kind, .which = which, .uid = known->uid};

    if (action->kind == RESERVATION_CREATE) {
        EXPECT(view.state == RESERVATION_ASKED && !known->uid);
    } else if (action->kind == RESERVATION_RELEASE) {
        EXPECT(view.state == RESERVATION_RELEASING && !view.users && !view.claims);
        EXPECT(str_eq(action->pod.uid, uid_text(world, known->uid)));
    } else {
        request.pod = pod_of(action->pod.name);
        request.uid = world->pods[request.pod].known.uid;
        EXPECT(view.state == RESERVATION_NONE || view.state == RESERVATION_OVER);
        EXPECT(world->claims[request.pod] == CLAIM_BOUND && !world->pods[request.pod].known.ending);
        EXPECT(body_uses(&world->pods[request.pod].known, which));
    }
    if (world->request_count < QUEUE)
        world->requests[world->request_count++] = request;
}

static void check_write(struct world *world, const struct reservation_action *action)
{
    struct trial_gang *gang = &world->gangs[action->gang];
    struct str devices = STR_NONE;

    EXPECT(!gang->answered && !gang->written[action->index]);
    if (gang->writing[action->index])
        return;
    for (size_t i = 0; i < gang->count; i++) {
        size_t which = gang->node * GROUPS + gang->first + i;

        EXPECT(view_of(world, which).state == RESERVATION_HOLDING);
        devices = str_printf(&world->arena, STR_FMT "%sGPU-%llu", STR_ARG(devices), i ? "," : "",
                             (unsigned long long)world->reservations[which].known.uid);
    }
    EXPECT(str_eq(action->devices, devices));
    gang->writing[action->index] = true;
}

static void claim_gone(struct world *world, size_t pod, uint64_t uid)
{
    if (world->claims[pod] == CLAIM_WAITS && world->claimed[pod].uid == uid)
        world->claims[pod] = CLAIM_NONE;
}

static void check_prepared(struct world *world, const struct reservation_action *action)
{
    struct trial_gang *gang = &world->gangs[action->gang];

    EXPECT(!gang->answered);
    gang->answered = true;
    gang->binding = !action->err;
    for (size_t i = 0; i < gang->size; i++) {
        if (action->err)
            claim_gone(world, gang->pods[i], gang->uids[i]);
        else
            EXPECT(gang->written[i]);
    }
}

/* What the machine says of a reservation against what it was told. */
static void check_reservation(const struct world *world, size_t which)
{
    const struct reservation_view view = view_of(world, which);
    const struct body *known = &world->reservations[which].known;
    bool asked = view.state == RESERVATION_ASKED || view.state == RESERVATION_DOUBTFUL;
    size_t users = 0;
    size_t claims = 0;

    for (size_t i = 0; i < PODS; i++) {
        users += world->claims[i] == CLAIM_BOUND && body_uses(&world->claimed[i], which);
        claims += world->claims[i] == CLAIM_WAITS && body_uses(&world->claimed[i], which);
    }
    EXPECT(view.users == users && view.claims == claims);
    EXPECT((known->uid == 0) == (asked || view.state == RESERVATION_NONE));
    if (view.state == RESERVATION_HOLDING)
        EXPECT(known->told && !known->over && !known->ending);
    if (view.state == RESERVATION_STARTING || view.state == RESERVATION_LATE)
        EXPECT(!known->told && !known->over && !known->ending);
    if (view.state == RESERVATION_OVER)
        EXPECT(known->over && !known->ending);
    if (view.state == RESERVATION_ENDING)
        EXPECT(known->ending);
    int expected = known->uid                   ? !users && !claims && !known->over
                   : asked && !users && !claims ? 2
                                                : -1;
    EXPECT(world->counted[which] == expected);
}

static void feed(struct world *world, const struct reservation_event *event)
{
    struct reservation_actions actions = {0};

    reservation_event(world->set, event, world->now_ms, &actions);
    for (size_t i = 0; i < actions.list.count; i++) {
        const struct reservation_action *action = &actions.list.items[i];

        switch (action->kind) {
        case RESERVATION_CREATE:
        case RESERVATION_RELEASE:
        case RESERVATION_EVICT: check_request(world, action); break;
        case RESERVATION_COUNT:
        case RESERVATION_COUNT_AHEAD:
        case RESERVATION_FORGET: check_count(world, action); break;
        case RESERVATION_WRITE: check_write(world, action); break;
        case RESERVATION_PREPARED: check_prepared(world, action); break;
        case RESERVATION_OPENED:
        case RESERVATION_SHUT: break;
        }
    }
    EXPECT(actions.next_ms >= world->now_ms);
    if (event->kind == RESERVATION_TURN || actions.next_ms < world->next_ms)
        world->next_ms = actions.next_ms;
    reservation_actions_done(&actions);
    for (size_t i = 0; i < ALL; i++)
        check_reservation(world, i);
}

static void turn(struct world *world)
{
    feed(world, &(struct reservation_event){.kind = RESERVATION_TURN});
}

/* ---- what goes in ---- */

/* The thing is like that now; the watch brings it later. */
static void change(struct thing *thing, struct body now)
{
    thing->now = now;
    thing->queue[thing->queued++] = now;
}

static bool has_room(const struct thing *thing)
{
    return thing->queued + 4 < QUEUE;
}

static struct body next_of(struct thing *thing)
{
    struct body first = thing->queue[0];

    thing->queued--;
    memmove(thing->queue, thing->queue + 1, thing->queued * sizeof(first));
    return first;
}

static void bring_reservation(struct world *world, size_t which)
{
    struct thing *thing = &world->reservations[which];
    const struct body before = thing->known;

    if (!thing->queued)
        return;
    thing->known = next_of(thing);
    feed(world, &(struct reservation_event){
                    .kind = thing->known.uid ? RESERVATION_SEEN : RESERVATION_GONE,
                    .node = node_names[which / GROUPS],
                    .group = group_names[which % GROUPS],
                    .pod = {settings.ns, all_names[which],
                            uid_text(world, thing->known.uid ? thing->known.uid : before.uid)},
                    .shown = {.ending = thing->known.ending,
                              .over = thing->known.over,
                              .device = thing->known.told
                                            ? str_printf(&world->arena, "GPU-%llu",
                                                         (unsigned long long)thing->known.uid)
                                            : STR_NONE}});
}

static void bring_pod(struct world *world, size_t pod)
{
    struct thing *thing = &world->pods[pod];
    const struct body before = thing->known;

    if (!thing->queued)
        return;
    struct body now = thing->known = next_of(thing);
    bool bound = now.uid && now.node < NODES && !now.over && now.count;
    bool kept = world->claims[pod] == CLAIM_WAITS && now.uid == world->claimed[pod].uid &&
                now.node == NODES && !now.ending;

    if (!kept) {
        world->claims[pod] = bound ? CLAIM_BOUND : CLAIM_NONE;
        world->claimed[pod] = now;
    }
    feed(world,
         &(struct reservation_event){
             .kind = now.uid ? RESERVATION_USER_SEEN : RESERVATION_USER_GONE,
             .shown = {.ending = now.ending, .over = now.over},
             .member = {{STR("d"), pod_names[pod], uid_text(world, now.uid ? now.uid : before.uid)},
                        now.node < NODES ? node_names[now.node] : STR_NONE,
                        &group_names[now.first],
                        now.count}});
}

/* What a request does, when it gets there. */
static void effect(struct world *world, const struct request *request)
{
    struct thing *thing = request->kind == RESERVATION_EVICT ? &world->pods[request->pod]
                                                             : &world->reservations[request->which];
    struct body body = thing->now;

    if (!has_room(thing))
        return;
    if (request->kind == RESERVATION_CREATE) {
        if (!body.uid)
            change(thing, (struct body){.uid = ++world->uid});
        return;
    }
    if (body.uid != request->uid || !body.uid)
        return;
    body.ending = true;
    if (request->kind == RESERVATION_RELEASE && !chance(world, 3))
        body = (struct body){0};
    change(thing, body);
}

static void answer(struct world *world, size_t index, bool well)
{
    static const struct err failed = {.code = -EIO, .text = "no"};
    struct request *at = &world->requests[index];
    struct request request = *at;
    uint64_t how = well ? 0 : rng_below(&world->rng, 4);
    struct reservation_event event = {.node = node_names[request.which / GROUPS],
                                      .group = group_names[request.which % GROUPS]};

    at->ghost = how == 3; /* it is still on its way, and nobody waits for it */
    if (how != 3)
        *at = world->requests[--world->request_count];
    if (how == 0 || how == 1 || request.ghost)
        effect(world, &request);
    if (request.ghost)
        return;
    if (request.kind == RESERVATION_CREATE)
        event.kind = how == 0   ? RESERVATION_MADE
                     : how == 2 ? RESERVATION_REFUSED
                                : RESERVATION_UNANSWERED;
    else if (request.kind == RESERVATION_RELEASE)
        event.kind = how == 0 ? RESERVATION_RELEASED : RESERVATION_KEPT;
    else if (how)
        event.kind = RESERVATION_USER_KEPT;
    else
        return;
    if (request.kind == RESERVATION_CREATE && how)
        event.err = &failed;
    feed(world, &event);
}

static void live(struct world *world, size_t which)
{
    struct thing *thing = &world->reservations[which];
    struct body body = thing->now;

    if (!has_room(thing) || !body.uid)
        return;
    switch (rng_below(&world->rng, 8)) {
    case 0: body.over = true; break;
    case 1: body.ending = true; break;
    case 2: body = (struct body){0}; break;
    case 3: /* somebody else made another one, and the watch did not see the first one go */
        body = (struct body){.uid = ++world->uid};
        break;
    default: body.told = true; break;
    }
    change(thing, body);
}

static void live_pod(struct world *world, size_t pod)
{
    struct thing *thing = &world->pods[pod];
    struct body body = thing->now;

    if (!has_room(thing))
        return;
    if (!body.uid)
        body = (struct body){.uid = ++world->uid, .node = NODES};
    else if (chance(world, 3))
        body.over = true;
    else if (chance(world, 2))
        body.ending = true;
    else
        body = (struct body){.node = NODES};
    change(thing, body);
}

static bool is_free(const struct world *world, size_t pod)
{
    const struct body *known = &world->pods[pod].known;

    return known->uid && known->node == NODES && !known->ending && !known->over &&
           world->claims[pod] == CLAIM_NONE;
}

static void want(struct world *world)
{
    struct trial_gang *gang = &world->gangs[world->gang_count];

    *gang = (struct trial_gang){.node = rng_below(&world->rng, NODES),
                                .first = rng_below(&world->rng, GROUPS)};
    gang->count = 1 + rng_below(&world->rng, GROUPS - gang->first);
    for (size_t i = 0; i < PODS && gang->size < GANG_PODS; i++) {
        uint64_t uid = world->pods[i].known.uid;

        if (!is_free(world, i))
            continue;
        gang->pods[gang->size] = i;
        gang->uids[gang->size] = uid;
        gang->members[gang->size++] =
            (struct reservation_member){{STR("d"), pod_names[i], uid_text(world, uid)},
                                        node_names[gang->node],
                                        &group_names[gang->first],
                                        gang->count};
        world->claims[i] = CLAIM_WAITS;
        world->claimed[i] = (struct body){
            .uid = uid, .node = gang->node, .first = gang->first, .count = gang->count};
    }
    if (!gang->size)
        return;
    feed(world, &(struct reservation_event){.kind = RESERVATION_WANTED,
                                            .gang = world->gang_count++,
                                            .members = gang->members,
                                            .member_count = gang->size});
}

static void write_answered(struct world *world, size_t id, size_t index, bool well)
{
    static const struct err failed = {.code = -EIO, .text = "not written"};
    struct trial_gang *gang = &world->gangs[id];

    if (!gang->writing[index] || gang->answered || gang->written[index])
        return;
    gang->writing[index] = false;
    gang->written[index] = well;
    feed(world, &(struct reservation_event){.kind = RESERVATION_WRITTEN,
                                            .gang = id,
                                            .index = index,
                                            .err = well ? NULL : &failed});
}

/* The binding of a prepared gang: 0 done, 1 failed, 2 done and nobody knows. */
static void bind(struct world *world, struct trial_gang *gang, uint64_t how)
{
    gang->binding = false;
    for (size_t i = 0; i < gang->size; i++) {
        struct thing *thing = &world->pods[gang->pods[i]];
        struct body body = thing->now;
        bool fits = body.uid == gang->uids[i] && body.node == NODES && has_room(thing);

        if (how != 1 && fits) {
            body.node = gang->node;
            body.first = gang->first;
            body.count = gang->count;
            change(thing, body);
        }
        if (how == 0 && fits)
            continue;
        claim_gone(world, gang->pods[i], gang->uids[i]);
        feed(world, &(struct reservation_event){.kind = RESERVATION_NOT_BOUND,
                                                .member = {.pod = gang->members[i].pod}});
    }
}

static void step(struct world *world)
{
    size_t gang = world->gang_count ? rng_below(&world->rng, world->gang_count) : 0;

    switch (rng_below(&world->rng, 12)) {
    case 0:
        world->now_ms += rng_between(&world->rng, 0, chance(world, 8) ? TIMEOUT_MS : 600);
        break;
    case 1:
    case 2: turn(world); break;
    case 3:
    case 4: bring_reservation(world, rng_below(&world->rng, ALL)); break;
    case 5:
    case 6: bring_pod(world, rng_below(&world->rng, PODS)); break;
    case 7:
        if (world->request_count)
            answer(world, rng_below(&world->rng, world->request_count), chance(world, 2));
        break;
    case 8: live(world, rng_below(&world->rng, ALL)); break;
    case 9: live_pod(world, rng_below(&world->rng, PODS)); break;
    case 10: want(world); break;
    default:
        for (size_t i = 0; i < world->gang_count; i++, gang = (gang + 1) % world->gang_count) {
            if (world->gangs[gang].binding) {
                bind(world, &world->gangs[gang], rng_below(&world->rng, 3));
                break;
            }
            if (!world->gangs[gang].answered) {
                write_answered(world, gang, rng_below(&world->rng, GANG_PODS), !chance(world, 4));
                break;
            }
        }
        break;
    }
}

/* Everything that is under way comes to its end. */
static void finish_all(struct world *world)
{
    while (world->request_count)
        answer(world, 0, true);
    for (size_t i = 0; i < world->gang_count; i++) {
        for (size_t j = 0; j < GANG_PODS; j++)
            write_answered(world, i, j, true);
        if (world->gangs[i].binding)
            bind(world, &world->gangs[i], 1);
    }
    for (size_t i = 0; i < ALL; i++) {
        if (world->reservations[i].now.ending)
            change(&world->reservations[i], (struct body){0});
        while (world->reservations[i].queued)
            bring_reservation(world, i);
    }
    for (size_t i = 0; i < PODS; i++) {
        if (world->pods[i].now.uid)
            change(&world->pods[i], (struct body){.node = NODES});
        while (world->pods[i].queued)
            bring_pod(world, i);
    }
}

static void settle(struct world *world)
{
    for (size_t i = 0; i < 20; i++) {
        finish_all(world);
        turn(world);
        if (world->next_ms != INT64_MAX)
            world->now_ms = world->next_ms;
    }
    EXPECT(world->next_ms == INT64_MAX);
    EXPECT(!world->request_count && !reservation_count(world->set));
    for (size_t i = 0; i < ALL; i++)
        EXPECT(!world->reservations[i].now.uid && world->counted[i] == -1);
    for (size_t i = 0; i < world->gang_count; i++)
        EXPECT(world->gangs[i].answered);
}

TEST(reservations_keep_their_rules_whatever_happens)
{
    static struct world world;
    static char why[64];

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        (void)snprintf(why, sizeof(why), "seed %llu", (unsigned long long)seed);
        test_case(why);
        memset(&world, 0, sizeof(world));
        world.rng.state = seed;
        world.set = reservation_set_new(&settings, TIMEOUT_MS, seed);
        world.next_ms = INT64_MAX;
        for (size_t i = 0; i < ALL; i++)
            world.counted[i] = -1;
        for (size_t i = 0; i < PODS; i++)
            world.pods[i].now.node = world.pods[i].known.node = NODES;
        for (size_t i = 0; i < STEPS; i++)
            step(&world);
        settle(&world);
        feed(&world, &(struct reservation_event){.kind = RESERVATION_STOP});
        reservation_set_free(world.set);
        arena_done(&world.arena);
    }
}
