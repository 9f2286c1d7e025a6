#include "api/keys.h"

#include "api/admit.h"
#include "api/gpu.h"
#include "api/kind.h"
#include "api/scheduler_name.h"
#include "api/schema.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum map {
    NOTE = 1,
    LABEL = 2,
    BOTH = 3,
};

/* Of ours and KAI Scheduler's. A test holds every key of the sources against these. */
static const struct own {
    const char *key; /* with a star behind it: what begins so */
    enum map map;
    const char *words; /* what it can say; "#": a number; NULL: its reader says what is wrong */
} own[] = {
    {"kai.scheduler/batch-min-member", NOTE, NULL},
    {"kai.scheduler/ignore-workload-api", NOTE, "true, false"},
    {"kai.scheduler/last-eviction-timestamp", NOTE, NULL},
    {"kai.scheduler/last-start-timestamp", NOTE, NULL},
    {"kai.scheduler/node-pool", LABEL, NULL},
    {"kai.scheduler/numa-placement-*", NOTE, NULL},
    {"kai.scheduler/preemptibility", BOTH, NULL},
    {"kai.scheduler/preemption-delay", NOTE, NULL},
    {"kai.scheduler/queue", LABEL, NULL},
    {"kai.scheduler/segment-*", NOTE, NULL},
    {"kai.scheduler/skip-podgrouper", NOTE, "true, false"},
    {"kai.scheduler/stale-podgroup-timestamp", NOTE, NULL},
    {"kai.scheduler/staleness-grace-period", NOTE, NULL},
    {"kai.scheduler/subgroup-name", LABEL, NULL},
    {"kai.scheduler/task-priority", LABEL, "#"},
    {"kai.scheduler/top-owner-metadata", NOTE, NULL},
    {"kai.scheduler/topology", NOTE, NULL},
    {"kai.scheduler/topology-preferred-placement", NOTE, NULL},
    {"kai.scheduler/topology-required-placement", NOTE, NULL},
    {"muster.dev/beyond-quota", NOTE, NULL},
    {"muster.dev/bytes-max", NOTE, NULL},
    {"muster.dev/disruption-mode", NOTE, "all, single"},
    {"muster.dev/end", NOTE, NULL},
    {"muster.dev/expected-run-time", NOTE, NULL},
    {"muster.dev/gpu-*", NOTE, NULL},
    {"muster.dev/held-until", NOTE, NULL},
    {"muster.dev/hollow", BOTH, NULL},
    {"muster.dev/home-*", NOTE, NULL},
    {"muster.dev/learned", NOTE, NULL},
    {"muster.dev/made-for", BOTH, NULL},
    {"muster.dev/max-run-time", NOTE, NULL},
    {"muster.dev/max-run-time-reached", NOTE, NULL},
    {"muster.dev/may-be-suspended", NOTE, NULL},
    {"muster.dev/memory", NOTE, NULL},
    {"muster.dev/observe", NOTE, "off, on"},
    {"muster.dev/on-hang", NOTE, NULL},
    {"muster.dev/on-node-lost", NOTE, NULL},
    {"muster.dev/on-preemption", NOTE, NULL},
    {"muster.dev/on-suspicion", NOTE, NULL},
    {"muster.dev/rack", LABEL, NULL},
    {"muster.dev/ranks", NOTE, NULL},
    {"muster.dev/refused", NOTE, NULL},
    {"muster.dev/rendezvous", NOTE, NULL},
    {"muster.dev/requeue-after-max-run-time", NOTE, "true, false"},
    {"muster.dev/restart-hold", NOTE, NULL},
    {"muster.dev/restart-in-place", NOTE, NULL},
    {"muster.dev/restart-mode", NOTE, NULL},
    {"muster.dev/results", NOTE, NULL},
    {"muster.dev/resumed-at", NOTE, NULL},
    {"muster.dev/self-test", BOTH, NULL},
    {"muster.dev/sim", BOTH, NULL},
    {"muster.dev/stand-in", LABEL, NULL},
    {"muster.dev/submitted-by", NOTE, NULL},
    {"muster.dev/suspect*", BOTH, NULL},
    {"muster.dev/suspend", BOTH, NULL},
    {"muster.dev/suspend-unused-*", NOTE, NULL},
    {"muster.dev/suspended-with-array", NOTE, NULL},
    {"muster.dev/warm-processes", NOTE, NULL},
    {"run.ai/gpu.memory", LABEL, NULL},
    {"run.ai/reserve_for_gpu_index", NOTE, NULL},
    {"runai/queue", LABEL, NULL},
    {"runai/shared-gpu-configmap", NOTE, NULL},
    {"torchrun.ai/array*", BOTH, NULL},
    {"torchrun.ai/generation", BOTH, NULL},
    {"torchrun.ai/gpu-devices", NOTE, NULL},
    {"torchrun.ai/gpu-memory-enforced", NOTE, "true, false"},
    {"torchrun.ai/gpu-memory-limit", NOTE, NULL},
    {"torchrun.ai/gpu-portion", NOTE, NULL},
    {"torchrun.ai/gpu-type", LABEL, NULL},
    {"torchrun.ai/index", LABEL, NULL},
    {"torchrun.ai/job-*", LABEL, NULL},
    {"torchrun.ai/jobqueue*", LABEL, NULL},
    {"torchrun.ai/managed-by", LABEL, NULL},
    {"torchrun.ai/min-pods", NOTE, "#"},
    {"torchrun.ai/person*", BOTH, NULL},
    {"torchrun.ai/queue*", LABEL, NULL},
    {"torchrun.ai/refusals-left-out", NOTE, NULL},
    {"torchrun.ai/restart-scope", NOTE, "pod, gang"},
    {"torchrun.ai/role", LABEL, NULL},
    {"torchrun.ai/size", NOTE, NULL},
    {"torchrun.ai/type", LABEL, NULL},
    {"torchrun.ai/workspace*", BOTH, NULL},
};

