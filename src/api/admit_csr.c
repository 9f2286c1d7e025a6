#include "api/admit.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"
#include "base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CertificateSigningRequests. What is asked for is fixed when it is made; /approval changes the
 * conditions Approved and Denied, /status everything else of the status. */

#define EXPIRATION_SECONDS_MIN 600

static bool condition_is_approval(const struct json *condition)
{
    struct str type = json_str(json_get(condition, "type"));

    return str_is(type, "Approved") || str_is(type, "Denied");
}

static const struct json *condition_of(const struct json *object, struct str type)
{
    JSON_FOREACH(json_at(object, "status.conditions"), condition)
        if (str_eq(json_str(json_get(condition, "type")), type))
            return condition;
    return NULL;
}

void admit_csr_add(struct admit *admit)
{
    struct str now = time_text(admit->arena, admit->now_ms);

    JSON_FOREACH(json_at(admit->object, "status.conditions"), condition) {
        admit_fill_c(admit, condition, "status", "True");
        if (json_is_null(json_get(condition, "lastUpdateTime")))
            json_add_str(admit->arena, condition, "lastUpdateTime", now);
        if (json_is_null(json_get(condition, "lastTransitionTime")))
            json_add_str(admit->arena, condition, "lastTransitionTime", now);
    }
}

static void check_request(struct admit *admit, const struct json *spec)
{
    struct str bytes = STR("");
    const struct json *request = json_get(spec, "request");

    if (!base64_decode(admit->arena, json_str(request), &bytes) ||
        !str_contains(bytes, STR("-----BEGIN CERTIFICATE REQUEST-----")))
        admit_invalid(admit, STR("spec.request"), NULL,
                      "PEM block type must be CERTIFICATE REQUEST");
}

static void check_signer(struct admit *admit, const struct json *spec)
{
    const struct json *name = json_get(spec, "signerName");
    size_t slash = str_find(json_str(name), '/');

    if (!json_str(name).len)
        admit_required(admit, STR("spec.signerName"), "");
    else if (!slash || slash + 1 >= json_str(name).len)
        admit_invalid(admit, STR("spec.signerName"), name,
                      "must be a fully qualified domain and path of the form "
                      "'example.com/signer-name'");
    else if (str_is(json_str(name), "kubernetes.io/legacy-unknown"))
        admit_invalid(admit, STR("spec.signerName"), name,
                      "the legacy signerName is not allowed via this API version");
}

static void check_usages(struct admit *admit, const struct json *spec)
{
    static const char *const known[] = {"signing",
                                        "digital signature",
                                        "content commitment",
                                        "key encipherment",
                                        "key agreement",
                                        "data encipherment",
                                        "cert sign",
                                        "crl sign",
                                        "encipher only",
                                        "decipher only",
                                        "any",
                                        "server auth",
                                        "client auth",
                                        "code signing",
                                        "email protection",
                                        "s/mime",
                                        "ipsec end system",
                                        "ipsec tunnel",
                                        "ipsec user",
                                        "timestamping",
                                        "ocsp signing",
                                        "microsoft sgc",
                                        "netscape sgc"};

    const struct json *usages = json_get(spec, "usages");
    _cleanup_(map_done) struct map seen = {.seed = (uintptr_t)usages};
    size_t index = 0;

    if (!json_count(usages))
        admit_required(admit, STR("spec.usages"), "");
    JSON_FOREACH(usages, usage) {
        struct str where = str_printf(admit->arena, "spec.usages[%zu]", index++);
        bool found = false;

        for (size_t i = 0; i < COUNT_OF(known); i++)
            found |= str_is(json_str(usage), known[i]);
        if (!found)
            admit_unsupported(admit, where, usage, "\"client auth\", \"server auth\" and others");
        else if (map_set(&seen, json_str(usage), usage))
            admit_duplicate(admit, where, usage);
    }
}

static void check_conditions(struct admit *admit)
{
    bool approval = str_is(admit->subresource, "approval");

    if (condition_of(admit->object, STR("Approved")) && condition_of(admit->object, STR("Denied")))
        admit_invalid(admit, STR("status.conditions"), NULL,
                      "Approved and Denied conditions are mutually exclusive");
    JSON_FOREACH(json_at(admit->old, "status.conditions"), before)
        if (!condition_of(admit->object, json_str(json_get(before, "type"))))
            admit_forbidden(admit, STR("status.conditions"),
                            str_printf(admit->arena,
                                       "updates may not remove a condition of type \"" STR_FMT "\"",
                                       STR_ARG(json_str(json_get(before, "type"))))
                                .p);
    JSON_FOREACH(json_at(admit->object, "status.conditions"), condition) {
        struct str type = json_str(json_get(condition, "type"));

        if (!type.len)
            admit_required(admit, STR("status.conditions.type"), "");
        if (!approval && condition_is_approval(condition) && !condition_of(admit->old, type))
            admit_forbidden(admit, STR("status.conditions"),
                            str_printf(admit->arena,
                                       "updates may not add a condition of type \"" STR_FMT
                                       "\"; use the subresource approval",
                                       STR_ARG(type))
                                .p);
    }
    if (json_str_at(admit->old, "status.certificate").len &&
        !str_eq(json_str_at(admit->old, "status.certificate"),
                json_str_at(admit->object, "status.certificate")))
        admit_forbidden(admit, STR("status.certificate"), "updates may not change it");
}

void admit_csr_validate(struct admit *admit)
{
    const struct json *spec = json_get(admit->object, "spec");
    int64_t seconds = json_i64_or(json_get(spec, "expirationSeconds"), EXPIRATION_SECONDS_MIN);

    if (admit->old) {
        check_conditions(admit);
        return;
    }
    check_request(admit, spec);
    check_signer(admit, spec);
    check_usages(admit, spec);
    if (seconds < EXPIRATION_SECONDS_MIN)
        admit_invalid(admit, STR("spec.expirationSeconds"), json_get(spec, "expirationSeconds"),
                      "may not specify a duration less than 600 seconds (10 minutes)");
}
