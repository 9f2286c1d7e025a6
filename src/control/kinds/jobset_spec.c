#include "api/decode.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "control/kinds/jobset.h"

#include <stddef.h>

/* What is read of a JobSet, by table. */

static const struct decode_field depend_fields[] = {JOBSET_DEPEND_FIELDS(struct jobset_depend)};
static const struct decode_table jobset_depend_table =
    DECODE_TABLE(struct jobset_depend, NULL, depend_fields);
static const struct decode_field part_fields[] = {JOBSET_PART_FIELDS(struct jobset_part_spec)};
static const struct decode_table jobset_part_table =
    DECODE_TABLE(struct jobset_part_spec, NULL, part_fields);
static const struct decode_field rule_fields[] = {JOBSET_RULE_FIELDS(struct jobset_rule)};
static const struct decode_table jobset_rule_table =
    DECODE_TABLE(struct jobset_rule, NULL, rule_fields);
static const struct decode_field spec_fields[] = {JOBSET_SPEC_FIELDS(struct jobset_spec)};
const struct decode_table jobset_spec_table = DECODE_TABLE(struct jobset_spec, NULL, spec_fields);

void jobset_spec_read(const struct json *spec, struct arena *arena, struct jobset_spec *ret)
{
    /* What is not said first, so that what is wrong has it too. */
    (void)decode_object(&jobset_spec_table, arena, json_make(arena, "{replicatedJobs: []}"), ret,
                        NULL);
    (void)decode_over(&jobset_spec_table, arena, spec, ret, NULL);
    ret->may_fail = !json_is_null(json_get(spec, "failurePolicy"));
}
