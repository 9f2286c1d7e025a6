#include "sim/work.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/suspend.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/vec.h"
#include "control/cluster/sharing.h"
#include "sim/jobs.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define NAME_BYTES 48
#define PAUSE_MS   2500 /* between two things, on average */
#define THINGS_MAX 24   /* that exist at once; more of them wait for each other only */
#define TEXT_BYTES 300
#define GANG_MAX   5

struct thing {
    const struct kind *kind;
    char name[NAME_BYTES];
    unsigned pods; /* of a gang made by hand: NAME-0, NAME-1, ... */
};

struct work {
    struct work_options options;
    VEC(struct thing) things;
    struct rng rng;   /* of what is being done */
    uint64_t actions; /* done, or left out */
    uint64_t number;  /* of names */
};

static const char *const queues[] = {"red-a", "red-b", "blue", "default-queue"};
#define QUEUES COUNT_OF(queues)
/* A queue of "fairUsers" goes by the label; who has none is one more. */
static const char *const users[] = {"", ",\"user\":\"ann\"", ",\"user\":\"bob\""};
static const char *const classes[] = {"train", "train", "build-preemptible", "build"};
#define CLASSES COUNT_OF(classes)

__attribute__((format(printf, 2, 3))) static void trace(const struct work *work,
                                                        const char *fmt,
                                                        ...)
{
    char text[TEXT_BYTES];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    work->options.trace(work->options.user, text);
}

__attribute__((format(printf, 2, 3))) static void tell(const struct work *work,
                                                       const char *fmt,
                                                       ...)
{
    char text[TEXT_BYTES];
    va_list args;

    if (!work->options.tell)
        return;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    work->options.tell(work->options.user, text);
}

static void on_done(void *user, const struct api_result *result)
{
    const struct work *work = user;

    if (result->code)
        trace(work, "people: refused: %s", result->err->text);
}

static void create_text(struct work *work, const struct kind *kind, struct str body)
{
    api_call(work->options.api,
             &(struct api_request){.verb = API_CREATE,
                                   .kind = kind,
                                   .ns = kind->namespaced ? STR("default") : STR_NONE,
                                   .body = body},
             on_done, work);
}

__attribute__((format(printf, 3, 4))) static void create(struct work *work,
                                                         const struct kind *kind,
                                                         const char *fmt,
                                                         ...)
{
    char text[4096];
    va_list args;

    va_start(args, fmt);
    int len = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    assert(len > 0 && (size_t)len < sizeof(text));
    create_text(work, kind, (struct str){text, (size_t)len});
}

static uint64_t random_below(struct work *work, uint64_t limit)
{
    return rng_below(&work->rng, limit);
}

static struct thing *thing_new(struct work *work, const struct kind *kind, const char *prefix)
{
    struct thing thing = {.kind = kind};

    (void)snprintf(thing.name, sizeof(thing.name), "%s-%" PRIu64, prefix, work->number++);
    VEC_PUSH(NULL, &work->things, thing);
    trace(work, "people: create %s %s", kind->name, thing.name);
    return &work->things.items[work->things.count - 1];
}

/* ---- what they bring ---- */

/* One pod: `share` in hundredths of a GPU, or memory of one, or whole ones. */
struct pod_wish {
    const char *name;
    const char *queue;
    const char *class;
    const char *group; /* annotation, or NULL */
    const char *user;  /* of users[], or NULL */
    int64_t gpus;
    int64_t share;
    int64_t memory_mib; /* of a GPU, instead of a share */
    int64_t devices;    /* that have the share; 0: one */
    bool copies;        /* it is prepared to be suspended by hand */
    int64_t run_ms;     /* -1: as the machine likes */
};

