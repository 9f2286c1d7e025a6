#include "cmd/accounts.h"

#include "api/account.h"
#include "api/account_run.h"
#include "api/api.h"
#include "api/condition.h"
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

#define WATCHES_MAX 12
#define ROLE_LABEL  "torchrun.ai/role"
#define METRIC      "muster_job_gpu_seconds_total"
#define QUEUES_MAX  1000 /* a job may name any queue, also one that never was */
#define QUEUE_OTHER "(other)"

/* A job that is not over, or the owner of pods that nobody knows yet. */
struct entry {
    struct arena arena; /* of the strings */
    struct spent spent;
    struct str phase;
    int64_t gpus;
    size_t bound; /* pods that have a node */
    bool seen;    /* the job itself, since the start */
    bool hung;
    int64_t failed_hung_ms;
    int64_t created_ms;
    bool written; /* it has a line */
};

struct pod_place {
    struct str uid; /* of the pod; behind this struct */
    struct entry *entry;
    char bytes[];
};

/* What jobs of a queue that are over have spent since the start. */
struct queue_sums {
    struct account_sums sums;
    struct str name; /* behind this struct */
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
    struct map over;    /* uid of jobs that have their last line -> itself */
    struct map queues;  /* name -> queue_sums */
    struct map told;    /* name -> queue_sums: the highest that metrics have said */
    struct arena arena; /* of `over` */
    int64_t started_ms;
    size_t shorten_at; /* bytes of the file; 0: not yet */
};

static struct queue_sums *queue_get(struct map *queues, struct str name)
{
    struct queue_sums *queue = map_get(queues, name);

    if (!queue && queues->count >= QUEUES_MAX) {
        name = STR(QUEUE_OTHER);
        queue = map_get(queues, name);
    }
    if (!queue) {
        queue = mem_alloc(sizeof(*queue) + name.len + 1);
        memcpy(queue->bytes, name.p, name.len);
        queue->name = (struct str){queue->bytes, name.len};
        (void)map_set(queues, queue->name, queue);
    }
    return queue;
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
    struct queue_sums *queue = queue_get(&accounts->queues, entry->spent.queue);
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

/* Until everything that exists has been told, nobody knows which pods a job has. */
static void entry_look(struct accounts *accounts, struct entry *entry)
{
    struct account_seen seen = {.phase = entry->phase,
                                .bound = entry->bound > 0,
                                .hung = entry->hung,
                                .failed_hung_ms = entry->failed_hung_ms};

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
    if (accounts->synced < accounts->watch_count || entry->seen || entry->bound ||
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

static void entry_see(struct accounts *accounts,
                      struct entry *entry,
                      const struct object *object,
                      const struct json *job)
{
    struct str phase = json_str_at(job, "status.phase");
    struct spent seen = {0};
    int64_t end_ms = 0;

    spent_describe(&seen, object->kind, job);
    if (!entry->seen)
        entry_take(entry, &seen);
    if (!entry->spent.account.count) {
        spent_from_status(&seen, job, clock_now_ms());
        entry->spent.account = seen.account;
        entry->spent.account.end_ms = 0;
    }
    entry->seen = true;
    entry->gpus = spent_gpus(job);
    entry->hung = condition_is_true(json_get(job, "status"), "Hung");
    entry->created_ms = object->created_ms;
    if (!str_is(json_str_at(job, "status.failure.reason"), "Hung") ||
        !time_parse(json_str_at(job, "status.failure.time"), &entry->failed_hung_ms))
        entry->failed_hung_ms = 0;
    if (!str_eq(entry->phase, phase))
        entry->phase = str_dup(&entry->arena, phase);
    if (!job_is_over(phase)) {
        entry_look(accounts, entry);
        return;
    }
    /* A status has whole seconds; what has ended just now did so now. */
    if (!time_parse(json_str_at(job, "status.completionTime"), &end_ms) ||
        end_ms / 1000 + 1 >= clock_now_ms() / 1000)
        end_ms = clock_now_ms();
    entry_end(accounts, entry, end_ms);
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
    struct entry *entry = entry_get(accounts, object->uid);
    entry_see(accounts, entry, object, object_json(object, &arena));
    if (change->event == API_DELETED && map_get(&accounts->entries, object->uid))
        entry_end(accounts, entry, clock_now_ms());
}

/* ---- pods ---- */

static void pod_gone(struct accounts *accounts, struct str uid)
{
    struct pod_place *place = map_remove(&accounts->pods, uid);

    if (!place)
        return;
    place->entry->bound--;
    entry_look(accounts, place->entry);
    entry_drop_unknown(accounts, place->entry);
    mem_free(place);
}

static void pod_bound(struct accounts *accounts,
                      const struct object *pod,
                      struct str owner,
                      struct str node)
{
    struct pod_place *place = mem_alloc(sizeof(*place) + pod->uid.len + 1);
    struct entry *entry = entry_get(accounts, owner);

    memcpy(place->bytes, pod->uid.p, pod->uid.len);
    place->uid = (struct str){place->bytes, pod->uid.len};
    place->entry = entry;
    (void)map_set(&accounts->pods, place->uid, place);
    entry->bound++;
    if (spent_add_node(&entry->spent, node)) {
        struct str *last = &entry->spent.nodes[entry->spent.node_count - 1];
        *last = str_dup(&entry->arena, node);
    }
    entry_look(accounts, entry);
}

/* How far its ranks are. That of a pod which has ended came with it. */
static void pod_heard(struct accounts *accounts, const struct object *pod, struct str owner)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct entry *entry = map_get(&accounts->entries, owner);
    struct str text = object_annotation(pod, RANKS_ANNOTATION);

    if (!entry || !text.len)
        return;
    struct rank_report *reports = ARENA_ARRAY(&arena, struct rank_report, RANKS_MAX);
    size_t count = ranks_parse(&arena, text, reports);
    if (account_hear(&entry->spent.run, reports, count, entry->created_ms))
        entry_look(accounts, entry);
}

static bool is_counted(const struct object_owner *owner)
{
    for (size_t i = 0; spent_kind(i); i++)
        if (str_is(owner->kind, spent_kind(i)->name))
            return true;
    return false;
}

static void on_pod(void *user, const struct api_change *change)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct accounts *accounts = user;
    const struct object *pod = change->object;

    if (change->event == API_SYNCED)
        accounts_synced(accounts);
    if (!pod || !pod->uid.len)
        return;
    const struct object_owner *owner = object_controller(pod);
    if (!owner || !is_counted(owner) || map_get(&accounts->over, owner->uid) ||
        str_is(object_label(pod, ROLE_LABEL), "sync") ||
        str_is(object_label(pod, ROLE_LABEL), "spare")) /* until it takes a place */
        return;
    struct json *tree = object_json(pod, &arena);
    struct str node = json_str_at(tree, "spec.nodeName");
    struct str phase = json_str_at(tree, "status.phase");
    bool ended =
        change->event == API_DELETED || str_is(phase, "Succeeded") || str_is(phase, "Failed");
    if (!ended && node.len && !map_get(&accounts->pods, pod->uid))
        pod_bound(accounts, pod, owner->uid, node);
    pod_heard(accounts, pod, owner->uid);
    if (ended)
        pod_gone(accounts, pod->uid);
}

/* ---- all of it ---- */

struct accounts *accounts_start(struct api *api, const char *path, const struct log *log)
{
    struct accounts *accounts = MEM_NEW(struct accounts);
    const struct kind *kind;

