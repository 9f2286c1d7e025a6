#include "store/admission.h"

#include "api/account_volume.h"
#include "api/admit.h"
#include "api/condition.h"
#include "api/group.h"
#include "api/host_ports.h"
#include "api/keys.h"
#include "api/kind.h"
#include "api/marks.h"
#include "api/object.h"
#include "api/people.h"
#include "api/pod_security.h"
#include "api/service.h"
#include "api/suspend.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "store/host.h"
#include "store/ports.h"
#include "store/queue_use.h"
#include "store/quota.h"
#include "store/reply.h"
#include "store/shelf.h"
#include "store/state.h"
#include "store/submitter.h"
#include "store/write.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The part of admission that needs to see other objects (api/admit.h is the part that does not).
 * Looks at the staged state, as everything that checks a write. */

#define IS_DEFAULT_CLASS "storageclass.kubernetes.io/is-default-class"
#define CLAIM_PROTECTION "kubernetes.io/pvc-protection"
#define GROUP_PROTECTION "scheduling.k8s.io/podgroup-protection"

static const struct object *object_latest(const struct write *write,
                                          const struct kind *kind,
                                          struct str name)
{
    return entry_latest(shelf_find(shelf_of(write->store, kind), STR(""), name));
}

/* ---- claims ---- */
/* The newest of the default classes, as Kubernetes has it. */
static const struct object *default_class(const struct write *write)
{
    const struct shelf *shelf = shelf_of(write->store, &kind_storageclass);
    const struct object *best = NULL;

    for (size_t i = 0; i < shelf->entries.count; i++) {
        const struct object *class = entry_latest(shelf->entries.items[i]);

        if (class && str_is(object_annotation(class, IS_DEFAULT_CLASS), "true") &&
            (!best || class->created_ms > best->created_ms))
            best = class;
    }
    return best;
}

static void admit_claim(struct write *write, struct json *root)
{
    struct json *spec = json_make_path(write->arena, root, "spec");
    struct json *meta = json_get(root, "metadata");
    const struct object *class = default_class(write);

    if (class && json_is_null(json_get(spec, "storageClassName")))
        json_add_str(write->arena, spec, "storageClassName", str_dup(write->arena, class->name));
    if (!json_is(json_get(meta, "finalizers"), JSON_ARRAY))
        json_add_array(write->arena, meta, "finalizers");
    json_push(json_get(meta, "finalizers"), json_new_str(write->arena, STR(CLAIM_PROTECTION)));
}

/* ---- pods ---- */
struct priority {
    bool found;
    int64_t value;
    struct str preemption;
};

static struct priority priority_of(struct write *write, const struct object *class)
{
    const struct json *root = object_json(class, write->arena);
    struct str preemption = json_str(json_get(root, "preemptionPolicy"));

    return (struct priority){.found = true,
                             .value = json_i64_or(json_get(root, "value"), 0),
                             .preemption = preemption.len ? str_dup(write->arena, preemption)
                                                          : STR("PreemptLowerPriority")};
}

/* The class of those that name none; NULL: there is none. */
static const struct object *default_priority_class(struct write *write)
{
    const struct shelf *shelf = shelf_of(write->store, &kind_priorityclass);

    for (size_t i = 0; i < shelf->entries.count; i++) {
        const struct object *class = entry_latest(shelf->entries.items[i]);

        if (class && str_contains(class->raw, STR("\"globalDefault\":true")))
            return class;
    }
    return NULL;
}

static struct priority default_priority(struct write *write)
{
    const struct object *class = default_priority_class(write);

    return class ? priority_of(write, class)
                 : (struct priority){.found = true, .preemption = STR("PreemptLowerPriority")};
}

/* Kubernetes has no such rule and tells administrators to make one by a quota: whoever may make pods
 * could take the nodes of others. */
static int keep_critical(struct write *write, const struct json *spec)
{
    struct str name = json_str(json_get(spec, "priorityClassName"));

    if (!str_starts(name, STR("system-")) || str_is(write->ns, "kube-system"))
        return 0;
    return reply_fail(write->reply, 403, "Forbidden",
                      "%s \"" STR_FMT "\" is forbidden: PriorityClass " STR_FMT
                      " is for the namespace kube-system only; name another class",
                      write->kind->plural, STR_ARG(write->name), STR_ARG(name));
}

