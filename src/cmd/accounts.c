#include "cmd/accounts.h"

#include "api/account.h"
#include "api/account_run.h"
#include "api/api.h"
#include "api/condition.h"
#include "api/gpus.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/ranks.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "plugin/job.h"
#include "plugin/spent.h"
#include "tool/clock.h"
#include "tool/file.h"
#include "tool/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WATCHES_MAX 16
#define ROLE_LABEL  "torchrun.ai/role"
#define PARTS_DEEP  4 /* a Job in a JobSet in a TrainJob */
#define METRIC      "muster_job_gpu_seconds_total"
#define QUEUES_MAX  1000 /* a job may name any queue, also one that never was */
#define QUEUE_OTHER "(other)"

/* What a pod is to its job, or all of its pods. */
struct pod_share {
    size_t bound; /* has a node */
    size_t running;
    int64_t spare_gpus; /* waits to take the place of another, with so many GPUs */
};

/* A job that is not over, or the owner of pods that nobody knows yet. */
struct entry {
    struct arena arena; /* of the strings */
    struct spent spent;
    struct str phase;
    const struct kind *kind; /* NULL: not known yet */
    int64_t gpus;
    size_t pods;              /* places of them that are known */
    struct pod_share all;     /* of these */
    struct pod_place *leader; /* the pod whose rank 0 counts; NULL: none yet */
    bool seen;                /* the job itself, since the start */
    bool in_set;              /* its JobSet says how it is, and its GPUs */
    bool restarting;          /* as that says */
    bool hung;
    int64_t failed_hung_ms;
    int64_t created_ms;
    bool written; /* it has a line */
};

struct pod_place {
    struct str uid; /* of the pod; behind this struct */
    struct entry *entry;
    struct pod_share share;
    char bytes[];
};

/* A Job of a JobSet, or the JobSet of a TrainJob: what happens there is counted above. */
struct part {
    struct str uid;   /* behind this struct, as the next */
    struct str owner; /* its uid */
    char bytes[];
};

/* What jobs of a queue that are over have spent since the start. */
struct queue_sums {
    struct account_sums sums;
    struct str key; /* behind this struct: its namespace, a slash and its name */
    char bytes[];
};

struct accounts {
    struct api *api;
    struct api_watch *watches[WATCHES_MAX];
    size_t watch_count;
    size_t synced;
    const struct log *log;
    const char *path;   /* the caller's */
    struct map entries; /* uid -> entry */
    struct map pods;    /* uid -> pod_place */
    struct map parts;   /* uid -> part */
    struct map over;    /* uid of jobs that have their last line -> itself */
    struct map queues;  /* NAMESPACE/NAME -> queue_sums */
    struct map told;    /* the same: the highest that metrics have said */
    struct arena arena; /* of `over` */
    int64_t started_ms;
    size_t shorten_at; /* bytes of the file; 0: not yet */
};

static struct queue_sums *queue_get(struct map *queues, struct str key)
{
    struct queue_sums *queue = map_get(queues, key);

    if (!queue && queues->count >= QUEUES_MAX) {
        key = STR("/" QUEUE_OTHER);
        queue = map_get(queues, key);
    }
    if (!queue) {
        queue = mem_alloc(sizeof(*queue) + key.len + 1);
        memcpy(queue->bytes, key.p, key.len);
        queue->key = (struct str){queue->bytes, key.len};
        (void)map_set(queues, queue->key, queue);
    }
    return queue;
}

/* Of each namespace its own: everybody may have a queue `default`. */
static struct queue_sums *queue_of(struct map *queues, const struct spent *spent)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str ns = spent_queue_ns(spent);

    return queue_get(queues,
                     str_printf(&arena, STR_FMT "/" STR_FMT, STR_ARG(ns), STR_ARG(spent->queue)));
}

static struct entry *entry_get(struct accounts *accounts, struct str uid)
{
    struct entry *entry = map_get(&accounts->entries, uid);

    if (!entry) {
        entry = MEM_NEW(struct entry);
        entry->spent.uid = str_dup(&entry->arena, uid);
        (void)map_set(&accounts->entries, entry->spent.uid, entry);
    }
    return entry;
}

