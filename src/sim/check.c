#include "sim/check.h"

#include "api/api.h"
#include "api/gpu.h"
#include "api/hold.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/quantity.h"
#include "api/selector.h"
#include "api/suspend.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/core/group_name.h"
#include "sim/check_fact.h"
#include "sim/check_jobs.h"
#include "sim/check_queues.h"
#include "sim/check_report.h"
#include "sim/check_rest.h"
#include "sim/check_shares.h"
#include "sim/hollow_body.h"
#include "sim/process.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAP_SEED    13
#define DEVICES_MAX 64
#define PEOPLE      "default" /* the namespace of work.c */

/* A process that really runs. */
struct live {
    char uid[64];
    size_t len;
    char text[];
};

/* A gang: how many of its pods were active after the last commit. */
struct gang {
    int64_t active;
    int64_t partial_since_ms; /* 0: whole, or nothing */
    int64_t lost; /* lately, perhaps unseen: pods may be added to a gang that looked whole */
    int64_t lost_ms;
    size_t len;
    char text[];
};

struct check {
    struct check_options options;
    struct cache *cache; /* groups, queues, nodes, priority classes, budgets */
    VEC(struct api_watch *) watches;
    struct map facts;
    struct map lives;
    struct map gangs; /* "ns/group" */
    size_t suspensions;
    bool dirty;
    struct check_jobs *jobs;
    struct check_shares *shares;
    struct check_report report;
};

static const struct kind *const watched[] = {&kind_pod,  &kind_podgroup,      &kind_queue,
                                             &kind_node, &kind_priorityclass, &kind_pdb};
#define WATCHED COUNT_OF(watched)

void check_fail(struct check_report *report, const char *fmt, ...)
{
    va_list args;

    if (report->failed)
        return;
    report->failed = true;
    va_start(args, fmt);
    (void)vsnprintf(report->text, sizeof(report->text), fmt, args);
    va_end(args);
}

/* ---- pods ---- */

static size_t key_of(char *out, size_t size, struct str ns, struct str name)
{
    return (size_t)snprintf(out, size, STR_FMT "/" STR_FMT, STR_ARG(ns), STR_ARG(name));
}

static int64_t micro_of(struct str text)
{
    struct quantity quantity = {0};

    return quantity_parse(text, &quantity, NULL) == 0 ? (int64_t)(quantity.nano / 1000) : 0;
}

static void read_wants(struct fact *fact, const struct json *root)
{
    JSON_FOREACH(json_at(root, "spec.containers"), container) {
        const struct json *requests = json_at(container, "resources.requests");
        int64_t amount = 0;

        if (quantity_milli_json(json_get(requests, "cpu"), &amount, NULL) == 0)
            fact->wants[CPU] += amount;
        if (quantity_whole_json(json_get(requests, "memory"), &amount, NULL) == 0)
            fact->wants[MEMORY] += amount;
        if (quantity_whole_json(json_get(requests, GPU_RESOURCE), &amount, NULL) == 0)
            fact->wants[GPU] += amount * MICRO;
    }
    fact->wants[PODS] = 1;
    fact->portion = micro_of(object_annotation(fact->object, GPU_ANNOTATION_PORTION));
    fact->devices = hollow_devices(fact->object);
    fact->shares = object_annotation(fact->object, GPU_ANNOTATION_FRACTION).len ||
                   object_annotation(fact->object, GPU_ANNOTATION_FRACTION_MEMORY).len;
    int64_t devices = 1;
    (void)str_to_i64(object_annotation(fact->object, GPU_ANNOTATION_FRACTION_DEVICES), &devices);
    if (fact->shares)
        fact->wants[GPU] += fact->portion * devices;
}

/* On its way out of its GPUs: asked to be suspended, and not refused by its node. One that is to give way and fails
 * to is evicted next, so it is still on its way. */