/* The first letters of them. */
static const char *const prefixes[] = {"kai.scheduler/", "muster.dev/", "run.ai/", "runai/",
                                       "torchrun.ai/"};

/* Read on pods alone, and without a prefix. */
static const struct own of_pods[] = {
    {GPU_ANNOTATION_FRACTION, NOTE, NULL},         {GPU_ANNOTATION_FRACTION_MEMORY, NOTE, NULL},
    {GPU_ANNOTATION_FRACTION_DEVICES, NOTE, NULL}, {GPU_ANNOTATION_FRACTION_CONTAINER, NOTE, NULL},
    {GPU_ANNOTATION_MPS, NOTE, "true, false"},
};

/* What other programs act upon, and a kind that they bring along. */
static const struct other {
    const char *key;
    const char *version;
    const char *kind;
    const char *name;
} others[] = {
    {"kueue.x-k8s.io/*", "kueue.x-k8s.io/v1beta1", "LocalQueue", "Kueue"},
    {"scheduling.volcano.sh/*", "scheduling.volcano.sh/v1beta1", "Queue", "Volcano"},
    {"volcano.sh/*", "scheduling.volcano.sh/v1beta1", "Queue", "Volcano"},
    {"scheduling.k8s.io/group-name", "scheduling.volcano.sh/v1beta1", "PodGroup", "Volcano"},
    {"scheduling.x-k8s.io/*", "scheduling.x-k8s.io/v1alpha1", "PodGroup", "coscheduling plugin"},
    {"yunikorn.apache.org/*", "", "", "YuniKorn"},
};

/* What Kubernetes read once; in its own words. */
static const struct {
    const char *key;
    const char *words;
} dead[] = {
    {"container.apparmor.security.beta.kubernetes.io/*",
     "deprecated since v1.30; use the \"appArmorProfile\" field instead"},
    {"container.seccomp.security.alpha.kubernetes.io/*",
     "non-functional in v1.27+; use the \"seccompProfile\" field instead"},
    {"scheduler.alpha.kubernetes.io/critical-pod",
     "non-functional in v1.16+; use the \"priorityClassName\" field instead"},
    {"seccomp.security.alpha.kubernetes.io/pod",
     "non-functional in v1.27+; use the \"seccompProfile\" field instead"},
    {"security.alpha.kubernetes.io/*",
     "non-functional in v1.11+; use the \"sysctls\" field instead"},
};