static void entry_free(struct entry *entry)
{
    arena_done(&entry->arena);
    mem_free(entry);
}

/* Strings of its own: what they were copied from goes. */
static void entry_take(struct entry *entry, const struct spent *from)
{
    struct arena *arena = &entry->arena;
    struct spent *spent = &entry->spent;

    spent->kind = str_dup(arena, from->kind);
    spent->ns = str_dup(arena, from->ns);
    spent->name = str_dup(arena, from->name);
    spent->queue = str_dup(arena, from->queue);
    spent->user = str_dup(arena, from->user);
    spent->labels = job_labels(arena, from->labels);
    for (size_t i = 0; i < from->node_count; i++)
        (void)spent_add_node(spent, str_dup(arena, from->nodes[i]));
}

static void entry_add_node(struct entry *entry, struct str node)
{
    if (spent_add_node(&entry->spent, node)) {
        struct str *last = &entry->spent.nodes[entry->spent.node_count - 1];
        *last = str_dup(&entry->arena, node);
    }
}

/* ---- the file ---- */

static void accounts_load(struct accounts *accounts)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str text = STR("");
    struct str line;

    if (file_read(&arena, accounts->path, &text, NULL) < 0)
        return;
    text = spent_trim(&arena, text);
    while (str_cut(&text, '\n', &line)) {
        struct spent spent;

        if (!spent_read(&arena, line, &spent))
            continue;
        if (spent.account.end_ms) {
            (void)map_set(&accounts->over, str_dup(&accounts->arena, spent.uid), accounts);
            continue;
        }
        struct entry *entry = entry_get(accounts, spent.uid);
        entry_take(entry, &spent);
        entry->spent.account = spent.account;
        entry->spent.run = spent.run;
        entry->spent.observed = spent.observed;
        memcpy(entry->spent.why, spent.why, sizeof(spent.why));
        entry->written = true;
    }
}

/* Too long a file: the last line of each, and those of jobs that are not over for certain. Where
 * these alone are many, the next time is when there is as much again. */
static void accounts_shorten(struct accounts *accounts)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf out = {0};
    struct str text = STR("");

    if (file_read(&arena, accounts->path, &text, NULL) < 0)
        return;
    buf_add(&out, spent_trim(&arena, text));
    MAP_FOREACH(&accounts->entries, item) {
        const struct entry *entry = item->value;

        if (entry->spent.account.count)
            spent_write(&out, &entry->spent);
    }
    (void)file_replace(accounts->path, buf_str(&out), 0600, NULL);
    accounts->shorten_at = out.len * 2 > SPENT_BYTES_MAX ? out.len * 2 : SPENT_BYTES_MAX;
}