static int admit_priority(struct write *write, struct json *spec)
{
    struct str name = json_str(json_get(spec, "priorityClassName"));
    struct priority priority = {0};

    if (!name.len)
        priority = default_priority(write);
    else if (object_latest(write, &kind_priorityclass, name))
        priority = priority_of(write, object_latest(write, &kind_priorityclass, name));
    if (!priority.found)
        return reply_fail(write->reply, 403, "Forbidden",
                          "pods \"" STR_FMT "\" is forbidden: no PriorityClass with name " STR_FMT
                          " was found",
                          STR_ARG(write->name), STR_ARG(name));
    if (json_i64_or(json_get(spec, "priority"), priority.value) != priority.value)
        return reply_fail(
            write->reply, 403, "Forbidden",
            "pods \"" STR_FMT "\" is forbidden: the integer value of priority (%lld) "
            "must not be provided in pod spec; its PriorityClass says %lld: leave it out",
            STR_ARG(write->name), (long long)json_i64_or(json_get(spec, "priority"), 0),
            (long long)priority.value);
    json_add_i64(write->arena, spec, "priority", priority.value);
    if (json_is_null(json_get(spec, "preemptionPolicy")))
        json_add_str(write->arena, spec, "preemptionPolicy", priority.preemption);
    return 0;
}

/* An account that is not there may come yet, as `default` does of a new namespace: the node waits for
 * it, and says so. Kubernetes refuses the pod, and whoever made namespace and pod at once has to try
 * again. */
static void admit_token(struct write *write, struct json *spec)
{
    const struct object *account =
        entry_latest(shelf_find(shelf_of(write->store, &kind_serviceaccount), write->ns,
                                json_str(json_get(spec, "serviceAccountName"))));

    if (!write->store->pod_tokens ||
        !account_volume_wanted(spec, account ? object_json(account, write->arena) : NULL))
        return;
    account_volume_add(
        write->arena, spec,
        str_printf(write->arena, ACCOUNT_VOLUME_PREFIX STR_FMT, STR_ARG(write_suffix(write))));
}

/* ---- RuntimeClasses ---- */

static int refuse_runtime(struct write *write, struct str name, const char *problem)
{
    return reply_fail(write->reply, 403, "Forbidden",
                      "pods \"" STR_FMT "\" is forbidden: spec.runtimeClassName: RuntimeClass "
                      "\"" STR_FMT "\" %s",
                      STR_ARG(write->name), STR_ARG(name), problem);
}

/* How this node runs every container; who names these needs no object of that name. */
static bool runtime_is_ours(struct str name)
{
    return str_is(name, "nvidia") || str_is(name, "runc") || str_is(name, "crun");
}

/* What running a pod this way costs, and where it can be: its class says. */
static int admit_runtime_class(struct write *write, struct json *spec)
{
    struct str name = json_str(json_get(spec, "runtimeClassName"));
    const struct object *class = name.len ? object_latest(write, &kind_runtimeclass, name) : NULL;

    if (!name.len || (!class && runtime_is_ours(name)))
        return 0;
    if (!class)
        return refuse_runtime(write, name, "not found; create it first, or leave the field out");
    const struct json *root = object_json(class, write->arena);
    const struct json *fixed = json_at(root, "overhead.podFixed");
    const struct json *own = json_get(spec, "overhead");
    if (!json_is_null(own) && !json_equal(own, fixed))
        return refuse_runtime(write, name, "says what spec.overhead is; leave that out");
    if (json_count(fixed))
        json_set(spec, STR("overhead"), json_clone(write->arena, fixed));
    JSON_FOREACH(json_at(root, "scheduling.nodeSelector"), label) {
        struct json *wanted = json_make_path(write->arena, spec, "nodeSelector");
        const struct json *given = json_get_str(wanted, json_key(label));

        if (given && !json_equal(given, label))
            return refuse_runtime(write, name, "contradicts spec.nodeSelector");
        json_set(wanted, str_dup(write->arena, json_key(label)), json_clone(write->arena, label));
    }
    JSON_FOREACH(json_at(root, "scheduling.tolerations"), toleration) {
        if (!json_is(json_get(spec, "tolerations"), JSON_ARRAY))
            json_add_array(write->arena, spec, "tolerations");
        json_push(json_get(spec, "tolerations"), json_clone(write->arena, toleration));
    }
    return 0;
}