static bool is_yielding(const struct object *pod, const struct json *root, bool *ret_suspended)
{
    struct str wish = object_annotation(pod, SUSPEND_ANNOTATION);
    bool asked = wish.len > 0;

    *ret_suspended = false;
    JSON_FOREACH(json_at(root, "status.conditions"), condition)
        if (asked && str_is(json_str_at(condition, "type"), SUSPEND_CONDITION)) {
            *ret_suspended = str_is(json_str_at(condition, "status"), "True");
            return str_is(wish, SUSPEND_YIELD) ||
                   !str_is(json_str_at(condition, "reason"), SUSPEND_FAILED);
        }
    return asked;
}

static void fact_drop(struct check *check, struct fact *fact)
{
    map_remove(&check->facts, (struct str){fact->text, fact->len});
    object_unref(fact->object);
    mem_free(fact);
}

static struct gang *gang_make(struct check *check, struct str ns, struct str name)
{
    char key[1024];
    size_t len = key_of(key, sizeof(key), ns, name);
    struct gang *gang = map_get(&check->gangs, (struct str){key, len});

    if (gang)
        return gang;
    gang = mem_alloc(sizeof(*gang) + len + 1);
    gang->len = len;
    memcpy(gang->text, key, len);
    map_set(&check->gangs, (struct str){gang->text, gang->len}, gang);
    return gang;
}

static void put_pod(struct check *check, const struct object *pod)
{
    _cleanup_(arena_done) struct arena arena = {0};
    char key[1024];
    size_t len = key_of(key, sizeof(key), pod->ns, pod->name);
    struct fact *before = map_get(&check->facts, (struct str){key, len});
    const struct json *root = object_json(pod, &arena);
    struct str phase = json_str_at(root, "status.phase");
    struct fact *fact = mem_alloc(sizeof(*fact) + len + 1);

    fact->object = object_ref(pod);
    fact->len = len;
    memcpy(fact->text, key, len);
    fact->node = json_str_at(root, "spec.nodeName");
    fact->group = object_annotation(pod, "pod-group-name");
    fact->succeeded = str_is(phase, "Succeeded");
    fact->running = str_is(phase, "Running");
    fact->evicted = before && before->evicted && str_eq(before->object->uid, pod->uid);
    fact->leaving = before && before->leaving && str_eq(before->object->uid, pod->uid);
    fact->ended = fact->succeeded || str_is(phase, "Failed");
    read_wants(fact, root);
    fact->yields = !fact->ended && is_yielding(pod, root, &fact->suspended);
    if (fact->suspended && !(before && before->suspended))
        check->suspensions++;
    if (fact->suspended) {
        fact->wants[GPU] = 0;
        fact->devices = 0;
    }
    if (before && before->ended && !fact->ended && str_eq(before->object->uid, pod->uid))
        check_fail(&check->report, "pod %s had ended and is " STR_FMT " again", fact->text,
                   STR_ARG(phase));
    if (before && before->node.len && !str_eq(before->node, fact->node) &&
        str_eq(before->object->uid, pod->uid))
        check_fail(&check->report, "pod %s moved from node " STR_FMT " to " STR_FMT, fact->text,
                   STR_ARG(before->node), STR_ARG(fact->node));
    if (!before)
        check_jobs_pod_made(check->jobs, pod);
    if (before)
        fact_drop(check, before);
    map_set(&check->facts, (struct str){fact->text, fact->len}, fact);
}

static void drop_pod(struct check *check, const struct object *pod)
{
    char key[1024];
    struct fact *fact =
        map_get(&check->facts, (struct str){key, key_of(key, sizeof(key), pod->ns, pod->name)});

    if (fact)
        fact_drop(check, fact);
}

/* ---- changes ---- */