static void create_pod(struct work *work, const struct pod_wish *wish)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str notes = STR("\"muster.dev/sim\":\"true\"");

    if (wish->group)
        notes =
            str_printf(&arena, STR_FMT ",\"pod-group-name\":\"%s\"", STR_ARG(notes), wish->group);
    if (wish->share)
        notes = str_printf(&arena, STR_FMT ",\"gpu-fraction\":\"0.%02" PRId64 "\"", STR_ARG(notes),
                           wish->share);
    if (wish->memory_mib)
        notes = str_printf(&arena, STR_FMT ",\"gpu-memory\":\"%" PRId64 "\"", STR_ARG(notes),
                           wish->memory_mib);
    if (wish->devices)
        notes = str_printf(&arena, STR_FMT ",\"gpu-fraction-num-devices\":\"%" PRId64 "\"",
                           STR_ARG(notes), wish->devices);
    if (wish->copies)
        notes = str_printf(&arena, STR_FMT ",\"" SUSPEND_COPY "\":\"" SUSPEND_COPY_LIBRARY "\"",
                           STR_ARG(notes));
    if (wish->run_ms >= 0)
        notes = str_printf(&arena, STR_FMT ",\"hollow.muster.dev/run-ms\":\"%" PRId64 "\"",
                           STR_ARG(notes), wish->run_ms);
    struct str limits = wish->gpus
                            ? str_printf(&arena, ",\"nvidia.com/gpu\":\"%" PRId64 "\"", wish->gpus)
                            : STR("");
    create(work, &kind_pod,
           "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"%s\","
           "\"labels\":{\"kai.scheduler/queue\":\"%s\",\"priorityClassName\":\"%s\"%s},"
           "\"annotations\":{" STR_FMT "}},\"spec\":{\"schedulerName\":\"kai-scheduler\","
           "\"restartPolicy\":\"Never\",\"containers\":[{\"name\":\"main\",\"image\":\"x\","
           "\"resources\":{\"limits\":{\"cpu\":\"500m\",\"memory\":\"256Mi\"" STR_FMT "}}}]}}",
           wish->name, wish->queue, wish->class, wish->user ? wish->user : "", STR_ARG(notes),
           STR_ARG(limits));
}

static const char *some_user(struct work *work)
{
    return work->options.wide ? users[rng_below(&work->rng, COUNT_OF(users))] : "";
}

static const char *some_queue(struct work *work)
{
    return queues[random_below(work, QUEUES)];
}

/* On a cluster nothing else can be suspended, and that only for others that want a share: they bring
 * little else then. */
static bool is_for_shares(const struct work *work)
{
    return work->options.suspend && work->options.cluster;
}

static const char *some_class(struct work *work)
{
    return classes[random_below(work, CLASSES)];
}

static void bring_pod(struct work *work)
{
    struct thing *thing = thing_new(work, &kind_pod, "pod");
    struct pod_wish wish = {.name = thing->name,
                            .queue = some_queue(work),
                            .class = some_class(work),
                            .gpus = (int64_t)random_below(work, (uint64_t)work->options.gpus + 1),
                            .user = some_user(work),
                            .run_ms = -1};

    tell(work, "Somebody brings pod %s: %" PRId64 " GPUs, queue %s, priority %s.", wish.name,
         wish.gpus, wish.queue, wish.class);
    create_pod(work, &wish);
}

static void bring_share(struct work *work)
{
    struct thing *thing = thing_new(work, &kind_pod, "share");
    struct pod_wish wish = {
        .name = thing->name, .queue = some_queue(work), .class = "train", .run_ms = -1};

    if (is_for_shares(work)) {
        wish.class = some_class(work);
        wish.copies = random_below(work, 2);
    }
    if (random_below(work, 3))
        wish.share = 10 + (int64_t)random_below(work, 80);
    else
        wish.memory_mib = 1000 + (int64_t)random_below(work, 14000);
    if (random_below(work, is_for_shares(work) ? 10 : 3) == 0)
        wish.devices = 1 + (int64_t)random_below(work, 2);

    tell(work, "Somebody brings pod %s: %" PRId64 " %s of %" PRId64 " GPU, queue %s.", wish.name,
         wish.share ? wish.share : wish.memory_mib, wish.share ? "hundredths" : "MiB",
         wish.devices ? wish.devices : 1, wish.queue);
    create_pod(work, &wish);
}

/* Some gangs would rather be evicted, and some be suspended although their queue says nothing. */
static const char *some_loss(struct work *work)
{
    static const char *const notes[] = {
        "",
        "",
        ",\"annotations\":{\"" SUSPEND_POLICY "\":\"" SUSPEND_POLICY_SUSPEND "\"}",
        ",\"annotations\":{\"" SUSPEND_POLICY "\":\"" SUSPEND_POLICY_EVICT "\"}",
    };

    return work->options.suspend ? notes[random_below(work, COUNT_OF(notes))] : "";
}

