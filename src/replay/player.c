#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "replay/plan_hash.h"
#include "replay/policy.h"
#include "replay/recording.h"
#include "sched/policy.h"
#include "sched/sched.h"
#include "sched/spec.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The way in: a line becomes a call; recording.h. */
struct player {
    struct player_options options;
    struct player_result result;
    struct kinds *kinds;
    struct arena head; /* the settings, whose strings the cores keep copies of */
    struct arena line; /* of one line */
    struct sched *sched;
    struct sched *other; /* NULL: none */
    size_t lines;
};

struct player *player_new(const struct player_options *options)
{
    struct player *player = MEM_NEW(struct player);

    player->options = *options;
    player->kinds = kinds_new();
    return player;
}

void player_free(struct player *player)
{
    if (!player)
        return;
    sched_free(player->sched);
    sched_free(player->other);
    kinds_free(player->kinds);
    arena_done(&player->head);
    arena_done(&player->line);
    mem_free(player);
}

void player_result(const struct player *player, struct player_result *ret)
{
    *ret = player->result;
}

/* ---- settings ---- */
/* What another policy is, as far as the core has it. */
static void policy_override(const struct replay_policy *policy, struct sched_policy *to)
{
    to->gpu_strategy = to->cpu_strategy = policy->strategy;
}

static int read_head(struct player *player, const struct json *line, struct err *err)
{
    const struct json *settings = json_get(line, "settings");
    const struct replay_policy *policy = player->options.other;
    struct sched_config config;
    int r = 0;

    if (json_i64_or(json_get(line, "muster"), 0) != RECORDING_VERSION)
        return err_set(err, -EINVAL, "it is not a recording, or one of another version");
    sched_config_default(&config);
    r = policy_read_config(settings, &config, err);
    if (r < 0)
        return r;
    player->sched = sched_new(&config);
    r = policy_read_pools(settings, player->sched, err);
    if (r < 0 || !policy)
        return r;
    config.quirks = policy->mimic ? SCHED_QUIRKS_ALL : config.quirks;
    config.score = policy->score;
    policy_override(policy, &config.policy);
    player->other = sched_new(&config);
    return 0;
}

/* ---- inputs ---- */
static struct str list_str(const struct json *list, size_t index)
{
    return json_str(json_index(list, index));
}

static int read_object(struct player *player,
                       const struct json *from,
                       enum sched_change change,
                       struct err *err)
{
    const struct kind *kind = kinds_by_name(player->kinds, json_str(json_get(from, "apiVersion")),
                                            json_str(json_get(from, "kind")));
    struct object *object = NULL;
    int r = 0;

    if (!kind)
        return err_set(err, -EINVAL, "kind \"" STR_FMT "\" is not known",
                       STR_ARG(json_str(json_get(from, "kind"))));
    r = object_new(kind, json_text(&player->line, from), &object, err);
    if (r < 0)
        return r;
    (void)sched_observe(player->sched, change, object, NULL);
    if (player->other)
        (void)sched_observe(player->other, change, object, NULL);
    object_unref(object);
    return 0;
}

static void read_pod(struct player *player, struct sched *to, const struct json *from)
{
    const struct json *labels = json_get(from, "labels");
    struct sched_label *read =
        ARENA_ARRAY(&player->line, struct sched_label, json_count(labels) + 1);
    int64_t phase = json_i64_or(json_get(from, "phase"), 0);
    struct sched_pod pod = {
        .ns = json_str(json_get(from, "ns")),
        .name = json_str(json_get(from, "name")),
        .uid = json_str(json_get(from, "uid")),
        .group = json_str(json_get(from, "group")),
        .scheduler = json_str(json_get(from, "scheduler")),
        .node = json_str(json_get(from, "node")),
        .phase = (enum sched_phase)phase,
        .created_ms = json_i64_or(json_get(from, "created"), 0),
        .cpu_milli = json_i64_or(json_get(from, "cpu"), 0),
        .memory_bytes = json_i64_or(json_get(from, "memory"), 0),
        .gpus = json_i64_or(json_get(from, "gpus"), 0),
        .started_ms = json_i64_or(json_get(from, "started"), 0),
        .deleted_ms = json_i64_or(json_get(from, "deleted"), 0),
        .labels = read,
    };

    JSON_FOREACH(labels, label)
        read[pod.label_count++] = (struct sched_label){json_key(label), json_str(label)};
    sched_put_pod(to, &pod);
}