static void on_change(void *user, const struct api_change *change)
{
    struct check *check = user;
    const struct object *object = change->object;

    if (!object)
        return;
    check->dirty = true;
    if (object->kind == &kind_pod) {
        if (change->event == API_DELETED)
            drop_pod(check, object);
        else
            put_pod(check, object);
        return;
    }
    if (change->event == API_DELETED) {
        cache_drop(check->cache, object);
        return;
    }
    cache_put(check->cache, object);
}

/* ---- processes ---- */

void check_started(struct check *check, const struct sim_process *process)
{
    char key[1024];
    size_t len = key_of(key, sizeof(key), process->ns, process->name);
    struct live *live = map_get(&check->lives, (struct str){key, len});

    if (live) {
        check_fail(&check->report, "pod %.*s runs twice: uid %s and uid " STR_FMT, (int)len, key,
                   live->uid, STR_ARG(process->uid));
        return;
    }
    if (check->options.reserved)
        check_shares_started(check->shares, process);
    live = mem_alloc(sizeof(*live) + len + 1);
    live->len = len;
    memcpy(live->text, key, len);
    (void)snprintf(live->uid, sizeof(live->uid), STR_FMT, STR_ARG(process->uid));
    map_set(&check->lives, (struct str){live->text, live->len}, live);
}

void check_ended(struct check *check, struct str ns, struct str name, struct str uid)
{
    char key[1024];
    struct live *live =
        map_get(&check->lives, (struct str){key, key_of(key, sizeof(key), ns, name)});

    if (!live || !str_is(uid, live->uid))
        return;
    check_shares_ended(check->shares, uid);
    map_remove(&check->lives, (struct str){live->text, live->len});
    mem_free(live);
}

void check_moved(struct check *check, struct str uid, bool out)
{
    check_shares_moved(check->shares, uid, out);
}

void check_refused(struct check *check, const struct sim_process *process)
{
    check_fail(&check->report, "node " STR_FMT " has too few GPUs left for pod " STR_FMT,
               STR_ARG(process->node), STR_ARG(process->name));
}

/* ---- nodes ---- */

struct load {
    int64_t used[RESOURCES];
    uint64_t whole; /* devices */
    int64_t shared[DEVICES_MAX];
    const struct fact *first[DEVICES_MAX]; /* who holds it */
};

static void load_add(struct check *check, struct load *load, const struct fact *fact)
{
    for (size_t r = 0; r < RESOURCES; r++)
        if (r != GPU)
            load->used[r] += fact->wants[r];
    if (check->options.reserved || !fact->devices) {
        /* A reservation pod stands for those who share its device. */
        load->used[GPU] += fact->shares ? 0 : fact->wants[GPU];
        return;
    }
    for (size_t d = 0; d < DEVICES_MAX; d++) {
        uint64_t bit = UINT64_C(1) << d;

        if (!(fact->devices & bit))
            continue;
        if ((load->whole & bit) || (!fact->portion && load->shared[d]))
            check_fail(&check->report,
                       "GPU %zu of node " STR_FMT " is given twice, to %s and to %s", d,
                       STR_ARG(fact->node), load->first[d]->text, fact->text);
        load->first[d] = fact;
        if (!fact->portion) {
            load->whole |= bit;
            load->used[GPU] += MICRO;
            continue;
        }
        load->used[GPU] += load->shared[d] ? 0 : MICRO;
        load->shared[d] += fact->portion;
        if (load->shared[d] > MICRO)
            check_fail(&check->report,
                       "GPU %zu of node " STR_FMT " is shared beyond itself: %lld millionths", d,
                       STR_ARG(fact->node), (long long)load->shared[d]);
    }
}

/* Who has some of it, for whoever looks for the reason. */
static struct str holders_of(const struct check *check,
                             struct str node,
                             enum resource resource,
                             struct arena *arena)
{
    struct str text = STR("");

    MAP_FOREACH(&check->facts, entry) {
        const struct fact *fact = entry->value;

        if (!fact->ended && str_eq(fact->node, node) && fact->wants[resource])
            text = str_printf(arena, STR_FMT " %s", STR_ARG(text), fact->text);
    }
    return text;
}