static void accounts_write(struct accounts *accounts, const struct spent *spent)
{
    _cleanup_(buf_done) struct buf line = {0};
    size_t limit = accounts->shorten_at ? accounts->shorten_at : SPENT_BYTES_MAX;
    struct stat st;

    spent_write(&line, spent);
    int fd = open(accounts->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ssize_t n = fd < 0 ? -1 : write(fd, line.p, line.len);
    if (n != (ssize_t)line.len)
        log_warn(accounts->log, "accounts.write", LOG_C("file", accounts->path),
                 LOG_C("error", n < 0 ? strerrordesc_np(errno) : "a part of the line was written"));
    bool is_long = fd >= 0 && fstat(fd, &st) == 0 && st.st_size > (off_t)limit;
    if (fd >= 0)
        (void)close(fd);
    if (is_long)
        accounts_shorten(accounts);
}

/* ---- what happens ---- */

static void entry_end(struct accounts *accounts, struct entry *entry, int64_t end_ms)
{
    struct account *account = &entry->spent.account;
    struct queue_sums *queue = queue_of(&accounts->queues, &entry->spent);
    int64_t last = account->count ? account->events[account->count - 1].at_ms : 0;

    account->end_ms = end_ms > last ? end_ms : last;
    account_add(account, accounts->started_ms, account->end_ms, &queue->sums);
    accounts_write(accounts, &entry->spent);
    (void)map_set(&accounts->over, str_dup(&accounts->arena, entry->spent.uid), accounts);
    MAP_FOREACH(&accounts->pods, item)
        if (((struct pod_place *)item->value)->entry == entry)
            mem_free(map_remove(&accounts->pods, item->key));
    (void)map_remove(&accounts->entries, entry->spent.uid);
    entry_free(entry);
}

/* Where no engine says it, it runs when all of its pods do that have a node; those of a batch Job,
 * which need not know of each other, one by one. */
static struct str entry_phase(const struct entry *entry)
{
    if (!entry->kind || !spent_is_by_pods(entry->kind) || entry->phase.len)
        return entry->phase;
    if (entry->restarting)
        return STR("Restarting");
    bool runs =
        entry->all.running && (entry->all.running == entry->all.bound || entry->kind == &kind_job);
    return runs ? STR("Running") : STR("");
}

/* Until everything that exists has been told, nobody knows which pods a job has. */
static void entry_look(struct accounts *accounts, struct entry *entry)
{
    struct account_seen seen = {.phase = entry_phase(entry),
                                .bound = entry->all.bound > 0,
                                .hung = entry->hung,
                                .failed_hung_ms = entry->failed_hung_ms,
                                .spare_gpus = entry->all.spare_gpus};

    if (accounts->synced < accounts->watch_count || !entry->seen)
        return;
    if (!account_take(&entry->spent.account, &entry->spent.run, &seen, entry->gpus,
                      clock_now_ms()) &&
        entry->written)
        return;
    entry->written = true;
    accounts_write(accounts, &entry->spent);
}

/* The owner of pods that are gone, of which nobody has told: jobs that are no more, for the most
 * part. Until all has been told it may still turn out to be one. */
static void entry_drop_unknown(struct accounts *accounts, struct entry *entry)
{
    if (accounts->synced < accounts->watch_count || entry->seen || entry->pods ||
        entry->spent.account.count)
        return;
    (void)map_remove(&accounts->entries, entry->spent.uid);
    entry_free(entry);
}

static void accounts_synced(struct accounts *accounts)
{
    if (++accounts->synced < accounts->watch_count)
        return;
    MAP_FOREACH(&accounts->entries, item) {
        struct entry *entry = item->value;

        /* Deleted while nobody watched; pods of others have no account. */
        if (!entry->seen && entry->spent.account.count)
            entry_end(accounts, entry, clock_now_ms());
        else if (!entry->seen)
            entry_drop_unknown(accounts, entry);
        else
            entry_look(accounts, entry);
    }
}

static void entry_know(struct entry *entry, const struct spent_state *state)
{
    entry->gpus = state->gpus;
    entry->hung = state->hung;
    entry->failed_hung_ms = state->failed_hung_ms;
}

static void entry_see(struct accounts *accounts,
                      struct entry *entry,
                      const struct object *object,
                      const struct json *job)
{
    struct spent_state state;
    struct spent seen = {0};

    spent_describe(&seen, object->kind, job);
    spent_state_read(object->kind, job, &state);
    if (!entry->seen)
        entry_take(entry, &seen);
    if (!entry->spent.account.count) {
        spent_from_status(&seen, job, &state, clock_now_ms());
        entry->spent.account = seen.account;
        entry->spent.account.end_ms = 0;
        if (spent_is_by_pods(object->kind) && !job_is_over(state.phase))
            entry->spent.account.count = 1; /* the rest is told by its pods */
    }
    entry->seen = true;
    entry->kind = object->kind;
    entry->created_ms = object->created_ms;
    if (!entry->in_set)
        entry_know(entry, &state);
    if (!str_eq(entry->phase, state.phase))
        entry->phase = str_dup(&entry->arena, state.phase);
    if (!job_is_over(state.phase)) {
        entry_look(accounts, entry);
        return;
    }
    /* A status has whole seconds; what has ended just now did so now. */
    if (!state.end_ms || state.end_ms / 1000 + 1 >= clock_now_ms() / 1000)
        state.end_ms = clock_now_ms();
    entry_end(accounts, entry, state.end_ms);
}

/* ---- parts ---- */

/* The uid of the job that this is a part of, or itself. */
static struct str job_of(const struct accounts *accounts, struct str uid)
{
    const struct part *part;

    for (int depth = 0; depth < PARTS_DEEP && (part = map_get(&accounts->parts, uid)); depth++)
        uid = part->owner;
    return uid;
}

/* Pods of it were told of before it was. */
static void entry_move(struct accounts *accounts, struct entry *from, struct entry *to)
{
    MAP_FOREACH(&accounts->pods, item) {
        struct pod_place *place = item->value;

        if (place->entry == from)
            place->entry = to;
    }
    to->pods += from->pods;
    to->all.bound += from->all.bound;
    to->all.running += from->all.running;
    to->all.spare_gpus += from->all.spare_gpus;
    for (size_t i = 0; i < from->spent.node_count; i++)
        entry_add_node(to, from->spent.nodes[i]);
    if (!to->spent.run.told)
        to->spent.run = from->spent.run;
    if (!to->leader)
        to->leader = from->leader;
    (void)map_remove(&accounts->entries, from->spent.uid);
    entry_free(from);
}

static void part_add(struct accounts *accounts, struct str uid, struct str owner)
{
    struct part *part = mem_alloc(sizeof(*part) + uid.len + owner.len + 1);

    memcpy(part->bytes, uid.p, uid.len);
    memcpy(part->bytes + uid.len, owner.p, owner.len);
    part->uid = (struct str){part->bytes, uid.len};
    part->owner = (struct str){part->bytes + uid.len, owner.len};
    (void)map_set(&accounts->parts, part->uid, part);
}

static void on_part(struct accounts *accounts, const struct api_change *change, struct str owner)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct object *object = change->object;
    struct spent_state state;

    if (change->event == API_DELETED) {
        mem_free(map_remove(&accounts->parts, object->uid));
        return;
    }
    if (!map_get(&accounts->parts, object->uid))
        part_add(accounts, object->uid, owner);
    struct str uid = job_of(accounts, object->uid);
    if (map_get(&accounts->over, uid))
        return;
    struct entry *entry = entry_get(accounts, uid);
    struct entry *own = map_get(&accounts->entries, object->uid);
    if (own && own != entry)
        entry_move(accounts, own, entry);
    if (object->kind == &kind_jobset) {
        spent_state_read(object->kind, object_json(object, &arena), &state);
        entry->in_set = true;
        entry->restarting = str_is(state.phase, "Restarting");
        entry_know(entry, &state);
    }
    entry_look(accounts, entry);
}