struct walk {
    struct admit *admit;
    const struct kinds *kinds;
};

static bool is_key(const char *wanted, struct str key)
{
    struct str text = str_from(wanted);

    return str_ends(text, STR("*")) ? str_starts(key, str_sub(text, 0, text.len - 1))
                                    : str_eq(text, key);
}

static void warn(const struct walk *walk,
                 const struct schema_path *path,
                 const struct json *entry,
                 struct str words)
{
    admit_warn(walk->admit, str_printf(walk->admit->arena, STR_FMT "[" STR_FMT "]: " STR_FMT,
                                       STR_ARG(schema_path_text(walk->admit->arena, path)),
                                       STR_ARG(json_key(entry)), STR_ARG(words)));
}

/* ---- ours ---- */

static bool can_say(const char *words, struct str value)
{
    struct str left = str_from(words), word;
    int64_t number;

    if (str_is(left, "#"))
        return str_to_i64(value, &number);
    while (left.len) {
        word = str_sub(left, 0, str_find(left, ','));
        if (str_eq(word, value))
            return true;
        left = str_sub(left, word.len + 2, left.len);
    }
    return false;
}

/* The one that begins most alike. */
static const char *alike(struct str key)
{
    const char *best = "";
    size_t most = 0;

    for (size_t i = 0; i < COUNT_OF(own); i++) {
        size_t same = 0;

        while (same < key.len && own[i].key[same] == key.p[same])
            same++;
        if (same > most && own[i].key[same ? same - 1 : 0] != '/') {
            most = same;
            best = own[i].key;
        }
    }
    return best;
}

static struct str own_words(const struct walk *walk,
                            const struct own *row,
                            enum map map,
                            struct str value)
{
    struct arena *arena = walk->admit->arena;

    if (!(row->map & map))
        return str_printf(arena, "has no effect here: it is read as %s",
                          row->map == LABEL ? "a label" : "an annotation");
    if (!row->words || can_say(row->words, value))
        return STR_NONE;
    return str_is(str_from(row->words), "#")
               ? STR("has no effect: it must be a number")
               : str_printf(arena, "has no effect: it must be one of %s", row->words);
}

static const struct own *find(const struct own *rows, size_t count, struct str key)
{
    for (size_t i = 0; i < count; i++)
        if (is_key(rows[i].key, key))
            return &rows[i];
    return NULL;
}

static struct str ours(const struct walk *walk, const struct json *entry, enum map map, bool top)
{
    struct str key = json_key(entry);
    const struct own *row = find(of_pods, COUNT_OF(of_pods), key);
    bool has_prefix = false;

    if (row && map == NOTE && top && walk->admit->kind != &kind_pod)
        return STR(
            "has no effect here: it is read on pods, so it belongs into the template of them");
    if (row)
        return own_words(walk, row, map, json_str(entry));
    for (size_t i = 0; i < COUNT_OF(prefixes); i++)
        has_prefix = has_prefix || str_starts(key, str_from(prefixes[i]));
    if (!has_prefix)
        return STR_NONE;
    row = find(own, COUNT_OF(own), key);
    if (row)
        return own_words(walk, row, map, json_str(entry));
    const char *near = alike(key);
    return *near ? str_printf(walk->admit->arena,
                              "has no effect: nothing reads it; the one most alike is %s", near)
                 : STR("has no effect: nothing reads it");
}

/* ---- what others act upon ---- */

static struct str theirs(const struct walk *walk, struct str key)
{
    for (size_t i = 0; i < COUNT_OF(dead); i++)
        if (is_key(dead[i].key, key))
            return str_from(dead[i].words);
    for (size_t i = 0; walk->kinds && i < COUNT_OF(others); i++)
        if (is_key(others[i].key, key) &&
            !kinds_by_name(walk->kinds, str_from(others[i].version), str_from(others[i].kind)))
            return str_printf(
                walk->admit->arena,
                "has no effect, as there is no %s here; the label kai.scheduler/queue "
                "names the queue",
                others[i].name);
    return STR_NONE;
}