static void create_gang(struct work *work,
                        struct thing *thing,
                        const struct pod_wish *like,
                        unsigned min)
{
    create(work, &kind_podgroup,
           "{\"apiVersion\":\"scheduling.run.ai/v2alpha2\",\"kind\":\"PodGroup\","
           "\"metadata\":{\"name\":\"%s\",\"labels\":{\"by\":\"people\"%s}%s},\"spec\":{"
           "\"minMember\":%u,"
           "\"queue\":\"%s\",\"priorityClassName\":\"%s\"}}",
           thing->name, like->user ? like->user : "", some_loss(work), min, like->queue,
           like->class);
    for (unsigned i = 0; i < thing->pods; i++) {
        struct pod_wish wish = *like;
        char name[NAME_BYTES + 12];

        (void)snprintf(name, sizeof(name), "%s-%u", thing->name, i);
        wish.name = name;
        wish.group = thing->name;
        create_pod(work, &wish);
    }
}

static void bring_gang(struct work *work)
{
    struct thing *thing = thing_new(work, &kind_podgroup, "gang");
    uint64_t half = is_for_shares(work) ? 2 : 4; /* of so many, one */
    struct pod_wish wish = {.queue = some_queue(work),
                            .class = some_class(work),
                            .gpus = (int64_t)random_below(work, 2),
                            .share = random_below(work, half) ? 0 : 50,
                            .user = some_user(work),
                            .run_ms = -1};

    if (work->options.suspend) /* it could give up nothing else */
        wish.gpus = 1;
    if (wish.share)
        wish.gpus = 0;
    thing->pods = 2 + (unsigned)random_below(work, GANG_MAX - 1);
    unsigned min = thing->pods - (work->options.suspend ? 0 : (unsigned)random_below(work, 2));
    tell(work,
         "Somebody brings gang %s: %u pods, at least %u at once, each with %s, queue %s, "
         "priority %s.",
         thing->name, thing->pods, min,
         wish.share  ? "half a GPU"
         : wish.gpus ? "a GPU"
                     : "no GPU",
         wish.queue, wish.class);
    create_gang(work, thing, &wish, min);
}

static void bring_job(struct work *work)
{
    _cleanup_(arena_done) struct arena arena = {0};
    size_t first = 0, count = job_form_count;
    if (work->options.wide && random_below(work, 3) == 0) { /* those that restart in place */
        first = job_form_count;
        count = job_form_count_wide - job_form_count;
    }
    const struct job_form *form = &job_forms[first + random_below(work, count)];
    /* Jobs of one kind can be suspended by hand and keep their pods. */
    bool kept = work->options.suspend && random_below(work, 2);
    for (size_t i = 0; kept && form->kind != &kind_torchrunjob && i < job_form_count; i++)
        form = &job_forms[i];
    struct thing *thing = thing_new(work, form->kind, form->prefix);
    struct job_wish wish = {
        .rng = &work->rng, .name = thing->name, .queue = some_queue(work), .user = some_user(work)};

    tell(work, "Somebody brings %s %s, queue %s.", form->kind->name, thing->name, wish.queue);
    create_text(work, form->kind, job_body(&arena, form, &wish));
}

/* Somebody who does not want to be disturbed much: evictions of that queue's pods are refused. */
static void bring_budget(struct work *work)
{
    struct thing *thing = thing_new(work, &kind_pdb, "budget");
    uint64_t most = random_below(work, 2);
    const char *queue = some_queue(work);

    tell(work, "Somebody brings budget %s: at most %" PRIu64 " pods of queue %s unavailable.",
         thing->name, most, queue);
    create(work, &kind_pdb,
           "{\"apiVersion\":\"policy/v1\",\"kind\":\"PodDisruptionBudget\",\"metadata\":{\"name\":"
           "\"%s\"},\"spec\":{\"maxUnavailable\":%" PRIu64 ",\"selector\":{\"matchLabels\":{"
           "\"kai.scheduler/queue\":\"%s\"}}}}",
           thing->name, most, queue);
}

/* A job stands still for a while, with its pods, or goes on. */
static void hold_job(struct work *work, const struct thing *thing, bool hold)
{
    if (thing->kind != &kind_torchrunjob)
        return;
    trace(work, "people: %s %s", hold ? "suspend --keep" : "resume", thing->name);
    tell(work,
         hold ? "Somebody suspends job %s, which keeps its pods." : "Somebody lets job %s go on.",
         thing->name);
    api_call(work->options.api,
             &(struct api_request){
                 .verb = API_PATCH,
                 .kind = thing->kind,
                 .ns = STR("default"),
                 .name = str_from(thing->name),
                 .patch = API_PATCH_MERGE,
                 .body = hold ? STR("{\"spec\":{\"suspend\":true,\"keepWhileSuspended\":true}}")
                              : STR("{\"spec\":{\"suspend\":false}}")},
             on_done, work);
}