/* What owns it, if that is a job that is counted. */
static const struct object_owner *counted_owner(const struct object *object)
{
    const struct object_owner *owner = object_controller(object);

    return owner && spent_kind_of(owner->api_version, owner->kind) ? owner : NULL;
}

static void on_job(void *user, const struct api_change *change)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct accounts *accounts = user;
    const struct object *object = change->object;

    if (change->event == API_SYNCED)
        accounts_synced(accounts);
    if (!object || !object->uid.len || map_get(&accounts->over, object->uid))
        return;
    bool may_be_part = object->kind == &kind_job || object->kind == &kind_jobset;
    const struct object_owner *owner = may_be_part ? counted_owner(object) : NULL;
    if (owner) {
        on_part(accounts, change, owner->uid);
        return;
    }
    const struct json *job = object_json(object, &arena);
    if (!spent_is_counted(object->kind, job))
        return;
    struct entry *entry = entry_get(accounts, object->uid);
    entry_see(accounts, entry, object, job);
    if (change->event == API_DELETED && map_get(&accounts->entries, object->uid))
        entry_end(accounts, entry, clock_now_ms());
}

/* ---- pods ---- */

static void pod_set(struct accounts *accounts, struct pod_place *place, struct pod_share share)
{
    struct entry *entry = place->entry;
    struct pod_share before = place->share;

    if (before.bound == share.bound && before.running == share.running &&
        before.spare_gpus == share.spare_gpus)
        return;
    entry->all.bound += share.bound - before.bound;
    entry->all.running += share.running - before.running;
    entry->all.spare_gpus += share.spare_gpus - before.spare_gpus;
    place->share = share;
    entry_look(accounts, entry);
}

static void pod_gone(struct accounts *accounts, struct str uid, bool succeeded)
{
    struct pod_place *place = map_remove(&accounts->pods, uid);

    if (!place)
        return;
    struct entry *entry = place->entry;
    if (entry->leader == place) {
        entry->leader = NULL;
        if (succeeded)
            account_done(&entry->spent.account, &entry->spent.run, clock_now_ms());
    }
    pod_set(accounts, place, (struct pod_share){0});
    entry->pods--;
    entry_drop_unknown(accounts, entry);
    mem_free(place);
}