static void check_map(const struct walk *walk,
                      const struct json *map,
                      enum map which,
                      const struct schema_path *path)
{
    bool top = path->up && !path->up->up; /* metadata of the object itself */

    JSON_FOREACH(map, entry) {
        if (!json_is(entry, JSON_STRING))
            return; /* no labels, whatever they are */
        struct str words = ours(walk, entry, which, top);

        if (!words.len)
            words = theirs(walk, json_key(entry));
        if (words.len)
            warn(walk, path, entry, words);
    }
}

static void check_scheduler(const struct walk *walk,
                            const struct json *name,
                            const struct schema_path *path)
{
    if (walk->kinds && json_is(name, JSON_STRING) &&
        !scheduler_places(STR(SCHEDULER_EMBEDDED), json_str(name)))
        admit_warn(walk->admit,
                   str_printf(walk->admit->arena,
                              STR_FMT ": muster places pods of " SCHEDULER_DEFAULT
                                      ", kai-scheduler and muster; these wait until a scheduler "
                                      "of that name binds them",
                              STR_ARG(schema_path_text(walk->admit->arena, path))));
}

/* Whose this is, where it is not ours. */
static void check_manager(const struct walk *walk,
                          const struct json *name,
                          const struct schema_path *path)
{
    static const char *const ours[] = {
        "kubernetes.io/job-controller", "kubeflow.org/training-operator",
        "kubeflow.org/mpi-operator", "trainer.kubeflow.org/trainjob-controller",
        "jobset.sigs.k8s.io/jobset-controller"};
    bool is_ours = !json_str(name).len;

    for (size_t i = 0; i < COUNT_OF(ours); i++)
        is_ours = is_ours || str_is(json_str(name), ours[i]);
    if (walk->kinds && !is_ours)
        admit_warn(walk->admit, str_printf(walk->admit->arena,
                                           STR_FMT ": muster leaves it to " STR_FMT
                                                   ", and does not know whether anybody runs that",
                                           STR_ARG(schema_path_text(walk->admit->arena, path)),
                                           STR_ARG(json_str(name))));
}

/* As deep as the parser lets a document be. */
static void visit(const struct walk *walk, const struct json *node, const struct schema_path *path)
{
    size_t index = 0;

    JSON_FOREACH(node, child) {
        bool item = json_is(node, JSON_ARRAY);
        struct schema_path here = {path, item ? STR_NONE : json_key(child), index++, false};

        if (item ? !json_is(child, JSON_OBJECT) : str_is(here.name, "managedFields"))
            continue;
        if (str_is(here.name, "labels"))
            check_map(walk, child, LABEL, &here);
        else if (str_is(here.name, "annotations"))
            check_map(walk, child, NOTE, &here);
        else if (str_is(here.name, "schedulerName") ||
                 (path && str_is(path->name, "scheduling") && str_is(here.name, "scheduler")))
            check_scheduler(walk, child, &here);
        else if (str_is(here.name, "managedBy"))
            check_manager(walk, child, &here);
        else if (json_is(child, JSON_OBJECT) || json_is(child, JSON_ARRAY))
            visit(walk, child, &here);
    }
}

static bool is_changed(const struct admit *admit)
{
    static const char *const parts[] = {"spec", "metadata.labels", "metadata.annotations"};

    for (size_t i = 0; admit->old && i < COUNT_OF(parts); i++)
        if (!json_equal(json_at(admit->old, parts[i]), json_at(admit->object, parts[i])))
            return true;
    return !admit->old;
}

void keys_warn(struct admit *admit, const struct kinds *kinds)
{
    const struct walk walk = {admit, kinds};
    static const char *const parts[] = {"metadata", "spec"};

    if (json_count(json_at(admit->object, "metadata.ownerReferences")) || !is_changed(admit))
        return;
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        const struct schema_path path = {NULL, str_from(parts[i]), 0, false};

        visit(&walk, json_get(admit->object, parts[i]), &path);
    }
}