/* On a cluster a pod with a share does, by its annotation; then it goes on when there is room for it. */
static void hold_pod(struct work *work, const struct thing *thing, bool hold)
{
    _cleanup_(arena_done) struct arena arena = {0};

    if (thing->kind != &kind_pod || !str_starts(str_from(thing->name), STR("share-")))
        return;
    trace(work, "people: %s %s", hold ? "suspend" : "resume", thing->name);
    tell(work, hold ? "Somebody suspends pod %s." : "Somebody lets pod %s go on.", thing->name);
    api_call(work->options.api,
             &(struct api_request){
                 .verb = API_PATCH,
                 .kind = &kind_pod,
                 .ns = STR("default"),
                 .name = str_from(thing->name),
                 .patch = API_PATCH_MERGE,
                 .body = str_printf(&arena, "{\"metadata\":{\"annotations\":{\"%s\":\"%s\"}}}",
                                    SUSPEND_ANNOTATION, hold ? SUSPEND_HOLD : SUSPEND_YIELD)},
             on_done, work);
}

/* Any of them, or any of one kind; `count` for none. One that was left out changes the choice only
 * if it would have been chosen itself. */
static size_t some_thing(struct work *work, const struct kind *kind)
{
    uint64_t salt = rng_next(&work->rng), least = UINT64_MAX;
    size_t chosen = work->things.count;

    for (size_t i = 0; i < work->things.count; i++) {
        const struct thing *thing = &work->things.items[i];
        uint64_t lot = str_hash(str_from(thing->name), salt);

        if ((kind && thing->kind != kind) || lot >= least)
            continue;
        least = lot;
        chosen = i;
    }
    return chosen;
}

static void hold_something(struct work *work)
{
    if (!work->options.suspend || random_below(work, 2))
        return;
    bool pods = is_for_shares(work) && random_below(work, 4);
    size_t index = some_thing(work, pods ? &kind_pod : &kind_torchrunjob);
    bool hold = random_below(work, 2);
    if (index < work->things.count && pods)
        hold_pod(work, &work->things.items[index], hold);
    else if (index < work->things.count)
        hold_job(work, &work->things.items[index], hold);
}

void work_release_all(struct work *work)
{
    for (size_t i = 0; work->options.suspend && i < work->things.count; i++)
        hold_job(work, &work->things.items[i], false);
    for (size_t i = 0; is_for_shares(work) && i < work->things.count; i++)
        hold_pod(work, &work->things.items[i], false);
}

/* ---- what they take away ---- */

static void delete_named(struct work *work, const struct kind *kind, const char *name)
{
    api_call(work->options.api,
             &(struct api_request){.verb = API_DELETE,
                                   .kind = kind,
                                   .ns = STR("default"),
                                   .name = str_from(name),
                                   .body = STR("{\"propagationPolicy\":\"Background\"}")},
             on_done, work);
}

static void delete_thing(struct work *work, size_t index)
{
    struct thing *thing = &work->things.items[index];

    trace(work, "people: delete %s %s", thing->kind->name, thing->name);
    tell(work, "Somebody deletes %s %s.", thing->kind->name, thing->name);
    for (unsigned i = 0; i < thing->pods; i++) {
        char name[NAME_BYTES + 12];

        (void)snprintf(name, sizeof(name), "%s-%u", thing->name, i);
        delete_named(work, &kind_pod, name);
    }
    delete_named(work, thing->kind, thing->name);
    VEC_REMOVE_SWAP(&work->things, index);
}

void work_delete_all(struct work *work)
{
    while (work->things.count)
        delete_thing(work, work->things.count - 1);
}

void work_ready(struct work *work, size_t machine, bool ready)
{
    _cleanup_(arena_done) struct arena arena = {0};

    trace(work, "node machine-%zu is %s", machine, ready ? "ready" : "not ready");
    tell(work, "Node machine-%zu is %s.", machine, ready ? "ready again" : "known to be away");
    api_call(work->options.api,
             &(struct api_request){
                 .verb = API_PATCH,
                 .kind = &kind_node,
                 .name = str_printf(&arena, "machine-%zu", machine),
                 .subresource = STR("status"),
                 .patch = API_PATCH_STRATEGIC,
                 .body = str_printf(&arena,
                                    "{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":"
                                    "\"%s\",\"reason\":\"Simulated\"}]}}",
                                    ready ? "True" : "Unknown")},
             on_done, work);
}