static void check_node(struct check *check, const struct object *node)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *has = json_at(object_json(node, &arena), "status.allocatable");
    int64_t total[RESOURCES] = {0};
    struct load load = {0};

    (void)quantity_milli_json(json_get(has, "cpu"), &total[CPU], NULL);
    (void)quantity_whole_json(json_get(has, "memory"), &total[MEMORY], NULL);
    (void)quantity_whole_json(json_get(has, GPU_RESOURCE), &total[GPU], NULL);
    (void)quantity_whole_json(json_get(has, "pods"), &total[PODS], NULL);
    total[GPU] *= MICRO;
    MAP_FOREACH(&check->facts, entry) {
        const struct fact *fact = entry->value;

        if (!fact->ended && str_eq(fact->node, node->name))
            load_add(check, &load, fact);
    }
    for (size_t r = 0; r < RESOURCES; r++)
        if (load.used[r] > total[r])
            check_fail(&check->report, "node " STR_FMT " has %lld %s and promised %lld:" STR_FMT,
                       STR_ARG(node->name), (long long)total[r], resource_words[r],
                       (long long)load.used[r],
                       STR_ARG(holders_of(check, node->name, (enum resource)r, &arena)));
}

/* ---- budgets ---- */

/* Only budgets that name maxUnavailable: people of the simulator bring no others. */
static void check_budget(struct check *check, const struct object *budget)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *spec = json_get(object_json(budget, &arena), "spec");
    struct selector selector = {0};
    int64_t allowed = 0;
    int64_t leaving = 0;

    if (!json_i64(json_get(spec, "maxUnavailable"), &allowed) ||
        selector_from_json(&arena, json_get(spec, "selector"), &selector, NULL) < 0)
        return;
    MAP_FOREACH(&check->facts, entry) {
        const struct fact *fact = entry->value;

        leaving += fact->evicted && !fact->ended && str_eq(fact->object->ns, budget->ns) &&
                   selector_matches(&selector, fact->object->labels, fact->object->label_count);
    }
    if (leaving > allowed)
        check_fail(&check->report, "budget " STR_FMT " allows %lld evictions and there are %lld",
                   STR_ARG(budget->name), (long long)allowed, (long long)leaving);
}

void check_evicted(struct check *check, struct str ns, struct str name)
{
    char key[1024];
    struct fact *fact =
        map_get(&check->facts, (struct str){key, key_of(key, sizeof(key), ns, name)});
    const struct object *budget;
    size_t cursor = 0;

    if (!fact || !fact->running || fact->leaving)
        return;
    fact->evicted = true;
    while ((budget = cache_next(check->cache, &kind_pdb, ns, &cursor))) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct selector selector = {0};

        if (selector_from_json(&arena, json_at(object_json(budget, &arena), "spec.selector"),
                               &selector, NULL) == 0 &&
            selector_matches(&selector, fact->object->labels, fact->object->label_count))
            check_budget(check, budget);
    }
}

void check_binding(struct check *check, const struct api_binding *binding)
{
    char key[1024];
    const struct fact *fact = map_get(
        &check->facts, (struct str){key, key_of(key, sizeof(key), binding->ns, binding->pod)});

    if (fact && fact->node.len && str_eq(fact->object->uid, binding->uid))
        check_fail(&check->report, "pod %s is on node " STR_FMT " and is bound again, to " STR_FMT,
                   fact->text, STR_ARG(fact->node), STR_ARG(binding->node));
}

/* Whether a budget may keep the pod where it is for ever: one that stands still does not end. */
static bool is_guarded(const struct check *check, const struct fact *fact)
{
    const struct object *budget;
    size_t cursor = 0;

    while (fact->yields &&
           (budget = cache_next(check->cache, &kind_pdb, fact->object->ns, &cursor))) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct selector selector = {0};

        if (selector_from_json(&arena, json_at(object_json(budget, &arena), "spec.selector"),
                               &selector, NULL) == 0 &&
            selector_matches(&selector, fact->object->labels, fact->object->label_count))
            return true;
    }
    return false;
}

