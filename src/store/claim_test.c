#include "api/kind.h"
#include "base/count.h"
#include "store/harness.h"
#include "test.h"

#include <stddef.h>
#include <string.h>

/* Kinds of resource.k8s.io: what is filled in, refused and kept. */

#define CLAIM(devices)   "{\"metadata\":{\"name\":\"c\"},\"spec\":{\"devices\":{" devices "}}}"
#define REQUEST(exactly) "\"requests\":[{\"name\":\"r\",\"exactly\":{" exactly "}}]"
#define GPU              "\"deviceClassName\":\"gpu.nvidia.com\""
#define SLICE(more)                                                                              \
    "{\"metadata\":{\"name\":\"s\"},\"spec\":{\"driver\":\"gpu.nvidia.com\",\"pool\":{\"name\":" \
    "\"n\","                                                                                     \
    "\"generation\":1,\"resourceSliceCount\":1}" more "}}"

TEST(a_claim_gets_its_defaults_and_says_once_what_it_wants)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_resourceclaim, "default", CLAIM(REQUEST(GPU))) == 0);
    EXPECT(strcmp(harness_text(&h, "spec.devices.requests.0.exactly.allocationMode"),
                  "ExactCount") == 0);
    EXPECT(strcmp(harness_text(&h, "spec.devices.requests.0.exactly.count"), "1") == 0);
    EXPECT(harness_patch(&h, &kind_resourceclaim, "default", "c",
                         "{\"spec\":{\"devices\":{\"requests\":[]}}}") < 0);
    EXPECT(h.status == 422 && strstr(h.causes, "field is immutable"));
    harness_close(&h);
}

TEST(what_cannot_be_given_is_refused_when_it_is_claimed)
{
    static const struct {
        const char *why;
        const struct kind *kind;
        const char *body;
        const char *cause;
    } rows[] = {
        {"no class", &kind_resourceclaim, CLAIM(REQUEST("\"count\":1")),
         "spec.devices.requests[0].exactly.deviceClassName"},
        {"neither this nor that", &kind_resourceclaim, CLAIM("\"requests\":[{\"name\":\"r\"}]"),
         "must specify one of: `exactly`, `firstAvailable`"},
        {"none of them", &kind_resourceclaim, CLAIM(REQUEST(GPU ",\"count\":-1")),
         "must be greater than zero"},
        {"a number of all", &kind_resourceclaim,
         CLAIM(REQUEST(GPU ",\"allocationMode\":\"All\",\"count\":2")),
         "must not be specified when allocationMode is 'All'"},
        {"another way", &kind_resourceclaim, CLAIM(REQUEST(GPU ",\"allocationMode\":\"Some\"")),
         "allocationMode"},
        {"devices of others", &kind_resourceclaim, CLAIM(REQUEST(GPU ",\"adminAccess\":true")),
         "are not given to a second one here"},
        {"a part of a device", &kind_resourceclaim,
         CLAIM(REQUEST(GPU ",\"capacity\":{\"requests\":{\"memory\":\"1Gi\"}}")),
         "parts of a device are not given here"},
        {"nothing to compare", &kind_resourceclaim,
         CLAIM(REQUEST(GPU) ",\"constraints\":[{\"requests\":[\"r\"]}]"),
         "must specify one of: `matchAttribute`, `distinctAttribute`"},
        {"a request that is not there", &kind_resourceclaim,
         CLAIM(
             REQUEST(GPU) ",\"constraints\":[{\"requests\":[\"x\"],\"matchAttribute\":\"a.b/c\"}]"),
         "must be the name of a request in the claim"},
        {"an attribute of nobody", &kind_resourceclaim,
         CLAIM(REQUEST(GPU) ",\"constraints\":[{\"matchAttribute\":\"numa\"}]"),
         "must include a domain"},
        {"an expression that is none", &kind_resourceclaim,
         CLAIM(REQUEST(GPU ",\"selectors\":[{\"cel\":{\"expression\":\"device.driver ==\"}}]")),
         "spec.devices.requests[0].exactly.selectors[0].cel.expression"},
        {"an expression that is no question", &kind_deviceclass,
         "{\"metadata\":{\"name\":\"c\"},\"spec\":{\"selectors\":[{\"cel\":{\"expression\":\"'gpu'"
         "\"}}]}}",
         "must evaluate to bool"},
        {"a slice that is nowhere", &kind_resourceslice, SLICE(""), "exactly one of `nodeName`"},
        {"a device twice", &kind_resourceslice,
         SLICE(",\"nodeName\":\"n\",\"devices\":[{\"name\":\"a\"},{\"name\":\"a\"}]"),
         "spec.devices[1].name"},
        {"an attribute of two types", &kind_resourceslice,
         SLICE(",\"nodeName\":\"n\",\"devices\":[{\"name\":\"a\",\"attributes\":{\"x\":{\"int\":1,"
               "\"bool\":true}}}]"),
         "exactly one value must be specified"},
        {"a resource of nobody", &kind_deviceclass,
         "{\"metadata\":{\"name\":\"c\"},\"spec\":{\"extendedResourceName\":\"gpu\"}}",
         "must include a domain"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct harness h;

        test_case(rows[i].why);
        harness_open(&h, NULL);
        EXPECT(harness_create(&h, rows[i].kind, rows[i].kind->namespaced ? "default" : "",
                              rows[i].body) < 0);
        EXPECT(h.status == 422 && strstr(h.causes, rows[i].cause));
        harness_close(&h);
    }
}

TEST(devices_that_nobody_is_given_are_stored_with_a_word)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_resourceslice, "",
                          SLICE(",\"nodeName\":\"n\",\"devices\":[{\"name\":\"a\","
                                "\"allowMultipleAllocations\":true}]")) == 0);
    EXPECT(strstr(h.warnings, "it is not given to anybody here"));
    harness_close(&h);
}
