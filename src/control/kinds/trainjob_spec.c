#include "api/decode.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "control/kinds/trainjob.h"

#include <stdbool.h>
#include <stddef.h>

/* What is read of a TrainJob and of a runtime, by table. */

static const struct decode_field initializer_fields[] = {
    TRAINJOB_INITIALIZER_FIELDS(struct trainjob_initializer)};
static const struct decode_table trainjob_initializer_table =
    DECODE_TABLE(struct trainjob_initializer, NULL, initializer_fields);
static const struct decode_field spec_fields[] = {TRAINJOB_SPEC_FIELDS(struct trainjob_spec)};
const struct decode_table trainjob_spec_table =
    DECODE_TABLE(struct trainjob_spec, NULL, spec_fields);

void trainjob_spec_read(const struct json *spec, struct arena *arena, struct trainjob_spec *ret)
{
    /* What is not said first, so that what is wrong has it too. */
    (void)decode_object(&trainjob_spec_table, arena, json_new_object(arena), ret, NULL);
    (void)decode_over(&trainjob_spec_table, arena, spec, ret, NULL);
    ret->has_dataset = !json_is_null(json_at(spec, "initializer.dataset"));
    ret->has_model = !json_is_null(json_at(spec, "initializer.model"));
}

static const struct decode_field target_fields[] = {TRAINJOB_TARGET_FIELDS(struct trainjob_target)};
static const struct decode_table trainjob_target_table =
    DECODE_TABLE(struct trainjob_target, NULL, target_fields);
static const struct decode_field policy_fields[] = {TRAINJOB_POLICY_FIELDS(struct trainjob_policy)};
const struct decode_table trainjob_policy_table =
    DECODE_TABLE(struct trainjob_policy, "mlPolicy", policy_fields);
static const struct decode_field runtime_fields[] = {
    TRAINJOB_RUNTIME_FIELDS(struct trainjob_runtime)};
const struct decode_table trainjob_runtime_table =
    DECODE_TABLE(struct trainjob_runtime, NULL, runtime_fields);

void trainjob_runtime_read(const struct json *spec,
                           struct arena *arena,
                           struct trainjob_runtime *ret)
{
    const struct json *policy = json_get(spec, "mlPolicy");

    (void)decode_object(&trainjob_runtime_table, arena, json_new_object(arena), ret, NULL);
    (void)decode_over(&trainjob_runtime_table, arena, spec, ret, NULL);
    (void)decode_object(&trainjob_policy_table, arena, json_new_object(arena), &ret->policy, NULL);
    (void)decode_over(&trainjob_policy_table, arena, spec, &ret->policy, NULL);
    ret->policy.has_torch = !json_is_null(json_get(policy, "torch"));
    ret->policy.has_mpi = !json_is_null(json_get(policy, "mpi"));
    ret->policy.is_elastic = json_count(json_at(policy, "torch.elasticPolicy")) > 0;
}