/* ---- gangs ---- */

static void check_gang(struct check *check, const struct object *group, int64_t now_ms)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *spec = json_get(object_json(group, &arena), "spec");
    int64_t min = json_i64_or(json_get(spec, "minMember"), 1);
    struct gang *gang = gang_make(check, group->ns, group->name);
    int64_t active = 0;
    int64_t still =
        0; /* of these: those that are suspended, and hold no GPU while the others wait for theirs */
    bool succeeded = false;
    bool guarded = false;

    MAP_FOREACH(&check->facts, entry) {
        const struct fact *fact = entry->value;

        if (!str_eq(fact->group, group->name) || !str_eq(fact->object->ns, group->ns))
            continue;
        guarded = guarded || is_guarded(check, fact);
        bool counts = fact->node.len && !fact->ended && !fact->object->deleted_ms;
        active += counts;
        still += counts && fact->suspended;
        succeeded = succeeded || fact->succeeded;
    }
    bool partial = active > 0 && active < min && !succeeded;
    if (now_ms - gang->lost_ms > CHECK_UNSEEN_MS)
        gang->lost = 0;
    if (active < gang->active) {
        gang->lost += gang->active - active;
        gang->lost_ms = now_ms;
    }
    if (check->options.whole_gangs && partial && active > gang->active && active + gang->lost < min)
        check_fail(&check->report, "gang %s: %lld of %lld pods were bound, not all at once",
                   gang->text, (long long)active, (long long)min);
    if (!partial || guarded || active == still)
        gang->partial_since_ms = 0;
    else if (!gang->partial_since_ms)
        gang->partial_since_ms = now_ms;
    else if (now_ms - gang->partial_since_ms > CHECK_STALE_MS)
        check_fail(&check->report, "gang %s holds %lld of %lld pods for %lld s", gang->text,
                   (long long)active, (long long)min,
                   (long long)(now_ms - gang->partial_since_ms) / 1000);
    gang->active = active;
}

size_t check_suspended(const struct check *check)
{
    return check->suspensions;
}

const char *check_now(struct check *check, int64_t now_ms)
{
    const struct object *object;
    size_t cursor = 0;

    if (!check->dirty || check->report.failed)
        return check->report.failed ? check->report.text : NULL;
    check->dirty = false;
    MAP_FOREACH(&check->facts, entry) {
        struct fact *fact = entry->value;

        fact->leaving = fact->leaving || (fact->object->deleted_ms && !fact->evicted);
    }
    while ((object = cache_next(check->cache, &kind_node, STR(""), &cursor)))
        check_node(check, object);
    check_queues(&check->facts, check->cache, &check->report);
    cursor = 0;
    while ((object = cache_next(check->cache, &kind_podgroup, STR(""), &cursor)))
        check_gang(check, object, now_ms);
    if (check->options.reserved)
        check_shares_now(check->shares);
    return check->report.failed ? check->report.text : NULL;
}

/* Long after the last fault nothing restarts any more: nobody says so, and nobody waits for it. The
 * words of a group are looked at; those of its pods are written when the reason changes only. */
static void holds_at_rest(struct check *check, int64_t now_ms)
{
    const struct object *group;
    size_t cursor = 0;

    while ((group = cache_next(check->cache, &kind_podgroup, STR(""), &cursor))) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct str says = json_str_at(object_json(group, &arena), "status.message");
        struct str until = object_annotation(group, HOLD_UNTIL_ANNOTATION);
        int64_t until_ms = 0;

        if (until.len && (!time_parse(until, &until_ms) || until_ms > now_ms))
            check_fail(&check->report, "room is held for PodGroup " STR_FMT " until " STR_FMT,
                       STR_ARG(group->name), STR_ARG(until));
        if (str_contains(says, STR("held for the restart of")))
            check_fail(&check->report, "PodGroup " STR_FMT " waits for room that is held: " STR_FMT,
                       STR_ARG(group->name), STR_ARG(says));
    }
}

