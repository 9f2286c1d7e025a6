#include "api/admit.h"
#include "api/names.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

/* APIServices: which server answers a version of an API group. */

static void check_spec(struct admit *admit)
{
    static const struct {
        const char *field;
        int64_t most;
        const char *detail;
    } numbers[] = {
        {"groupPriorityMinimum", 20000, "must be positive and less than 20000"},
        {"versionPriority", 1000, "must be positive and less than 1000"},
    };
    const struct json *spec = json_get(admit->object, "spec");
    struct str group = json_str(json_get(spec, "group"));
    struct str version = json_str(json_get(spec, "version"));
    const char *wrong = group.len ? names_dns_subdomain(group) : NULL;

    if (!group.len && !str_is(version, "v1"))
        admit_required(admit, STR("spec.group"),
                       "only v1 may have an empty group and it better be legacy kube");
    if (wrong)
        admit_invalid(admit, STR("spec.group"), json_get(spec, "group"), wrong);
    if ((wrong = names_dns_1035_label(version)))
        admit_invalid(admit, STR("spec.version"), json_get(spec, "version"), wrong);
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        const struct json *number = json_get(spec, numbers[i].field);
        int64_t value = json_i64_or(number, 0);

        if (value <= 0 || value > numbers[i].most)
            admit_invalid(admit, str_printf(admit->arena, "spec.%s", numbers[i].field), number,
                          numbers[i].detail);
    }
}

static void check_local(struct admit *admit)
{
    const struct json *spec = json_get(admit->object, "spec");
    struct str ca = json_str(json_get(spec, "caBundle"));
    const struct json *insecure = json_get(spec, "insecureSkipTLSVerify");

    if (ca.len)
        admit_invalid(admit, STR("spec.caBundle"),
                      json_new_str(admit->arena, str_printf(admit->arena, "%zu bytes", ca.len)),
                      "local APIServices may not have a caBundle");
    if (json_bool_or(insecure, false))
        admit_invalid(admit, STR("spec.insecureSkipTLSVerify"), insecure,
                      "local APIServices may not have insecureSkipTLSVerify");
}

/* Requests go there: it must be a place, and none that this server is itself. */
static void check_service(struct admit *admit)
{
    const struct json *spec = json_get(admit->object, "spec");
    const struct json *service = json_get(spec, "service");
    const struct json *port = json_get(service, "port");
    const struct json *insecure = json_get(spec, "insecureSkipTLSVerify");
    const struct json *old = json_at(admit->old, "metadata.labels");
    int64_t number = json_i64_or(port, 443);

    if (!json_str(json_get(service, "namespace")).len)
        admit_required(admit, STR("spec.service.namespace"), "");
    if (!json_str(json_get(service, "name")).len)
        admit_required(admit, STR("spec.service.name"), "");
    if (number < 1 || number > UINT16_MAX)
        admit_invalid(admit, STR("spec.service.port"), port,
                      "port is not valid: must be between 1 and 65535, inclusive");
    if (json_bool_or(insecure, false) && json_str(json_get(spec, "caBundle")).len)
        admit_invalid(admit, STR("spec.insecureSkipTLSVerify"), insecure,
                      "may not be true if caBundle is present");
    if (json_get(old, "kube-aggregator.kubernetes.io/automanaged"))
        admit_forbidden(admit, STR("spec.service"),
                        "this server serves the group version itself; requests to it are not "
                        "handed on");
}

void admit_apiservice_validate(struct admit *admit)
{
    const struct json *name = json_at(admit->object, "metadata.name");
    struct str wanted = str_printf(admit->arena, STR_FMT "." STR_FMT,
                                   STR_ARG(json_str_at(admit->object, "spec.version")),
                                   STR_ARG(json_str_at(admit->object, "spec.group")));

    if (!str_eq(json_str(name), wanted))
        admit_invalid(admit, STR("metadata.name"), name,
                      str_printf(admit->arena,
                                 "must be `spec.version+\".\"+spec.group`: \"" STR_FMT "\"",
                                 STR_ARG(wanted))
                          .p);
    check_spec(admit);
    if (json_is_null(json_at(admit->object, "spec.service")))
        check_local(admit);
    else
        check_service(admit);
}