/* A group of scheduling.k8s.io has the priority of its class, and stays while pods of it run. */
static int admit_group(struct write *write, struct json *root)
{
    struct json *spec = json_make_path(write->arena, root, "spec");
    struct json *meta = json_get(root, "metadata");
    struct str name = json_str(json_get(spec, "priorityClassName"));
    const struct object *class =
        name.len ? object_latest(write, &kind_priorityclass, name) : default_priority_class(write);
    int64_t value = class ? priority_of(write, class).value : 0;

    if (name.len && !class)
        return reply_fail(write->reply, 403, "Forbidden",
                          "podgroups.scheduling.k8s.io \"" STR_FMT
                          "\" is forbidden: no PriorityClass with name " STR_FMT " was found",
                          STR_ARG(write->name), STR_ARG(name));
    if (json_i64_or(json_get(spec, "priority"), value) != value)
        return reply_fail(write->reply, 403, "Forbidden",
                          "podgroups.scheduling.k8s.io \"" STR_FMT
                          "\" is forbidden: the integer value of priority (%lld) must not be "
                          "provided in the spec; %lld follows from the PriorityClass",
                          STR_ARG(write->name),
                          (long long)json_i64_or(json_get(spec, "priority"), 0), (long long)value);
    if (!name.len && class)
        json_add_str(write->arena, spec, "priorityClassName", str_dup(write->arena, class->name));
    json_add_i64(write->arena, spec, "priority", value);
    if (class && json_is_null(json_get(spec, "preemptionPolicy")))
        json_add_str(write->arena, spec, "preemptionPolicy", priority_of(write, class).preemption);
    if (!json_is(json_get(meta, "finalizers"), JSON_ARRAY))
        json_add_array(write->arena, meta, "finalizers");
    json_push(json_get(meta, "finalizers"), json_new_str(write->arena, STR(GROUP_PROTECTION)));
    return 0;
}

/* ---- Pod Security ---- */

/* What the namespace's labels say of `mode`. A label that means nothing may have been meant to
 * protect: it stands for the strictest level. */
static struct pod_security policy_of(const struct object *ns, struct arena *arena, const char *mode)
{
    struct pod_security policy = {.level = POD_SECURITY_RESTRICTED, .minor = POD_SECURITY_LATEST};
    const char *level = str_printf(arena, POD_SECURITY_PREFIX "%s", mode).p;
    const char *version = str_printf(arena, POD_SECURITY_PREFIX "%s-version", mode).p;

    (void)pod_security_parse(object_label(ns, level), object_label(ns, version), &policy);
    return policy;
}

static void warn_of(struct write *write, struct str text)
{
    struct str *warnings = &write->reply->result.warnings;

    if (!str_contains(*warnings, text))
        *warnings = str_printf(write->arena, STR_FMT "%s" STR_FMT, STR_ARG(*warnings),
                               warnings->len ? "\n" : "", STR_ARG(text));
}

/* Pods are refused; of templates, whose pods would be, it is told. */
static int admit_security(struct write *write, const struct json *pod, bool enforce)
{
    static const char *const modes[] = {"enforce", "warn", "audit"};
    const struct object *ns = object_latest(write, &kind_namespace, write->ns);

    for (size_t i = 0; ns && i < COUNT_OF(modes); i++) {
        struct pod_security policy = policy_of(ns, write->arena, modes[i]);
        struct str wrong =
            policy.level == POD_SECURITY_PRIVILEGED
                ? STR("")
                : pod_security_violations(write->arena, &policy, json_get(pod, "spec"),
                                          json_at(pod, "metadata.annotations"));
        struct str name = pod_security_text(write->arena, &policy);

        if (!wrong.len || (i == 0 && !enforce))
            continue;
        if (i > 0) {
            warn_of(write,
                    str_printf(write->arena, "would violate PodSecurity \"" STR_FMT "\": " STR_FMT,
                               STR_ARG(name), STR_ARG(wrong)));
            continue;
        }
        write->reply->result.message = str_printf(
            write->arena,
            "pods \"" STR_FMT "\" is forbidden: violates PodSecurity \"" STR_FMT "\": " STR_FMT,
            STR_ARG(write->name), STR_ARG(name), STR_ARG(wrong));
        return reply_fail(write->reply, 403, "Forbidden", STR_FMT,
                          STR_ARG(write->reply->result.message));
    }
    return 0;
}

