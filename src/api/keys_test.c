#include "api/admit.h"
#include "api/keys.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <stddef.h>

static void nothing_known(struct admit *admit)
{
    struct kinds *kinds = kinds_new();

    keys_warn(admit, kinds);
    kinds_free(kinds);
}

TEST(a_key_that_means_nothing_here_is_warned_about_wherever_it_stands)
{
#define NOTES(text)    "{'metadata':{'annotations':{" text "}}}"
#define LABELS(text)   "{'metadata':{'labels':{" text "}}}"
#define TEMPLATE(text) "{'spec':{'list':[{'template':{'metadata':{" text "}}}]}}"
    static const struct {
        const char *why;
        const struct kind *kind;
        const char *object;
        const char *told; /* NULL: nothing */
    } rows[] = {
        {"what people write for themselves", &kind_pod, NOTES("'team.example.com/x':'y'"), NULL},
        {"what is read", &kind_pod, NOTES("'muster.dev/on-hang':'Report','gpu-fraction':'0.5'"),
         NULL},
        {"misspelt", &kind_pod, NOTES("'muster.dev/on-hagn':'Report'"),
         "metadata.annotations[muster.dev/on-hagn]: has no effect: nothing reads it; the one most "
         "alike is muster.dev/on-hang"},
        {"like none", &kind_pod, NOTES("'muster.dev/zzz':''"),
         "metadata.annotations[muster.dev/zzz]: has no effect: nothing reads it"},
        {"a label among annotations", &kind_pod, NOTES("'kai.scheduler/queue':'q'"),
         "metadata.annotations[kai.scheduler/queue]: has no effect here: it is read as a label"},
        {"an annotation among labels", &kind_pod, LABELS("'gpu-fraction':'0.5'"),
         "metadata.labels[gpu-fraction]: has no effect here: it is read as an annotation"},
        {"of pods, on what makes them", &kind_pytorchjob, NOTES("'gpu-fraction':'0.5'"),
         "metadata.annotations[gpu-fraction]: has no effect here: it is read on pods, so it "
         "belongs into the template of them"},
        {"in the template of them", &kind_pytorchjob,
         TEMPLATE("'annotations':{'gpu-fraction':'0.5'}"), NULL},
        {"misspelt in a template", &kind_pytorchjob, TEMPLATE("'labels':{'runai/quue':'q'}"),
         "spec.list[0].template.metadata.labels[runai/quue]: has no effect: nothing reads it; the "
         "one most alike is runai/queue"},
        {"a word that its reader does not know", &kind_pod, NOTES("'muster.dev/observe':'no'"),
         "metadata.annotations[muster.dev/observe]: has no effect: it must be one of off, on"},
        {"no number", &kind_pod, LABELS("'kai.scheduler/task-priority':'high'"),
         "metadata.labels[kai.scheduler/task-priority]: has no effect: it must be a number"},
        {"to a program that is not here", &kind_job, TEMPLATE("'labels':{'kueue.x-k8s.io/x':'q'}"),
         "spec.list[0].template.metadata.labels[kueue.x-k8s.io/x]: has no effect, as there is no "
         "Kueue here; the label kai.scheduler/queue names the queue"},
        {"what Kubernetes once read", &kind_pod,
         NOTES("'seccomp.security.alpha.kubernetes.io/pod':'runtime/default'"),
         "metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in "
         "v1.27+; use the \"seccompProfile\" field instead"},
        {"a scheduler that is not here, in a template", &kind_pytorchjob,
         "{'spec':{'a':{'schedulerName':'volcano'}}}",
         "spec.a.schedulerName: muster places pods of default-scheduler, kai-scheduler and "
         "muster; these wait until a scheduler of that name binds them"},
        {"the same of a job of our own", &kind_torchrunjob,
         "{'spec':{'scheduling':{'scheduler':'volcano'}}}",
         "spec.scheduling.scheduler: muster places pods of default-scheduler, kai-scheduler and "
         "muster; these wait until a scheduler of that name binds them"},
        {"somebody else's to run", &kind_pytorchjob,
         "{'spec':{'runPolicy':{'managedBy':'kueue.x-k8s.io/multikueue'}}}",
         "spec.runPolicy.managedBy: muster leaves it to kueue.x-k8s.io/multikueue, and does not "
         "know whether anybody runs that"},
        {"ours", &kind_job, "{'spec':{'managedBy':'kubernetes.io/job-controller'}}", NULL},
        {"made for another object", &kind_pod,
         "{'metadata':{'annotations':{'muster.dev/zzz':''},'ownerReferences':[{}]}}", NULL},
        {"fields of that name", &kind_crd, "{'spec':{'labels':{'muster.dev/zzz':{}}}}", NULL},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *object = test_json(&arena, rows[i].object);
        struct admit admit = {.arena = &arena, .kind = rows[i].kind, .object = object};

        test_case(rows[i].why);
        nothing_known(&admit);
        EXPECT(str_is(admit.warnings, rows[i].told ? rows[i].told : ""));
        /* An update that does not touch it says nothing; one that does, says it again. */
        struct admit again = {
            .arena = &arena, .kind = rows[i].kind, .object = object, .old = object};
        nothing_known(&again);
        EXPECT(!again.warnings.len);
        again.old = test_json(&arena, "{'spec':{'x':1}}");
        nothing_known(&again);
        EXPECT(str_eq(again.warnings, admit.warnings));
    }
}

TEST(whether_others_are_there_is_for_the_api_server_of_a_cluster_to_know)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct admit admit = {
        .arena = &arena,
        .kind = &kind_pod,
        .object =
            test_json(&arena, "{'metadata':{'labels':{'kueue.x-k8s.io/queue-name':'q'}},'spec':"
                              "{'schedulerName':'volcano'}}")};

    keys_warn(&admit, NULL);
    EXPECT(!admit.warnings.len);
}