static int read_policy(struct player *player,
                       struct sched *to,
                       const struct json *list,
                       struct err *err)
{
    const struct json *from = json_index(list, 1);
    struct sched_policy policy = sched_config(to)->policy;
    int r = json_is(from, JSON_OBJECT) ? policy_read_one(from, &policy, err) : 0;

    if (r < 0)
        return r;
    if (to == player->other)
        policy_override(player->options.other, &policy);
    sched_set_policy(to, list_str(list, 0), json_is(from, JSON_OBJECT) ? &policy : NULL);
    return 0;
}

static void read_usage(struct sched *to, const struct json *list)
{
    double usage[SCHED_RESOURCES];

    for (size_t i = 0; i < SCHED_RESOURCES; i++) {
        struct str hex = list_str(list, i + 1);
        uint64_t bits = 0;

        for (size_t c = 0; c < hex.len; c++)
            bits = bits << 4 | (uint64_t)(hex.p[c] <= '9' ? hex.p[c] - '0' : hex.p[c] - 'a' + 10);
        memcpy(&usage[i], &bits, sizeof(bits));
    }
    sched_set_usage(to, list_str(list, 0), usage);
}

static int read_input(struct player *player,
                      struct sched *to,
                      struct str key,
                      const struct json *of,
                      struct err *err)
{
    /* Of inputs that are about one pod; an older recording has no uid. */
    const struct sched_pod_ref pod = {list_str(of, 0), list_str(of, 1), list_str(of, 2)};

    if (str_is(key, "pod"))
        read_pod(player, to, of);
    else if (str_is(key, "podGone"))
        sched_drop_pod(to, list_str(of, 0), list_str(of, 1));
    else if (str_is(key, "bindFailed"))
        sched_bind_failed(to, &pod);
    else if (str_is(key, "evictFailed"))
        sched_evict_failed(to, &pod);
    else if (str_is(key, "evictRefused"))
        sched_evict_refused(to, &pod, json_i64_or(json_index(of, 3), 0));
    else if (str_is(key, "bindUndone"))
        sched_bind_undone(to, &pod);
    else if (str_is(key, "written"))
        sched_written(to, list_str(of, 0), list_str(of, 1), json_bool_or(json_index(of, 2), false),
                      json_i64_or(json_index(of, 3), 0));
    else if (str_is(key, "share"))
        sched_share_opened(to, list_str(of, 0), json_bool_or(json_index(of, 1), false),
                           json_i64_or(json_index(of, 2), 0));
    else if (str_is(key, "policy"))
        return read_policy(player, to, of, err);
    else if (str_is(key, "names"))
        sched_set_names(to, list_str(of, 0), list_str(of, 1), list_str(of, 2));
    else if (str_is(key, "usage"))
        read_usage(to, of);
    else if (str_is(key, "forget"))
        sched_forget_usage(to, json_str(of));
    else
        return err_set(err, -EINVAL, "\"" STR_FMT "\" is none of its members", STR_ARG(key));
    return 0;
}

/* ---- cycles ---- */
static const struct sched_bind *bind_of(const struct sched_plan *plan,
                                        const struct sched_pod_ref *pod)
{
    for (size_t i = 0; i < plan->bind_count; i++)
        if (str_eq(plan->binds[i].pod.name, pod->name) && str_eq(plan->binds[i].pod.ns, pod->ns))
            return &plan->binds[i];
    return NULL;
}

static bool evicts(const struct sched_plan *plan, const struct sched_pod_ref *pod)
{
    for (size_t i = 0; i < plan->evict_count; i++)
        if (str_eq(plan->evicts[i].pod.name, pod->name) && str_eq(plan->evicts[i].pod.ns, pod->ns))
            return true;
    return false;
}