/* ---- people ---- */

/* In a person's namespace everything is hers, whoever writes it: her queue, and pods that her rules
 * (api/people.h) allow. */
static int admit_person(struct write *write, struct admit *admit)
{
    const struct object *ns = object_latest(write, &kind_namespace, write->ns);
    struct person person;

    if (!write->ns.len || !ns || !person_of(ns, &person))
        return 0;
    bool is_new_pod = write->kind == &kind_pod && !admit->old;
    struct str why = person_refuses_queue(write->arena, &person, admit->object);
    /* What was there before the namespace was hers may go on as it is. */
    if (why.len && admit->old && person_refuses_queue(write->arena, &person, admit->old).len)
        why = STR("");
    bool debugs = write->kind == &kind_pod && str_is(write->subresource, "ephemeralcontainers");
    if (!why.len && (is_new_pod || debugs))
        why = person_refuses_pod(write->arena, &person, json_get(admit->object, "spec"));
    if (!why.len && is_new_pod && json_str_at(admit->object, "spec.nodeName").len)
        why = STR("spec.nodeName: pods of people are placed by the scheduler; leave it out");
    if (why.len)
        return reply_fail(
            write->reply, 403, "Forbidden", STR_FMT " \"" STR_FMT "\" is forbidden: " STR_FMT,
            STR_ARG(str_from(write->kind->plural)), STR_ARG(write->name), STR_ARG(why));
    if (is_new_pod && person.queue.len)
        json_add_str(write->arena, json_make_path(write->arena, admit->object, "metadata.labels"),
                     PERSON_QUEUE_LABEL, str_dup(write->arena, person.queue));
    return 0;
}

/* ---- suspension ---- */

static bool is_owner(const struct api_user *user)
{
    for (size_t i = 0; i < user->group_count; i++)
        if (str_is(user->groups[i], MARKS_ADMINISTRATORS))
            return true;
    return false;
}

/* The node and the scheduler do what the annotation of a pod says: who could write it would have
 * GPUs that are another's by now. So it is ours (`user` NULL) and the owner's; templates do not
 * bring it along, and while a pod is suspended only the scheduler takes it off. One that was to go on
 * is not asked again before its node has said that it does: nobody could tell whether it stands
 * still or begins to use its GPUs. */
static int admit_suspension(struct write *write, const struct admit *admit)
{
    struct str wish =
        json_str(json_get(json_at(admit->object, "metadata.annotations"), SUSPEND_ANNOTATION));
    struct str before =
        json_str(json_get(json_at(admit->old, "metadata.annotations"), SUSPEND_ANNOTATION));
    const char *why = NULL;

    if (wish.len && !before.len && admit->old &&
        condition_is_true(json_get(admit->old, "status"), SUSPEND_CONDITION))
        return reply_fail(
            write->reply, 409, "Conflict",
            "pods \"" STR_FMT "\": metadata.annotations[" SUSPEND_ANNOTATION
            "]: the pod is about to go on; try again when its condition " SUSPEND_CONDITION
            " is False",
            STR_ARG(write->name));
    if (str_eq(wish, before) || (admit->old && !write->user))
        return 0;
    if (!write->user || !is_owner(write->user))
        why = "only the scheduler and the owner of this server may change it; "
              "suspend the job, with spec.keepWhileSuspended";
    else if (!wish.len && condition_is_true(json_get(admit->old, "status"), SUSPEND_CONDITION))
        why = "the pod is suspended; set it to \"" SUSPEND_YIELD
              "\", and the scheduler takes it off when the pod's GPUs are free";
    if (!why)
        return 0;
    return reply_fail(write->reply, 403, "Forbidden",
                      "pods \"" STR_FMT "\" is forbidden: metadata.annotations[" SUSPEND_ANNOTATION
                      "]: %s",
                      STR_ARG(write->name), why);
}

