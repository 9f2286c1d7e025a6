#include "api/kind.h"
#include "api/object.h"
#include "api/place.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/vec.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/group_name.h"
#include "control/job/job.h"
#include "control/job/job_engine.h"
#include "control/job/launcher.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Spare pods: alike to the pods of the gang, and waiting. When one of those is lost, a spare becomes
 * the pod of its index, and all restart in place (job_place.c): nothing waits for a node.
 *
 * A spare is no member: it is scheduled alone, when the gang has its nodes, so it never keeps a gang
 * from starting, and whatever happens to it is nobody's failure. It becomes one by its labels. */

static struct str spare_name(const struct job_run *run, size_t slot)
{
    return str_printf(run->arena, STR_FMT "-" JOB_ROLE_SPARE "-%zu",
                      STR_ARG(run->model.object->name), slot);
}

void job_spare_read(struct job_run *run)
{
    struct job_model *model = &run->model;
    const struct job_role *role = model->roles.count ? &model->roles.items[0] : NULL;
    const char *why = NULL;

    if (model->parts) /* its jobs have them */
        model->spares = 0;
    if (!model->spares)
        return;
    if (!model->in_place || model->roles.count != 1 || role->min != role->max)
        why = "need restartMode InPlace and a job of a fixed size that may restart";
    else if (!model->spareable)
        why = "need the rendezvous c10d without a port of its own, which every pod can reach";
    for (size_t i = 1; !why && role->gpus && i < role->count; i++)
        if (role->gpus[i] != role->gpus[0])
            why = "need pods that all have the same number of GPUs";
    if (!why)
        return;
    model->spares = 0;
    if (!model->warning.len)
        model->warning = str_printf(run->arena, "spares %s; none is made", why);
}

/* ---- who takes whose place ---- */

/* Gone, or about to be, and not because the scheduler wants its room for others. */
static bool is_gone(const struct job_member *member)
{
    return member->lost || member->sick.len ||
           ((member->leaving || member->taken) && !member->taken_for.len);
}

static bool is_well(const struct job_member *member)
{
    return member->place.set && !member->leaving && !member->taken && !member->lost_at_ms &&
           !member->away && !member->suspend.len && !member->sick.len &&
           (member->phase == JOB_POD_RUNNING || member->held);
}

static bool is_of_now(const struct job_run *run, const struct job_member *member)
{
    return member->generation == run->state.generation;
}

static bool is_vacant(const struct job_run *run, size_t index)
{
    for (size_t i = 0; i < run->members.count; i++)
        if (run->members.items[i].index == index && is_well(&run->members.items[i]))
            return false;
    return true;
}

static size_t count_ready(const struct job_run *run)
{
    size_t count = 0;

    for (size_t i = 0; i < run->spares.count; i++)
        count += is_of_now(run, &run->spares.items[i]) && is_well(&run->spares.items[i]);
    return count;
}

/* The members are well or gone, and there is a spare for each that is gone. */
static bool can_take(const struct job_run *run, size_t *vacant)
{
    for (size_t i = 0; i < run->members.count; i++)
        if (!is_of_now(run, &run->members.items[i]) ||
            (!is_well(&run->members.items[i]) && !is_gone(&run->members.items[i])))
            return false;
    for (size_t i = 0; i < run->model.roles.items[0].count; i++)
        *vacant += is_vacant(run, i);
    return *vacant <= count_ready(run);
}

/* A round is on of which nobody was told to go: one who comes now is in time for it. */
static bool is_under_way(const struct job_run *run)
{
    bool moving = false;

    for (size_t i = 0; i < run->members.count; i++) {
        const struct job_member *member = &run->members.items[i];

        if (member->place.round == run->state.round && member->place.go)
            return false;
        moving = moving || (member->moving && !is_gone(member));
    }
    return moving;
}

static void begin_round(struct job_run *run, const struct job_member *gone, size_t vacant)
{
    struct job_state *state = &run->state;
    bool lost = gone && gone->lost;
    struct str name = gone ? gone->object->name : STR("(removed)");
    struct str words = str_printf(run->arena, "%s pod " STR_FMT " %s", lost ? "the node of" : "",
                                  STR_ARG(name), lost ? "is lost" : "was removed");

    if (gone && !lost && gone->sick.len)
        words = str_printf(run->arena, "pod " STR_FMT " leaves: " STR_FMT, STR_ARG(name),
                           STR_ARG(gone->sick));
    state->round++;
    state->stayed++;
    state->disruptions++;
    state->failure = (struct job_failure){.pod = name,
                                          .node = gone ? gone->node : STR_NONE,
                                          .reason = STR(JOB_REASON_GONE),
                                          .message = str_trim(words),
                                          .time_ms = run->input->now_ms};
    job_say(run, JOB_RESTARTING,
            str_printf(run->arena, STR_FMT "; %zu spare %s; all ranks start again, in place",
                       STR_ARG(str_trim(words)), vacant,
                       vacant == 1 ? "pod takes its place" : "pods take the places that are free"));
}