static struct pod_place *pod_add(struct accounts *accounts, struct str uid, struct str job)
{
    struct pod_place *place = mem_alloc(sizeof(*place) + uid.len + 1);

    memcpy(place->bytes, uid.p, uid.len);
    place->uid = (struct str){place->bytes, uid.len};
    place->entry = entry_get(accounts, job);
    place->entry->pods++;
    (void)map_set(&accounts->pods, place->uid, place);
    return place;
}

/* It has a node. A spare pod has GPUs there that do nothing, until it takes a place. */
static void pod_bound(struct accounts *accounts,
                      const struct object *pod,
                      const struct json *tree,
                      struct str job)
{
    struct pod_place *place = map_get(&accounts->pods, pod->uid);
    struct pod_share share = {0};

    if (!place)
        place = pod_add(accounts, pod->uid, job);
    if (str_is(object_label(pod, ROLE_LABEL), "spare")) {
        share.spare_gpus = gpus_of_pod(tree);
    } else {
        share.bound = 1;
        share.running = str_is(json_str_at(tree, "status.phase"), "Running");
        entry_add_node(place->entry, json_str_at(tree, "spec.nodeName"));
    }
    pod_set(accounts, place, share);
}

/* Whether what is told of its ranks counts. In a job whose pods may train each for itself, one of them
 * with a rank 0 does, until it ends. */
static bool pod_counts(struct accounts *accounts,
                       struct entry *entry,
                       struct str uid,
                       const struct rank_report *reports,
                       size_t count)
{
    struct pod_place *place = map_get(&accounts->pods, uid);
    bool first = false;

    for (size_t i = 0; i < count; i++)
        first = first || reports[i].rank == 0;
    if (first && !entry->leader)
        entry->leader = place;
    return place && (!first || entry->leader == place);
}

/* How far its ranks are. That of a pod which has ended came with it. */
static void pod_heard(struct accounts *accounts,
                      const struct object *pod,
                      struct str job,
                      bool is_alone)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct entry *entry = map_get(&accounts->entries, job);
    struct str text = object_annotation(pod, RANKS_ANNOTATION);

    if (!entry)
        return;
    if (spent_hear(&entry->spent, pod)) {
        entry->written = false;
        entry_look(accounts, entry);
    }
    if (!text.len)
        return;
    struct rank_report *reports = ARENA_ARRAY(&arena, struct rank_report, RANKS_MAX);
    size_t count = ranks_parse(&arena, text, reports);
    if (is_alone && !pod_counts(accounts, entry, pod->uid, reports, count))
        return;
    if (account_hear(&entry->spent.run, reports, count, entry->created_ms))
        entry_look(accounts, entry);
}

static void on_pod(void *user, const struct api_change *change)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct accounts *accounts = user;
    const struct object *pod = change->object;

    if (change->event == API_SYNCED)
        accounts_synced(accounts);
    const struct object_owner *owner = pod && pod->uid.len ? counted_owner(pod) : NULL;
    if (!owner || str_is(object_label(pod, ROLE_LABEL), "sync"))
        return;
    struct str job = job_of(accounts, owner->uid);
    if (map_get(&accounts->over, job))
        return;
    struct json *tree = object_json(pod, &arena);
    struct str phase = json_str_at(tree, "status.phase");
    bool ended =
        change->event == API_DELETED || str_is(phase, "Succeeded") || str_is(phase, "Failed");
    if (!ended && json_str_at(tree, "spec.nodeName").len)
        pod_bound(accounts, pod, tree, job);
    pod_heard(accounts, pod, job, str_is(owner->kind, kind_job.name));
    if (ended)
        pod_gone(accounts, pod->uid, str_is(phase, "Succeeded"));
}

/* ---- all of it ---- */

struct accounts *accounts_start(struct api *api, const char *path, const struct log *log)
{
    struct accounts *accounts = MEM_NEW(struct accounts);