static void differ(struct player *player,
                   int64_t now_ms,
                   const struct sched_pod_ref *pod,
                   struct str ours,
                   struct str theirs)
{
    player->result.differences++;
    if (player->options.differs)
        player->options.differs(player->options.user, now_ms,
                                str_printf(&player->line,
                                           "pod " STR_FMT "/" STR_FMT ": " STR_FMT "; %s: " STR_FMT,
                                           STR_ARG(pod->ns), STR_ARG(pod->name), STR_ARG(ours),
                                           player->options.other->name, STR_ARG(theirs)));
}

static struct str bound_words(struct player *player, const struct sched_bind *bind)
{
    return bind ? str_printf(&player->line, "goes to node " STR_FMT, STR_ARG(bind->node))
                : STR("waits");
}

/* Says where the other plan is not ours, and takes back what it decided alone. */
static void compare(struct player *player,
                    int64_t now_ms,
                    const struct sched_plan *ours,
                    const struct sched_plan *theirs)
{
    for (size_t i = 0; i < ours->bind_count; i++) {
        const struct sched_bind *mine = &ours->binds[i];
        const struct sched_bind *other = bind_of(theirs, &mine->pod);

        if (!other || !str_eq(other->node, mine->node))
            differ(player, now_ms, &mine->pod, bound_words(player, mine),
                   bound_words(player, other));
    }
    for (size_t i = 0; i < theirs->bind_count; i++) {
        const struct sched_bind *other = &theirs->binds[i];
        const struct sched_bind *mine = bind_of(ours, &other->pod);

        if (!mine)
            differ(player, now_ms, &other->pod, STR("waits"), bound_words(player, other));
        if (!mine || !str_eq(other->node, mine->node))
            sched_bind_failed(player->other, &other->pod);
    }
    for (size_t i = 0; i < ours->evict_count; i++)
        if (!evicts(theirs, &ours->evicts[i].pod))
            differ(player, now_ms, &ours->evicts[i].pod, STR("is evicted"), STR("stays"));
    for (size_t i = 0; i < theirs->evict_count; i++)
        if (!evicts(ours, &theirs->evicts[i].pod)) {
            differ(player, now_ms, &theirs->evicts[i].pod, STR("stays"), STR("is evicted"));
            sched_evict_failed(player->other, &theirs->evicts[i].pod);
        }
}

static void play_cycle(struct player *player, const struct json *line)
{
    int64_t now_ms = json_i64_or(json_get(line, "cycle"), 0);
    struct sched_plan plan;
    struct sched_plan other;

    sched_cycle(player->sched, now_ms, &player->line, &plan);
    uint64_t hash = plan_hash(&plan);
    struct str text = str_printf(&player->line, "%016llx", (unsigned long long)hash);
    player->result.cycles++;
    player->result.binds += plan.bind_count;
    player->result.evicts += plan.evict_count;
    player->result.hash = str_hash(text, player->result.hash + 1);
    if (!str_eq(text, json_str(json_get(line, "plan")))) {
        player->result.wrong++;
        if (!player->result.wrong_line)
            player->result.wrong_line = player->lines;
    }
    if (!player->other)
        return;
    sched_cycle(player->other, now_ms, &player->line, &other);
    compare(player, now_ms, &plan, &other);
}

static int play_line(struct player *player, const struct json *line, struct err *err)
{
    if (!player->sched)
        return read_head(player, line, err);
    if (json_get(line, "cycle")) {
        play_cycle(player, line);
        return 0;
    }
    player->result.events++;
    if (json_get(line, "put"))
        return read_object(player, json_get(line, "put"), SCHED_PUT, err);
    if (json_get(line, "drop"))
        return read_object(player, json_get(line, "drop"), SCHED_DROP, err);
    JSON_FOREACH(line, member) {
        int r = read_input(player, player->sched, json_key(member), member, err);

        if (r == 0 && player->other)
            r = read_input(player, player->other, json_key(member), member, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int player_line(struct player *player, struct str line, struct err *err)
{
    struct json *tree = NULL;
    int r = 0;

    player->lines++;
    arena_reset(&player->line);
    r = json_parse(player->sched ? &player->line : &player->head, line, &tree, err);
    if (r == 0)
        r = play_line(player, tree, err);
    return r < 0 ? err_wrap(err, r, "line %zu", player->lines) : 0;
}