static void take(struct job_run *run, const struct job_member *spare, size_t index)
{
    struct json *patch = json_new_object(run->arena);
    struct json *labels = json_make_path(run->arena, patch, "metadata.labels");
    struct json *notes = json_make_path(run->arena, patch, "metadata.annotations");

    json_add_str(run->arena, labels, JOB_LABEL_ROLE, run->model.roles.items[0].name);
    json_add_str(run->arena, labels, JOB_LABEL_INDEX, str_printf(run->arena, "%zu", index));
    json_add_str(run->arena, notes, PLACE_ANNOTATION,
                 place_text(run->arena, run->state.round, false));
    json_add_str(run->arena, notes, GROUP_ANNOTATION, group_name(run->model.object, run->arena));
    job_hold_mark(run, &run->model.roles.items[0], patch);
    action_patch(&run->actions, spare->object, patch);
}

bool job_spare_take(struct job_run *run)
{
    const struct job_member *gone = NULL;
    size_t vacant = 0;
    size_t next = 0;

    if (!run->model.spares || job_lost_awaited(run) || !can_take(run, &vacant))
        return false;
    for (size_t i = 0; i < run->members.count; i++)
        if (is_gone(&run->members.items[i])) {
            gone = gone ? gone : &run->members.items[i];
            job_remove(run, &run->members.items[i]);
            run->members.items[i].leaving = true; /* nothing more is told to it */
        }
    if (!vacant) /* all places are taken: those that were lost have to end, and then all go */
        return job_place_step(run);
    if (!is_under_way(run))
        begin_round(run, gone, vacant);
    for (size_t i = 0; i < run->model.roles.items[0].count; i++) {
        if (!is_vacant(run, i))
            continue;
        while (!is_of_now(run, &run->spares.items[next]) || !is_well(&run->spares.items[next]))
            next++;
        take(run, &run->spares.items[next++], i);
    }
    job_place_stop(run);
    return true;
}

/* ---- making and removing them ---- */

/* The gang has all of its pods, on nodes of ours: elsewhere a spare would be of no use. */
static bool is_placed(const struct job_run *run)
{
    size_t placed = 0;

    for (size_t i = 0; i < run->members.count; i++) {
        const struct job_member *member = &run->members.items[i];

        placed += is_of_now(run, member) && member->node.len && !is_gone(member) &&
                  job_is_our_node(run->input, member->node, run->arena);
    }
    return placed >= job_size(&run->model);
}

/* Away from the gang and from each other, where there is room: what takes one node takes no spare. */
static void keep_apart(const struct job_run *run, struct json *spec)
{
    struct json *away = json_make_path(run->arena, spec, "affinity.podAntiAffinity");
    const char *soft = "preferredDuringSchedulingIgnoredDuringExecution";
    struct json *list = json_get(away, soft);
    struct json *own = json_new_object(run->arena);

    json_add_str(run->arena, own, JOB_LABEL_NAME, run->model.object->name);
    if (!json_is(list, JSON_ARRAY))
        list = json_add_array(run->arena, away, soft);
    json_push(list, json_make(run->arena,
                              "{weight: 100, podAffinityTerm: {topologyKey: "
                              "'kubernetes.io/hostname', labelSelector: {matchLabels: $}}}",
                              own));
}

static void create_spare(struct job_run *run, size_t slot)
{
    struct job_role role = run->model.roles.items[0];
    size_t count = role.count;

    role.name = STR(JOB_ROLE_SPARE);
    struct job_pod pod = {.role = &role,
                          .name = spare_name(run, slot),
                          .index = count + slot, /* nobody else's, in this job */
                          .gpus = role.gpus ? role.gpus[0] : 0,
                          .generation = run->state.generation,
                          .pods = job_size(&run->model),
                          .spare = true};
    struct json *body = job_make_pod(&run->model, &pod, run->arena);

    json_remove(json_at(body, "metadata.annotations"), STR(GROUP_ANNOTATION));
    keep_apart(run, json_get(body, "spec"));
    launcher_add(body, run->input->config->launcher_image, run->arena);
    action_create(&run->actions, &kind_pod, body);
}

static bool is_named(const struct job_members *members, struct str name)
{
    for (size_t i = 0; i < members->count; i++)
        if (str_eq(members->items[i].object->name, name))
            return true;
    return false;
}

void job_spares(struct job_run *run)
{
    const struct job_state *state = &run->state;
    bool wanted =
        !job_phase_is_final(state->phase) && !run->model.suspend && !run->model.problem.condition;
    size_t kept = 0;

    for (size_t i = 0; i < run->spares.count; i++) {
        const struct job_member *spare = &run->spares.items[i];

        if (!wanted || !is_of_now(run, spare) || kept >= run->model.spares || spare->lost ||
            spare->taken)
            job_remove(run, spare);
        else
            kept++; /* one that failed by itself stays to be looked at, and is not made again */
    }
    if (!wanted || state->phase != JOB_RUNNING || !is_placed(run))
        return;
    for (size_t slot = 0; kept < run->model.spares && slot < 2 * JOB_PODS_MAX; slot++) {
        struct str name = spare_name(run, slot);

        if (is_named(&run->members, name) || is_named(&run->spares, name))
            continue;
        create_spare(run, slot);
        kept++;
    }
}

struct str job_spare_words(const struct job_run *run)
{
    if (!run->model.spares)
        return STR_NONE;
    return str_printf(run->arena, "; %zu of %zu spare pods wait", count_ready(run),
                      run->model.spares);
}