    accounts->api = api;
    accounts->log = log;
    accounts->path = path;
    accounts->started_ms = clock_now_ms();
    accounts_load(accounts);
    for (size_t i = 0; spent_kind(i) && i + 1 < WATCHES_MAX; i++)
        accounts->watch_count++;
    accounts->watch_count++;
    for (size_t i = 0; i < accounts->watch_count; i++) {
        const struct kind *kind = i + 1 < accounts->watch_count ? spent_kind(i) : &kind_pod;
        accounts->watches[i] = api_watch(api, &(struct api_watch_request){.kind = kind},
                                         kind == &kind_pod ? on_pod : on_job, accounts);
    }
    return accounts;
}

void accounts_stop(struct accounts *accounts)
{
    if (!accounts)
        return;
    for (size_t i = 0; i < accounts->watch_count; i++)
        api_watch_stop(accounts->api, accounts->watches[i]);
    MAP_FOREACH(&accounts->pods, item)
        mem_free(item->value);
    MAP_FOREACH(&accounts->parts, item)
        mem_free(item->value);
    MAP_FOREACH(&accounts->entries, item)
        entry_free(item->value);
    MAP_FOREACH(&accounts->queues, item)
        mem_free(item->value);
    MAP_FOREACH(&accounts->told, item)
        mem_free(item->value);
    map_done(&accounts->told);
    map_done(&accounts->pods);
    map_done(&accounts->parts);
    map_done(&accounts->entries);
    map_done(&accounts->queues);
    map_done(&accounts->over);
    arena_done(&accounts->arena);
    mem_free(accounts);
}

void accounts_tell(const struct accounts *accounts, struct str uid, struct buf *out)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct entry *entry = uid.len ? map_get(&accounts->entries, uid) : NULL;
    struct str text = STR("");
    struct str line;

    if (entry && entry->spent.account.count) {
        spent_write(out, &entry->spent);
        return;
    }
    if (file_read(&arena, accounts->path, &text, NULL) < 0)
        return;
    if (!uid.len)
        buf_add(out, text);
    while (uid.len && str_cut(&text, '\n', &line))
        if (str_contains(line, uid)) {
            buf_add(out, line);
            buf_addc(out, '\n');
        }
}

/* What a job did is known up to a minute later, and then some training was none. A counter waits
 * until it has caught up; it never goes back. */
static int64_t metric_of(struct accounts *accounts, const struct queue_sums *queue, size_t state)
{
    int64_t *told_ms = &queue_get(&accounts->told, queue->key)->sums.gpu_ms[state];

    if (queue->sums.gpu_ms[state] > *told_ms)
        *told_ms = queue->sums.gpu_ms[state];
    return *told_ms;
}

void accounts_metrics(struct accounts *accounts, struct buf *out)
{
    struct map queues = {0};
    int64_t now_ms = clock_now_ms();

    if (!accounts)
        return;
    MAP_FOREACH(&accounts->queues, item)
        queue_get(&queues, item->key)->sums = ((struct queue_sums *)item->value)->sums;
    MAP_FOREACH(&accounts->entries, item) {
        const struct spent *spent = &((struct entry *)item->value)->spent;

        if (spent->account.count)
            account_add(&spent->account, accounts->started_ms, now_ms,
                        &queue_of(&queues, spent)->sums);
    }
    buf_add(out, STR("# HELP " METRIC " GPU seconds of jobs, by what they were spent on\n"
                     "# TYPE " METRIC " counter\n"));
    MAP_FOREACH(&queues, item) {
        const struct queue_sums *queue = item->value;
        size_t slash = str_find(queue->key, '/');

        for (size_t i = 0; i < ACCOUNT_STATES; i++) {
            buf_add(out, STR(METRIC "{queue_name=\""));
            buf_add_label(out, str_sub(queue->key, slash + 1, queue->key.len));
            if (slash) {
                buf_add(out, STR("\",namespace=\""));
                buf_add_label(out, str_sub(queue->key, 0, slash));
            }
            int64_t ms = metric_of(accounts, queue, i);
            buf_addf(out, "\",state=\"%s\"} %lld.%03lld\n", account_words[i],
                     (long long)(ms / 1000), (long long)(ms % 1000));
        }
        mem_free(item->value);
    }
    map_done(&queues);
}
