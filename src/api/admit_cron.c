#include "api/admit.h"
#include "api/cron.h"
#include "api/zone.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

/* batch/v1 CronJob: what is filled in, and what is refused. */

#define NAME_MAX_CRON 52 /* the names of its Jobs have 11 letters more, and 63 is the most */

void admit_cronjob_default(struct admit *admit)
{
    struct json *pods = json_at(admit->object, "spec.jobTemplate.spec.template.spec");

    /* Where nothing is said about restarts, that is the first thing to say. */
    if (json_is(pods, JSON_OBJECT) && !json_is_null(json_get(pods, "restartPolicy")))
        admit_template_default(admit, pods);
}

static void check_schedule(struct admit *admit, const struct json *spec)
{
    const struct json *schedule = json_get(spec, "schedule");
    const struct json *zone = json_get(spec, "timeZone");
    struct str text = json_str(schedule);
    struct cron cron = {0};
    struct err err = {0};

    if (!text.len)
        admit_required(admit, STR("spec.schedule"), "");
    else if (str_contains(text, STR("TZ=")))
        admit_invalid(admit, STR("spec.schedule"), schedule,
                      "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
    else if (cron_parse(text, &cron, &err) < 0)
        admit_invalid(admit, STR("spec.schedule"), schedule, err.text);
    if (!json_is_null(zone) && !zone_is_name(json_str(zone)))
        admit_invalid(admit, STR("spec.timeZone"), zone,
                      "must be the name of a time zone: \"Europe/Berlin\", \"Etc/UTC\"");
}

void admit_cronjob_validate(struct admit *admit)
{
    static const char *const numbers[] = {"startingDeadlineSeconds", "successfulJobsHistoryLimit",
                                          "failedJobsHistoryLimit"};
    const struct json *spec = json_get(admit->object, "spec");
    const struct json *policy = json_get(spec, "concurrencyPolicy");
    const struct json *job = json_at(spec, "jobTemplate.spec");
    const struct json *name = json_at(admit->object, "metadata.name");

    check_schedule(admit, spec);
    if (json_str(name).len > NAME_MAX_CRON && !admit->old)
        admit_invalid(admit, STR("metadata.name"), name, "must be no more than 52 characters");
    if (!str_is(json_str(policy), "Allow") && !str_is(json_str(policy), "Forbid") &&
        !str_is(json_str(policy), "Replace"))
        admit_unsupported(admit, STR("spec.concurrencyPolicy"), policy,
                          "\"Allow\", \"Forbid\", \"Replace\"");
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        if (json_i64_or(json_get(spec, numbers[i]), 0) < 0)
            admit_invalid(admit, str_printf(admit->arena, "spec.%s", numbers[i]),
                          json_get(spec, numbers[i]), "must be greater than or equal to 0");
    if (!json_is(json_get(job, "template"), JSON_OBJECT)) {
        admit_required(admit, STR("spec.jobTemplate.spec.template"), "");
        return;
    }
    if (!json_is_null(json_get(job, "selector")))
        admit_invalid(admit, STR("spec.jobTemplate.spec.selector"), json_get(job, "selector"),
                      "`selector` will be auto-generated");
    if (json_bool_or(json_get(job, "manualSelector"), false))
        admit_unsupported(admit, STR("spec.jobTemplate.spec.manualSelector"),
                          json_get(job, "manualSelector"), "nil, false");
    admit_job_spec(admit, job, STR("spec.jobTemplate.spec"));
    if (json_is_null(json_at(job, "template.spec.restartPolicy")))
        admit_required(admit, STR("spec.jobTemplate.spec.template.spec.restartPolicy"),
                       "valid values: \"OnFailure\", \"Never\"");
}
