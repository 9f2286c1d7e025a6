#include "api/admit.h"
#include "api/convert.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* Kinds that are stored and served only: what is filled in, and what would be refused elsewhere
 * too. */

void admit_podtemplate_default(struct admit *admit)
{
    struct json *pods = json_at(admit->object, "template.spec");

    if (json_is(pods, JSON_OBJECT))
        admit_template_default(admit, pods);
}

void admit_podtemplate_validate(struct admit *admit)
{
    admit_pod_validate(admit, json_at(admit->object, "template.spec"), STR("template.spec"));
}

/* Without any metric it is the use of CPU that counts, in percent of what pods request. */
#define CPU_PERCENT 80

static void default_metrics(struct admit *admit)
{
    struct json *spec = json_get(admit->object, "spec");

    if (!json_is(spec, JSON_OBJECT) || json_count(json_get(spec, "metrics")))
        return;
    json_remove(spec, STR("metrics"));
    json_push(json_add_array(admit->arena, spec, "metrics"),
              json_make(admit->arena,
                        "{type: 'Resource', resource: {name: 'cpu', target: {type: 'Utilization', "
                        "averageUtilization: $}}}",
                        json_new_i64(admit->arena, CPU_PERCENT)));
}

void admit_hpa_v1_default(struct admit *admit)
{
    struct json *spec = json_get(admit->object, "spec");
    const struct json *others =
        json_get(json_at(admit->object, "metadata.annotations"), HPA_METRICS);

    if (json_is(spec, JSON_OBJECT) && !others)
        admit_fill_i64(admit, spec, "targetCPUUtilizationPercentage", CPU_PERCENT);
}

/* Both ways have the same type; how fast they are where nothing is said differs. */
void admit_hpa_default(struct admit *admit)
{
    static const char fast[] = "[{\"type\":\"Pods\",\"value\":4,\"periodSeconds\":15},"
                               "{\"type\":\"Percent\",\"value\":100,\"periodSeconds\":15}]";
    static const char down[] = "[{\"type\":\"Percent\",\"value\":100,\"periodSeconds\":15}]";
    struct json *behavior = json_at(admit->object, "spec.behavior");
    struct json *ways[] = {json_get(behavior, "scaleUp"), json_get(behavior, "scaleDown")};

    for (size_t i = 0; i < 2; i++) {
        struct json *policies = NULL;

        if (!json_is(ways[i], JSON_OBJECT) || !json_is_null(json_get(ways[i], "policies")))
            continue;
        int r = json_parse(admit->arena, str_from(i == 0 ? fast : down), &policies, NULL);
        assert(r == 0);
        (void)r;
        json_set(ways[i], STR("policies"), policies);
    }
    if (json_is(ways[0], JSON_OBJECT))
        admit_fill_i64(admit, ways[0], "stabilizationWindowSeconds", 0);
    default_metrics(admit);
}

void admit_networkpolicy_default(struct admit *admit)
{
    struct json *spec = json_make_path(admit->arena, admit->object, "spec");

    if (!json_is(spec, JSON_OBJECT) || json_count(json_get(spec, "policyTypes")))
        return;
    struct json *types = json_add_array(admit->arena, spec, "policyTypes");
    json_push(types, json_new_str(admit->arena, STR("Ingress")));
    if (json_count(json_get(spec, "egress")))
        json_push(types, json_new_str(admit->arena, STR("Egress")));
}

void admit_networkpolicy_validate(struct admit *admit)
{
    if (json_count(json_at(admit->object, "spec.policyTypes")) > 2)
        admit_invalid(admit, STR("spec.policyTypes"), json_at(admit->object, "spec.policyTypes"),
                      "may not specify more than two policyTypes");
    JSON_FOREACH(json_at(admit->object, "spec.policyTypes"), type)
        if (!str_is(json_str(type), "Ingress") && !str_is(json_str(type), "Egress"))
            admit_unsupported(admit, STR("spec.policyTypes"), type, "\"Egress\", \"Ingress\"");
}

static void check_backend(struct admit *admit, const struct json *backend, struct str path)
{
    const struct json *service = json_get(backend, "service");

    if (json_is_null(service) == json_is_null(json_get(backend, "resource")))
        admit_invalid(admit, path, backend, "exactly one of service and resource is needed");
    if (!json_is_null(service) && !json_str(json_get(service, "name")).len)
        admit_required(admit, str_printf(admit->arena, STR_FMT ".service.name", STR_ARG(path)), "");
}

void admit_ingress_validate(struct admit *admit)
{
    const struct json *spec = json_get(admit->object, "spec");
    size_t rule_index = 0;

    if (json_is_null(json_get(spec, "defaultBackend")) && !json_count(json_get(spec, "rules")))
        admit_invalid(admit, STR("spec"), spec,
                      "either `defaultBackend` or `rules` must be specified");
    if (!json_is_null(json_get(spec, "defaultBackend")))
        check_backend(admit, json_get(spec, "defaultBackend"), STR("spec.defaultBackend"));
    JSON_FOREACH(json_get(spec, "rules"), rule) {
        size_t index = 0;

        JSON_FOREACH(json_at(rule, "http.paths"), path) {
            struct str field =
                str_printf(admit->arena, "spec.rules[%zu].http.paths[%zu]", rule_index, index++);
            const struct json *type = json_get(path, "pathType");
            struct str word = json_str(type);

            if (json_is_null(type))
                admit_required(admit, str_printf(admit->arena, STR_FMT ".pathType", STR_ARG(field)),
                               "pathType must be specified");
            else if (!str_is(word, "Exact") && !str_is(word, "Prefix") &&
                     !str_is(word, "ImplementationSpecific"))
                admit_unsupported(admit,
                                  str_printf(admit->arena, STR_FMT ".pathType", STR_ARG(field)),
                                  type, "\"Exact\", \"ImplementationSpecific\", \"Prefix\"");
            check_backend(admit, json_get(path, "backend"),
                          str_printf(admit->arena, STR_FMT ".backend", STR_ARG(field)));
        }
        rule_index++;
    }
}

void admit_storagecapacity_validate(struct admit *admit)
{
    const struct json *size = json_get(admit->object, "capacity");

    if (str_starts(json_str(size), STR("-")))
        admit_invalid(admit, STR("capacity"), size, "must be greater than or equal to 0");
}
