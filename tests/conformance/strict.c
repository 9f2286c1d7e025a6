#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "conformance/conformance.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* What a case may say. A case that says more asks for something this program does not try, so it
 * has not passed: an unknown member or word fails it, and one that is known but not compared leaves
 * it out. null, false, 0 and what is empty mean "not given". Words of a list end with a space. */

/* Of every case: where it came from. */
#define ORIGIN                                                                                    \
    "id name outer_name source test_func test_number go notes extra change changed_from feature " \
    "since expected_note "

static bool has_word(const char *words, struct str word)
{
    for (const char *at = words; *at;) {
        size_t len = strcspn(at, " ");

        if (len == word.len && memcmp(at, word.p, len) == 0)
            return true;
        at += len + (at[len] == ' ');
    }
    return false;
}

static bool is_given(const struct json *value)
{
    if (json_is_null(value))
        return false;
    if (json_is(value, JSON_BOOL))
        return json_bool_or(value, false);
    if (json_is(value, JSON_STRING))
        return json_str(value).len > 0;
    if (json_is(value, JSON_OBJECT) || json_is(value, JSON_ARRAY))
        return json_count(value) > 0;
    return !str_is(json_number_text(value), "0");
}

static bool members(const struct json *test,
                    const struct json *object,
                    const char *what,
                    const char *known)
{
    if (!json_is(object, JSON_OBJECT))
        return true;
    JSON_FOREACH(object, member)
        if (!has_word(known, json_key(member)) && is_given(member))
            return differs(test, "%s has a member \"" STR_FMT "\", which is not known here", what,
                           STR_ARG(json_key(member)));
    return true;
}

static bool one_of(const struct json *test,
                   const struct json *value,
                   const char *what,
                   const char *known)
{
    struct str word = json_str(value);

    return !word.len || has_word(known, word) ||
           differs(test, "%s \"" STR_FMT "\" is not known here", what, STR_ARG(word));
}

static bool subgroups(const struct json *test, const struct json *set)
{
    bool good = members(test, set, "a group of pods",
                        "name topology_constraint groups pod_sets min_sub_group ");

    JSON_FOREACH(json_get(set, "groups"), group)
        good = good && subgroups(test, group);
    JSON_FOREACH(json_get(set, "pod_sets"), leaf)
        good =
            good && members(test, leaf, "a set of pods", "name min_available topology_constraint ");
    return good;
}

#define STATES \
    "Pending Running Releasing StuckInReleasing Failed Pipelined Binding Bound Allocated "

static bool task(const struct json *test, const struct json *one)
{
    const struct json *request = json_get(one, "request");

    return members(test, one, "a task",
                   "name state node gpu_groups random_gpu_groups subgroup task_priority request "
                   "node_affinity_in labels pod_affinity pod_anti_affinity is_legacy_mig "
                   "resource_claims resource_claim_templates annotations qos_class go ") &&
           members(test, json_get(one, "annotations"), "the annotations of a task",
                   "kai.scheduler/numa-placement-observed ") &&
           one_of(test, json_get(one, "qos_class"), "the QoS class",
                  "Guaranteed Burstable BestEffort ") &&
           members(test, request, "a request",
                   "type gpus gpu_fraction gpu_devices gpu_memory_mib mig dra_gpus cpu_milli "
                   "memory_bytes ") &&
           one_of(test, json_get(one, "state"), "the state", STATES) &&
           one_of(test, json_get(request, "type"), "the type of request",
                  "Regular Fraction GpuMemory MigInstance ");
}

static bool jobs(const struct json *test)
{
    bool good = true;

    JSON_FOREACH(json_get(test, "jobs"), job) {
        good = good && members(test, job, "a job",
                               "name namespace queue priority preemptible order age_minutes "
                               "min_member root_subgroup root_subgroup_given topology_constraint "
                               "best_effort delete_job_in_test stale_seconds "
                               "last_start_minutes_ago initial_allocated preemptibility "
                               "preemption_delay_seconds staleness_grace_period_seconds "
                               "initial_allocated_is_natural tasks go ");
        good = good && subgroups(test, json_get(job, "root_subgroup"));
        JSON_FOREACH(json_get(job, "tasks"), one)
            good = good && task(test, one);
    }
    return good;
}

static bool zones(const struct json *test, const struct json *numa)
{
    bool good = members(test, numa, "the zones of a node", "policy scope zones ") &&
                one_of(test, json_get(numa, "policy"), "the policy of zones",
                       "none best-effort restricted single-numa-node ") &&
                one_of(test, json_get(numa, "scope"), "the scope of zones", "pod container ");

    if (!json_is_null(numa) && !json_count(json_get(numa, "zones")))
        return differs(test, "a node has a policy for zones, and no zones");
    JSON_FOREACH(json_get(numa, "zones"), zone)
        good = good && members(test, zone, "a zone", "id allocatable available ");
    return good;
}