/* ---- ports of the machine ---- */

/* Pods that we make of a template have what whoever wrote the template may have. */
static int admit_host_ports(struct write *write, const struct admit *admit)
{
    const struct host_ports rules = {write->store->services, write->store->api_address};
    struct str why = write->kind == &kind_pod && !admit->old
                         ? host_ports_refuse(write->arena, json_get(admit->object, "spec"))
                         : STR("");

    if (!why.len && write->user && !is_owner(write->user))
        why = host_ports_refuse_account(write->arena, &rules, admit->object, admit->old);
    if (!why.len)
        return 0;
    return reply_fail(write->reply, 403, "Forbidden", "%s \"" STR_FMT "\" is forbidden: " STR_FMT,
                      write->kind->plural, STR_ARG(write->name), STR_ARG(why));
}

/* ---- marks of the scheduler ---- */

/* Templates do not bring them along: a pod that we make of one is checked, too. */
static int admit_marks(struct write *write, const struct admit *admit)
{
    const struct json *own = json_at(admit->object, "metadata.ownerReferences");
    bool ours = !write->user && (admit->old || write->kind != &kind_pod || !json_count(own));

    if (ours || (write->user && is_owner(write->user)))
        return 0;
    struct str why = marks_refusal(write->arena, write->kind, admit->old, admit->object);
    if (!why.len)
        return 0;
    return reply_fail(write->reply, 403, "Forbidden", "%s \"" STR_FMT "\" is forbidden: " STR_FMT,
                      write->kind->plural, STR_ARG(write->name), STR_ARG(why));
}

/* ---- services ---- */

#define ADDRESS_TRIES_MAX 1000

static bool address_is_taken(const struct write *write, struct str address)
{
    const struct shelf *shelf = shelf_of(write->store, &kind_service);
    struct str text = str_printf(write->arena, "\"clusterIP\":\"" STR_FMT "\"", STR_ARG(address));

    for (size_t i = 0; i < shelf->entries.count; i++) {
        const struct object *service = entry_latest(shelf->entries.items[i]);

        if (service && service != write->old && str_contains(service->raw, text))
            return true;
    }
    return false;
}

static struct str free_address(struct write *write)
{
    const struct service_network *network = &write->store->services;

    for (int i = 0; i < ADDRESS_TRIES_MAX; i++) {
        uint64_t number = store_random(write->store) % network->count;
        struct str text = service_address_text(write->arena, network->first + (uint32_t)number);

        if (!address_is_taken(write, text))
            return text;
    }
    return STR_NONE;
}

/* A Service that can have an address has one from its first moment on. One of a network that is no
 * longer used gets another with its next write. */
static void admit_address(struct write *write, struct admit *admit)
{
    const struct service_network *network = &write->store->services;
    struct json *spec = json_get(admit->object, "spec");
    struct str given = json_str(json_get(spec, "clusterIP"));
    struct str old = json_str_at(admit->old, "spec.clusterIP");
    bool settled = str_is(old, "None") || service_network_has(network, old);
    const char *problem = NULL;

    if (str_is(json_str(json_get(spec, "type")), "ExternalName") ||
        (str_is(given, "None") && !settled) || (settled && str_eq(given, old)))
        return;
    if (!given.len || str_eq(given, old)) {
        given = free_address(write);
        json_add_str(write->arena, spec, "clusterIP", given);
        json_push(json_add_array(write->arena, spec, "clusterIPs"),
                  json_new_str(write->arena, given));
    }
    if (settled)
        problem = "may not change once set";
    else if (!service_network_has(network, given))
        problem = "failed to allocate it: not of the network of services; leave it out to be given "
                  "one";
    else if (address_is_taken(write, given))
        problem = "failed to allocate it: another Service has it";
    if (problem)
        admit_invalid(admit, STR("spec.clusterIPs"), json_get(spec, "clusterIPs"), problem);
}

/* ---- TrainJobs ---- */
#define SUPPORT_LABEL "trainer.kubeflow.org/support" /* of a runtime: "deprecated" */

/* It names a runtime that is there: a misspelled one would only wait. One that will not be there
 * for long is told. */