const char *check_at_rest(struct check *check, int64_t now_ms)
{
    MAP_FOREACH(&check->facts, entry) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct fact *fact = entry->value;
        bool says = false;

        if (!fact->ended)
            check_jobs_pod_lives(check->jobs, fact->object);
        /* What stands for a part of this program needs no place. */
        if (fact->node.len || fact->ended || fact->object->deleted_ms ||
            object_label(fact->object, GROUP_STAND_IN).len)
            continue;
        JSON_FOREACH(json_at(object_json(fact->object, &arena), "status.conditions"), condition) {
            struct str message = json_str_at(condition, "message");

            says = says || (str_is(json_str_at(condition, "type"), "PodScheduled") &&
                            str_is(json_str_at(condition, "status"), "False") && message.len);
        }
        if (!says)
            check_fail(&check->report, "pod %s waits and does not say why", fact->text);
    }
    check_jobs_at_rest(check->jobs);
    check_shares_at_rest(check->shares);
    holds_at_rest(check, now_ms);
    check_rest(&check->facts, check->cache, check->options.reserved, &check->report);
    return check->report.failed ? check->report.text : NULL;
}

const char *check_clean(struct check *check)
{
    const struct object *object;
    size_t cursor = 0;

    /* What people bring is in one namespace; others have pods that belong to the platform. */
    MAP_FOREACH(&check->facts, entry) {
        const struct fact *fact = entry->value;

        if (str_is(fact->object->ns, PEOPLE))
            check_fail(&check->report, "pod %s is still there", fact->text);
    }
    while ((object = cache_next(check->cache, &kind_podgroup, STR(PEOPLE), &cursor)))
        check_fail(&check->report, "PodGroup " STR_FMT " is still there", STR_ARG(object->name));
    check_jobs_clean(check->jobs, STR(PEOPLE));
    check_shares_clean(check->shares);
    MAP_FOREACH(&check->lives, entry) {
        const struct live *live = entry->value;

        if (str_starts((struct str){live->text, live->len}, STR(PEOPLE "/")))
            check_fail(&check->report, "the process of pod %s still runs", live->text);
    }
    return check->report.failed ? check->report.text : NULL;
}

struct check *check_new(const struct check_options *options)
{
    struct check *check = MEM_NEW(struct check);

    check->options = *options;
    check->cache = cache_new(MAP_SEED);
    check->jobs = check_jobs_new(options->api, &check->report);
    check->shares = check_shares_new(options->api, &check->report);
    check->facts.seed = check->lives.seed = check->gangs.seed = MAP_SEED;
    for (size_t i = 0; i < WATCHED; i++)
        VEC_PUSH(NULL, &check->watches,
                 api_watch(options->api, &(struct api_watch_request){.kind = watched[i]}, on_change,
                           check));
    return check;
}

void check_free(struct check *check)
{
    if (!check)
        return;
    for (size_t i = 0; i < check->watches.count; i++)
        api_watch_stop(check->options.api, check->watches.items[i]);
    VEC_DONE(&check->watches);
    check_jobs_free(check->jobs);
    check_shares_free(check->shares);
    MAP_FOREACH(&check->facts, entry)
        fact_drop(check, entry->value);
    MAP_FOREACH(&check->lives, entry)
        mem_free(entry->value);
    MAP_FOREACH(&check->gangs, entry)
        mem_free(entry->value);
    map_done(&check->facts);
    map_done(&check->lives);
    map_done(&check->gangs);
    cache_free(check->cache);
    mem_free(check);
}
