#include "api/admit.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <stddef.h>

#define SPEC    "\"groupPriorityMinimum\":1,\"versionPriority\":1"
#define SERVICE "\"service\":{\"namespace\":\"n\",\"name\":\"s\",\"port\":443}"
#define OWN                                                                           \
    "{\"metadata\":{\"name\":\"v1.a.b\",\"labels\":{\"kube-aggregator.kubernetes.io/" \
    "automanaged\":\"onstart\"}}}"

TEST(an_apiservice_says_who_serves_a_version_or_is_refused)
{
    static const struct {
        const char *why;
        const char *name;
        const char *spec;
        const char *old;   /* NULL: it is a new one */
        const char *cause; /* "field: message" of the first; "": it is fine */
    } rows[] = {
        {"this server's own", "v1.a.b", "\"group\":\"a.b\",\"version\":\"v1\"," SPEC, NULL, ""},
        {"the core group", "v1.", "\"version\":\"v1\"," SPEC, NULL, ""},
        {"another one's", "v1.a.b", "\"group\":\"a.b\",\"version\":\"v1\"," SPEC "," SERVICE, NULL,
         ""},
        {"only the core group has no name", "v2.", "\"version\":\"v2\"," SPEC, NULL,
         "spec.group: Required value: only v1 may have an empty group and it better be legacy "
         "kube"},
        {"a version that is none", "1.a.b", "\"group\":\"a.b\",\"version\":\"1\"," SPEC, NULL,
         "spec.version: Invalid value"},
        {"a group that is none", "v1.A", "\"group\":\"A\",\"version\":\"v1\"," SPEC, NULL,
         "spec.group: Invalid value"},
        {"no priority", "v1.a.b",
         "\"group\":\"a.b\",\"version\":\"v1\",\"groupPriorityMinimum\":0,\"versionPriority\":1",
         NULL, "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000"},
        {"too much of it", "v1.a.b",
         "\"group\":\"a.b\",\"version\":\"v1\",\"groupPriorityMinimum\":1,\"versionPriority\":1001",
         NULL, "spec.versionPriority: Invalid value: 1001: must be positive and less than 1000"},
        {"nobody's authority", "v1.a.b",
         "\"group\":\"a.b\",\"version\":\"v1\",\"caBundle\":\"QQ==\"," SPEC, NULL,
         "spec.caBundle: Invalid value: \"4 bytes\": local APIServices may not have a caBundle"},
        {"nobody who is not checked", "v1.a.b",
         "\"group\":\"a.b\",\"version\":\"v1\",\"insecureSkipTLSVerify\":true," SPEC, NULL,
         "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have "
         "insecureSkipTLSVerify"},
        {"checked and not checked", "v1.a.b",
         "\"group\":\"a.b\",\"version\":\"v1\",\"insecureSkipTLSVerify\":true,\"caBundle\":"
         "\"QQ==\"," SPEC "," SERVICE,
         NULL,
         "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present"},
        {"a Service without a name", "v1.a.b",
         "\"group\":\"a.b\",\"version\":\"v1\"," SPEC ",\"service\":{\"namespace\":\"n\"}", NULL,
         "spec.service.name: Required value"},
        {"a port that is none", "v1.a.b",
         "\"group\":\"a.b\",\"version\":\"v1\"," SPEC ",\"service\":{\"namespace\":\"n\","
         "\"name\":\"s\",\"port\":70000}",
         NULL, "spec.service.port: Invalid value: 70000: port is not valid"},
        {"what this server serves stays its own", "v1.a.b",
         "\"group\":\"a.b\",\"version\":\"v1\"," SPEC "," SERVICE, OWN,
         "spec.service: Forbidden: this server serves the group version itself"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct admit admit = {.arena = &arena, .kind = &kind_apiservice};
        struct json *old = NULL;

        test_case(rows[i].why);
        EXPECT(json_parse(&arena,
                          str_printf(&arena, "{\"metadata\":{\"name\":\"%s\"},\"spec\":{%s}}",
                                     rows[i].name, rows[i].spec),
                          &admit.object, NULL) == 0);
        if (rows[i].old)
            EXPECT(json_parse(&arena, str_from(rows[i].old), &old, NULL) == 0);
        admit.old = old;
        admit_apiservice_validate(&admit);
        struct str cause = STR("");
        if (admit.causes.count)
            cause = str_printf(&arena, STR_FMT ": " STR_FMT, STR_ARG(admit.causes.items[0].field),
                               STR_ARG(admit.causes.items[0].message));
        EXPECT(str_starts(cause, str_from(rows[i].cause)) && !cause.len == !*rows[i].cause);
    }
}