/* ---- in which order ---- */

int64_t work_pause_ms(const struct work *work)
{
    struct rng rng = {work->options.seed + work->actions};

    (void)rng_next(&rng);
    return rng_between(&rng, 0, PAUSE_MS * 2);
}

void work_something(struct work *work, bool happens)
{
    static void (*const bring[])(struct work *) = {bring_pod,  bring_share, bring_gang,
                                                   bring_gang, bring_job,   bring_job,
                                                   bring_job,  bring_budget};
    struct rng own = {work->options.seed + work->actions};

    work->number = work->actions++;
    if (!happens)
        return;
    work->rng = (struct rng){rng_next(&own)};
    uint64_t choice = random_below(work, COUNT_OF(bring) + 2);
    hold_something(work);
    if (work->things.count >= THINGS_MAX || choice >= COUNT_OF(bring)) {
        if (work->things.count)
            delete_thing(work, some_thing(work, NULL));
        return;
    }
    if (is_for_shares(work) && bring[choice] != bring_budget && random_below(work, 2))
        bring_share(work);
    else
        bring[choice](work);
}

static void queue_create(struct work *work, const char *name, const char *parent, const char *gpu)
{
    create(work, &kind_queue,
           "{\"apiVersion\":\"scheduling.run.ai/v2\",\"kind\":\"Queue\",\"metadata\":{\"name\":"
           "\"%s\",\"annotations\":{%s}},\"spec\":{\"parentQueue\":\"%s\"%s,\"resources\":{"
           "\"gpu\":{%s},\"cpu\":{\"quota\":-1,\"limit\":-1,\"overQuotaWeight\":1},"
           "\"memory\":{\"quota\":-1,\"limit\":-1,\"overQuotaWeight\":1}}}}",
           name,
           work->options.suspend && !parent[0] ? "\"" SUSPEND_POLICY "\":\"" SUSPEND_POLICY_SUSPEND
                                                 "\""
                                               : "",
           parent, work->options.wide && parent[0] ? ",\"order\":\"fairUsers\"" : "", gpu);
}

void work_queues(struct work *work)
{
    create(work, &kind_namespace,
           "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"%s\"}}",
           SHARING_NAMESPACE);
    queue_create(work, "red", "", "\"quota\":4,\"limit\":6,\"overQuotaWeight\":1");
    queue_create(work, "red-a", "red", "\"quota\":2,\"limit\":-1,\"overQuotaWeight\":2");
    queue_create(work, "red-b", "red", "\"quota\":1,\"limit\":3,\"overQuotaWeight\":1");
    queue_create(work, "blue", "", "\"quota\":3,\"limit\":-1,\"overQuotaWeight\":1");
    create(work, &kind_torchrunqueue,
           "{\"apiVersion\":\"torchrun.ai/v1alpha1\",\"kind\":\"TorchrunQueue\",\"metadata\":{"
           "\"name\":\"small\"},\"spec\":{\"nodeResources\":{\"gpus\":1,\"cpus\":2,\"memory\":"
           "\"1Gi\"}}}");
}

bool work_story(struct work *work, size_t step)
{
    struct thing *thing;

    switch (step) {
    case 0: /* two halves of one GPU */
        for (size_t i = 0; i < 2; i++) {
            thing = thing_new(work, &kind_pod, "half");
            create_pod(work, &(struct pod_wish){.name = thing->name,
                                                .queue = "blue",
                                                .class = "train",
                                                .share = 50,
                                                .run_ms = 600000});
        }
        return true;
    case 1: /* a gang that fills what is left of the two machines */
        thing = thing_new(work, &kind_podgroup, "gang");
        thing->pods = 3;
        create_gang(
            work, thing,
            &(struct pod_wish){.queue = "blue", .class = "train", .gpus = 1, .run_ms = 600000}, 3);
        return true;
    case 2: /* and one that must be let in before it */
        thing = thing_new(work, &kind_podgroup, "urgent");
        thing->pods = 2;
        create_gang(
            work, thing,
            &(struct pod_wish){.queue = "blue", .class = "build", .gpus = 1, .run_ms = 600000}, 2);
        return true;
    default: return false;
    }
}

struct work *work_new(const struct work_options *options)
{
    struct work *work = MEM_NEW(struct work);

    work->options = *options;
    work->rng = (struct rng){options->seed};
    return work;
}

void work_free(struct work *work)
{
    if (!work)
        return;
    VEC_DONE(&work->things);
    mem_free(work);
}