    accounts->api = api;
    accounts->log = log;
    accounts->path = path;
    accounts->started_ms = clock_now_ms();
    accounts_load(accounts);
    for (size_t i = 0; (kind = spent_kind(i)) && i + 1 < WATCHES_MAX; i++)
        accounts->watch_count++;
    accounts->watch_count++;
    for (size_t i = 0; i < accounts->watch_count; i++) {
        kind = i + 1 < accounts->watch_count ? spent_kind(i) : &kind_pod;
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
    MAP_FOREACH(&accounts->entries, item)
        entry_free(item->value);
    MAP_FOREACH(&accounts->queues, item)
        mem_free(item->value);
    MAP_FOREACH(&accounts->told, item)
        mem_free(item->value);
    map_done(&accounts->told);
    map_done(&accounts->pods);
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
    int64_t *told_ms = &queue_get(&accounts->told, queue->name)->sums.gpu_ms[state];

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
                        &queue_get(&queues, spent->queue)->sums);
    }
    buf_add(out, STR("# HELP " METRIC " GPU seconds of jobs, by what they were spent on\n"
                     "# TYPE " METRIC " counter\n"));
    MAP_FOREACH(&queues, item) {
        const struct queue_sums *queue = item->value;

        for (size_t i = 0; i < ACCOUNT_STATES; i++) {
            buf_add(out, STR(METRIC "{queue_name=\""));
            buf_add_label(out, queue->name);
            int64_t ms = metric_of(accounts, queue, i);
            buf_addf(out, "\",state=\"%s\"} %lld.%03lld\n", account_words[i],
                     (long long)(ms / 1000), (long long)(ms % 1000));
        }
        mem_free(item->value);
    }
    map_done(&queues);
}
