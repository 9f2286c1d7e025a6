#include "api/decode.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "control/kinds/jobset.h"

#include <stddef.h>

/* What is read of a JobSet, by table. */

static const char *const depend_words[] = {"Ready", "Complete", NULL};
static const struct decode_field depend_fields[] = {
    DECODE_FIELD(struct jobset_depend, name, "name", STR, .required = true),
    DECODE_FIELD(struct jobset_depend, status, "status", ENUM, .words = depend_words),
};
static const struct decode_table depend_table =
    DECODE_TABLE(struct jobset_depend, NULL, depend_fields);

#define PART(member, name, type, ...) \
    DECODE_FIELD(struct jobset_part_spec, member, name, type, ##__VA_ARGS__)
static const struct decode_field part_fields[] = {
    PART(name, "name", STR, .required = true),
    PART(group, "groupName", STR, .absent = "default"),
    PART(replicas, "replicas", I64, .max = JOBSET_JOBS_MAX, .absent = "1"),
    DECODE_ITEMS(struct jobset_part_spec,
                 depends,
                 depend_count,
                 "dependsOn",
                 LIST,
                 .table = &depend_table),
    PART(template, "template", JSON),
};
#undef PART
static const struct decode_table part_table =
    DECODE_TABLE(struct jobset_part_spec, NULL, part_fields);

static const char *const action_words[] = {"FailJobSet",
                                           "RestartJobSet",
                                           "RestartJobSetAndIgnoreMaxRestarts",
                                           "RestartJob",
                                           "RestartJobAndIgnoreMaxRestarts",
                                           NULL};
static const struct decode_field rule_fields[] = {
    DECODE_FIELD(struct jobset_rule, name, "name", STR),
    DECODE_FIELD(struct jobset_rule,
                 action,
                 "action",
                 ENUM,
                 .words = action_words,
                 .required = true),
    DECODE_ITEMS(struct jobset_rule, reasons, reason_count, "onJobFailureReasons", STRS),
    DECODE_ITEMS(struct jobset_rule, patterns, pattern_count, "onJobFailureMessagePatterns", STRS),
    DECODE_ITEMS(struct jobset_rule, targets.names, targets.count, "targetReplicatedJobs", STRS),
};
static const struct decode_table rule_table = DECODE_TABLE(struct jobset_rule, NULL, rule_fields);

static const char *const operator_words[] = {"All", "Any", NULL};
static const char *const strategy_words[] = {"Recreate", "BlockingRecreate", "InPlaceRestart",
                                             NULL};
static const char *const order_words[] = {"AnyOrder", "InOrder", NULL};
#define SPEC(member, name, type, ...) \
    DECODE_FIELD(struct jobset_spec, member, name, type, ##__VA_ARGS__)
static const struct decode_field spec_fields[] = {
    DECODE_ITEMS(struct jobset_spec,
                 parts,
                 part_count,
                 "replicatedJobs",
                 LIST,
                 .table = &part_table),
    SPEC(names, "network.enableDNSHostnames", BOOL, .absent = "true"),
    SPEC(subdomain, "network.subdomain", STR),
    SPEC(publish, "network.publishNotReadyAddresses", BOOL, .absent = "true"),
    SPEC(success, "successPolicy.operator", ENUM, .words = operator_words),
    DECODE_ITEMS(struct jobset_spec,
                 success_targets.names,
                 success_targets.count,
                 "successPolicy.targetReplicatedJobs",
                 STRS),
    SPEC(max_restarts, "failurePolicy.maxRestarts", I64),
    SPEC(strategy,
         "failurePolicy.restartStrategy",
         ENUM,
         .words = strategy_words,
         .absent = "Recreate"),
    DECODE_ITEMS(struct jobset_spec,
                 rules,
                 rule_count,
                 "failurePolicy.rules",
                 LIST,
                 .table = &rule_table),
    SPEC(order, "startupPolicy.startupPolicyOrder", ENUM, .words = order_words),
    SPEC(suspend, "suspend", BOOL),
    SPEC(coordinator, "coordinator.replicatedJob", STR),
    SPEC(coordinator_job, "coordinator.jobIndex", I64),
    SPEC(coordinator_pod, "coordinator.podIndex", I64),
    SPEC(manager, "managedBy", STR),
    SPEC(ttl_s, "ttlSecondsAfterFinished", I64, .absent = "-1"),
    SPEC(claims, "volumeClaimPolicies", JSON),
};
#undef SPEC
const struct decode_table jobset_spec_table = DECODE_TABLE(struct jobset_spec, NULL, spec_fields);

void jobset_spec_read(const struct json *spec, struct arena *arena, struct jobset_spec *ret)
{
    /* What is not said first, so that what is wrong has it too. */
    (void)decode_object(&jobset_spec_table, arena, json_new_object(arena), ret, NULL);
    (void)decode_over(&jobset_spec_table, arena, spec, ret, NULL);
    ret->may_fail = !json_is_null(json_get(spec, "failurePolicy"));
}