static bool cluster(const struct json *test)
{
    const struct json *dra = json_get(test, "dra");
    bool good = members(test, dra, "dra", "device_classes resource_slices resource_claims ");

    JSON_FOREACH(json_get(test, "nodes"), node)
        good = good &&
               members(test, node, "a node",
                       "name gpus allocatable_gpus dra_gpus cpu_milli memory_bytes gpu_memory_mib "
                       "gpu_memory_synced max_pods mig labels numa_topology go ") &&
               zones(test, json_get(node, "numa_topology")) &&
               one_of(test, json_at(node, "mig.strategy"), "the strategy of MIG", "single mixed ");
    JSON_FOREACH(json_get(test, "queues"), queue)
        good = good && members(test, queue, "a queue",
                               "name parent department priority creation_order gpu cpu memory leaf "
                               "reclaim_min_runtime_seconds go ");
    JSON_FOREACH(json_get(test, "topologies"), topology)
        good = good && members(test, topology, "a topology", "name levels ");
    return good && jobs(test);
}

static bool config(const struct json *test)
{
    const struct json *from = json_get(test, "config");
    const struct json *plugins = json_get(from, "plugins");
    bool good = members(test, from, "config",
                        "rounds_until_match rounds_after_match scheduling_duration_seconds "
                        "rounds_fields_ignored_by_this_test plugins predicates_enabled "
                        "max_consolidation_preemptees allow_consolidating_reclaim "
                        "use_scheduling_signatures staleness_grace_period_seconds "
                        "min_node_gpu_memory_mib max_node_gpu_memory_mib dra_feature_gate "
                        "disable_default_department "
                        "bind_always_fails scheduler_conf_actions_string ");

    if (json_is(plugins, JSON_STRING))
        return good && one_of(test, plugins, "the list of plugins", "default ");
    JSON_FOREACH(plugins, plugin)
        good =
            good &&
            one_of(test, json_get(plugin, "name"), "the plugin",
                   "predicates proportion priority elastic kubeflow ray nodeavailability "
                   "gpusharingorder gpupack gpuspread resourcetype subgrouporder taskorder "
                   "nominatednode dynamicresources nodeplacement minruntime topology snapshot ") &&
            members(test, json_get(plugin, "arguments"), "the arguments of a plugin", "gpu cpu ") &&
            one_of(test, json_at(plugin, "arguments.gpu"), "the strategy", "binpack spread ") &&
            one_of(test, json_at(plugin, "arguments.cpu"), "the strategy", "binpack spread ");
    return good;
}

/* What is expected of jobs or tasks. gpus_required, milli_cpu_required and memory_required repeat
 * the input; gpu_groups is not enforced by those who wrote it. */
static bool outcomes(const struct json *test, const struct json *all)
{
    static const char *const left_out[] = {"gpus_accepted", "error_message",
                                           "last_start_older_than_seconds"};
    bool good = true;

    JSON_FOREACH(all, one) {
        good = good &&
               members(test, one, "an expectation",
                       "status node gpus_required gpus_accepted milli_cpu_required "
                       "memory_required gpu_groups dont_validate_gpu_group error_message "
                       "last_start_older_than_seconds numa_zones ") &&
               one_of(test, json_get(one, "status"), "the expected status", STATES);
        for (size_t i = 0; i < COUNT_OF(left_out); i++)
            if (is_given(json_get(one, left_out[i])))
                leave_out(test, "\"%s\" is not compared", left_out[i]);
    }
    return good;
}

bool scenario_is_known(const struct json *test)
{
    const struct json *expected = json_get(test, "expected");
    bool good =
        members(test, test, "the case",
                ORIGIN "mode actions config nodes queues topologies dra jobs expected ") &&
        one_of(test, json_get(test, "mode"), "the mode", "single_action integration ") &&
        members(test, expected, "expected",
                "jobs tasks ignored_tasks nodes counts counts_given subgroup_placement ") &&
        members(test, json_get(expected, "counts"), "counts", "bindings evictions pipelined ");

    JSON_FOREACH(json_get(test, "actions"), action)
        good = good && one_of(test, action, "the action",
                              "allocate consolidation reclaim preempt stalegangeviction ");
    JSON_FOREACH(json_get(expected, "nodes"), node)
        good = good && members(test, node, "an expected node",
                               "releasing_gpus idle_gpus numa_zones_available ");
    return good && config(test) && cluster(test) && outcomes(test, json_get(expected, "jobs")) &&
           outcomes(test, json_get(expected, "tasks"));
}

