#include "api/karta.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "conformance/conformance.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

/* The Kartas that recorded cases leave out. KAI's tests make them in code: one workload, a PyFlow of
 * a master and workers, that says its replicas per role and labels its pods with it; what is told
 * of gangs differs from test to test. What has to come out is in the recordings alone. */

#define COMPONENT(role, template)                                                                \
    "{\"name\":\"" role                                                                          \
    "\",\"ownerRef\":\"pyflow\"," template "\"scaleDefinition\":{\"replicasPath\":\".spec." role \
                                           ".replicas\"},"                                       \
                                           "\"podSelector\":{\"componentTypeSelector\":{"        \
                                           "\"keyPath\":\".metadata.labels.role\","              \
                                           "\"value\":\"" role "\"}}}"
#define TEMPLATE(role) "\"specDefinition\":{\"podTemplateSpecPath\":\".spec." role ".template\"},"
#define KARTA(master, worker)                                                          \
    "{\"apiVersion\":\"run.ai/v1alpha1\",\"kind\":\"" KARTA_KIND                       \
    "\",\"metadata\":{\"name\":\"pyflow\"},\"spec\":{\"structureDefinition\":{"        \
    "\"rootComponent\":{\"name\":\"pyflow\",\"kind\":{\"group\":\"jobs.example.com\"," \
    "\"version\":\"v1\",\"kind\":\"PyFlow\"}},\"childComponents\":[" COMPONENT(        \
        "master", master) "," COMPONENT("worker", worker) "]},\"optimizationInstructions\":{%s}}}"

#define WHOLE(members) "\"gangScheduling\":{\"podGroup\":{" members "}}"
#define KEYED                                                                      \
    "\"podGroups\":[{\"name\":\"job\",\"members\":[{\"componentName\":\"pyflow\"," \
    "\"groupByKeyPaths\":[\".metadata.labels[\\\"job-name\\\"]\"]}]}]"
#define TOPOLOGY(name, preferred, required)                                               \
    "\"topology\":{\"topologyName\":\"" name "\",\"preferredTopologyLevel\":\"" preferred \
    "\",\"requiredTopologyLevel\":\"" required "\"}"
#define SUBGROUPS "\"subGroups\":[{\"componentName\":\"master\"},{\"componentName\":\"worker\"}]"

static const struct {
    const char *test; /* its name, without what they all begin with */
    const char *gang;
    bool bare; /* components do not say where their pods are described */
} told[] = {
    {"PodGroupV2",
     WHOLE("\"name\":\"training\"," TOPOLOGY(
         "rack-topology",
         "rack",
         "zone") ",\"subGroups\":[{\"componentName\":\"master\"},{\"componentName\":"
                 "\"worker\"," TOPOLOGY("gpu-topology", "host", "rack") "}]"),
     false},
    {"PodGroupV2WithoutSubGroups", WHOLE("\"name\":\"training\""), false},
    {"PodGroupV2DoesNotRequireSpecDefinition", WHOLE("\"name\":\"training\"," SUBGROUPS), true},
    {"PodGroupV2TakesPrecedenceOverAlphaPodGroups",
     "\"gangScheduling\":{\"podGroup\":{\"name\":\"v2\",\"subGroups\":[{\"componentName\":"
     "\"worker\"}]}," KEYED "}",
     false},
    {"AlphaPodGroups", "\"gangScheduling\":{" KEYED "}", false},
    {"AlphaPodGroupsFailsWhenGroupingKeysProduceInvalidName", "\"gangScheduling\":{" KEYED "}",
     false},
    {"AlphaPodGroupsFailsWhenPodDoesNotMatchAnyMember",
     "\"gangScheduling\":{\"podGroups\":[{\"name\":\"job\",\"members\":[{\"componentName\":"
     "\"pyflow\",\"filters\":[\".metadata.labels.role == \\\"master\\\"\"]}]}]}",
     false},
    {"WithoutGangSchedulingFallsBackToDefaultGrouper", "", false},
};

const struct json *recorded_karta(struct arena *arena, const struct json *scenario)
{
    struct str name = json_str(json_get(scenario, "name"));
    struct json *karta = NULL;

    if (!str_is(json_str(json_get(scenario, "rule")), KARTA_KIND) ||
        !str_starts(name, STR("TestGetPodGroupMetadata_")))
        return NULL;
    JSON_FOREACH(json_get(scenario, "cluster_objects"), object)
        if (str_is(json_str(json_get(object, "kind")), KARTA_KIND))
            return NULL; /* it has one of its own */
    name = str_sub(name, sizeof("TestGetPodGroupMetadata_") - 1, name.len);
    for (size_t i = 0; i < COUNT_OF(told); i++) {
        if (!str_is(name, told[i].test))
            continue;
        struct str text =
            told[i].bare
                ? str_printf(arena, KARTA("", ""), told[i].gang)
                : str_printf(arena, KARTA(TEMPLATE("master"), TEMPLATE("worker")), told[i].gang);
        int r = json_parse(arena, text, &karta, NULL);
        assert(r == 0);
        (void)r;
    }
    return karta;
}