static void admit_runtime(struct write *write, struct admit *admit)
{
    const struct json *reference = json_at(admit->object, "spec.runtimeRef");
    struct str kind = json_str(json_get(reference, "kind"));
    struct str name = json_str(json_get(reference, "name"));
    bool own = str_is(kind, kind_trainingruntime.name);
    const struct kind *wanted = own ? &kind_trainingruntime : &kind_clustertrainingruntime;
    struct str ns = own ? json_str_at(admit->object, "metadata.namespace") : STR("");
    const struct object *runtime =
        entry_latest(shelf_find(shelf_of(write->store, wanted), ns, name));
    struct str *warnings = &write->reply->result.warnings;

    if (runtime && str_is(object_label(runtime, SUPPORT_LABEL), "deprecated"))
        *warnings =
            str_printf(write->arena,
                       STR_FMT "%sspec.runtimeRef: the %s " STR_FMT
                               " is deprecated: it has the label " SUPPORT_LABEL ": deprecated",
                       STR_ARG(*warnings), warnings->len ? "\n" : "", wanted->name, STR_ARG(name));
    if (name.len && !runtime)
        admit_invalid(
            admit, STR("spec.runtimeRef"), json_get(reference, "name"),
            str_printf(write->arena, "there is no %s of that name; create it first", wanted->name)
                .p);
}

/* ---- requests for certificates ---- */

/* Who asks is what the server knows, whatever the request says. */
static void admit_requester(struct write *write, struct json *object)
{
    static const char *const own[] = {"username", "uid", "groups", "extra"};
    struct json *spec = json_make_path(write->arena, object, "spec");
    const struct api_user *user = write->user;

    for (size_t i = 0; i < COUNT_OF(own); i++)
        json_remove(spec, str_from(own[i]));
    json_add_str(write->arena, spec, "username", user ? user->name : STR("system:muster"));
    if (user && user->uid.len)
        json_add_str(write->arena, spec, "uid", user->uid);
    struct json *groups = json_add_array(write->arena, spec, "groups");
    for (size_t i = 0; user && i < user->group_count; i++)
        (void)json_push(groups, json_new_str(write->arena, user->groups[i]));
}

int admission_run(struct write *write, struct admit *admit)
{
    if (write->kind == &kind_service) {
        admit_address(write, admit);
        ports_admit(write, admit);
    }
    int r = admit_person(write, admit);
    if (r == 0)
        r = admit_host_ports(write, admit);
    if (r == 0 && write->kind == &kind_pod)
        r = admit_suspension(write, admit);
    if (r == 0 && (write->kind == &kind_pod || write->kind == &kind_podgroup))
        r = admit_marks(write, admit);
    if (r == 0 && (write->kind == &kind_pod || write->kind == &kind_podgroup ||
                   write->kind == &kind_podgroup_k8s))
        r = keep_critical(write, json_get(admit->object, "spec"));
    if (r == 0)
        r = queue_use_admit(write, admit);
    if (r == 0)
        submitter_admit(write, admit);
    if (r == 0 && write->kind == &kind_pod && str_is(write->subresource, "ephemeralcontainers"))
        return admit_security(write, admit->object, true);
    if (r == 0 && !write->subresource.len)
        keys_warn(admit, write->store->api.kinds);
    if (r || admit->old)
        return r;
    if (write->kind == &kind_pvc)
        admit_claim(write, admit->object);
    if (write->kind == &kind_podgroup_k8s)
        return admit_group(write, admit->object);
    if (write->kind == &kind_trainjob)
        admit_runtime(write, admit);
    if (write->kind == &kind_csr)
        admit_requester(write, admit->object);
    if (write->kind == &kind_job)
        (void)admit_security(write, json_at(admit->object, "spec.template"), false);
    if (write->kind != &kind_pod)
        return 0;
    if (write->store->admit_pod)
        write->store->admit_pod(write->store->admit_user, admit->object, write->arena);
    quota_fill(write, admit->object);
    admit_token(write, json_make_path(write->arena, admit->object, "spec"));
    r = admit_runtime_class(write, json_make_path(write->arena, admit->object, "spec"));
    if (r == 0)
        r = admit_security(write, admit->object, true);
    if (r == 0)
        r = admit_priority(write, json_make_path(write->arena, admit->object, "spec"));
    return r;
}