/* The functions of KAI 0.17, each with what it is given and what it answers. */
static const struct {
    const char *function;
    const char *given;
    const char *answers;
} functions[] = {
    {"validate_podgroup", "spec ", "structural_error problems create_refused update_refused "},
    {"validate_topology", "operation object old ", "error error_contains warnings "},
    {"validate_queue", "operation object old ", "error error_contains warnings "},
    {"subgroup_order", "left right ", "first "},
    {"preemption_delay_end", "creation preemption_delay last_eviction ",
     "end within_one_second_before_end within_at_end "},
    {"last_eviction", "annotation ", "last_eviction "},
    {"resolve_topology_alias", "topologies constraint ", "constraint "},
    {"validate_gpu_request", "pod ", "error error_text "},
    {"fits_maintain_fair_share", "reclaimee reclaimee_remaining ", "result "},
    {"reclaimer_fits_deserved_quota", "required reclaimer ", "result "},
    {"fits_guarantee_deserved_quota", "required reclaimer reclaimee reclaimee_remaining ",
     "result "},
    {"filter_victim", "queues reclaimer victim_queue ", "result "},
    {"deserved_quota_candidate", "reclaimer reclaimee ", "result "},
    {"is_job_over_queue_capacity", "max_node_gpu_memory_mib queues job ", "schedulable "},
    {"is_task_allocation_on_node_over_capacity", "node_gpu_memory_mib queues job ", "schedulable "},
    {"deviceaccess_validate", "pod ", "error error_text "},
    {"numa_evaluate", "topology requests pod ignore ", "admit placement "},
    {"deviceaccess_mutate", "pod ", "containers_set_to_void "},
};

static bool function_is_known(const struct json *test)
{
    struct str function = json_str(json_get(test, "function"));

    for (size_t i = 0; i < COUNT_OF(functions); i++) {
        char given[256];

        if (!str_is(function, functions[i].function))
            continue;
        (void)snprintf(given, sizeof(given), ORIGIN "function expected %s", functions[i].given);
        return members(test, test, "the case", given) &&
               members(test, json_get(test, "job"), "the job", "queue preemptible request ") &&
               members(test, json_at(test, "job.request"), "the request",
                       "gpu_memory_mib gpu_devices gpus ") &&
               members(test, json_get(test, "expected"), "expected", functions[i].answers);
    }
    return differs(test, "the function \"" STR_FMT "\" is not known here", STR_ARG(function));
}

bool unit_is_known(const struct json *test)
{
    if (case_is_017(test) && json_get(test, "function"))
        return function_is_known(test);

    const struct json *expected = json_get(test, "expected");
    bool good =
        members(test, test, "the case",
                ORIGIN "function strategy reclaimer_resources reclaimer_queue reclaimee_queue "
                       "reclaimee_remaining_share checks resource total k_value queues expected "
                       "dra_feature_gate nodes dra jobs ") &&
        one_of(test, json_get(test, "function"), "the function",
               "set_resource_share "
               "set_resources_share divide_over_quota "
               "get_queues_by_priority ") &&
        one_of(test, json_get(test, "resource"), "the resource", "cpu memory gpu ") &&
        one_of(test, json_get(test, "strategy"), "the strategy",
               "maintain_fair_share guarantee_deserved_quota ") &&
        members(test, expected, "expected",
                "reclaimable remaining fair_share priorities_descending uids_by_priority "
                "gpu_fair_share pre_predicate_error ");

    JSON_FOREACH(json_get(test, "checks"), check)
        good = good &&
               members(test, check, "a check",
                       "function saturation_multiplier queues reclaimer expected "
                       "reclaimee_resources_by_queue ") &&
               one_of(test, json_get(check, "function"), "the function",
                      "can_reclaim_resources reclaimable ");
    return good && (json_get(test, "dra") ? cluster(test) : true);
}

bool grouping_is_known(const struct json *test)
{
    bool good = members(test, test, "the case", ORIGIN "config cluster_objects cases rule ") &&
                members(test, json_get(test, "config"), "config",
                        "queue_label_key node_pool_label_key search_legacy_job_groups "
                        "gang_schedule_knative ");

    JSON_FOREACH(json_get(test, "cases"), one) {
        const struct json *expected = json_get(one, "expected");

        good = good && members(test, one, "the case", "owner pod other_owners expected ") &&
               members(test, expected, "expected", "error error_contains podgroup ");
        JSON_FOREACH(json_get(expected, "podgroup"), claim)
            good = good &&
                   one_of(test, json_get(claim, "op"), "the operator",
                          "equal contains is_nil not_nil is_empty not_empty is_true is_false ");
    }
    return good;
}
