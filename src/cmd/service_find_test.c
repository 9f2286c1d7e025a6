#include "api/kind.h"
#include "api/service_find.h"
#include "base/count.h"
#include "base/str.h"
#include "store/harness.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <uv.h>

/* Where a Service leads, by what is stored. */
struct found {
    bool called;
    enum service_lack lack;
    char text[128]; /* "IP:PORT POD" */
};

static void on_place(void *user, const struct service_place *place)
{
    struct found *found = user;

    EXPECT(!found->called);
    found->called = true;
    found->lack = place->lack;
    (void)snprintf(found->text, sizeof(found->text), STR_FMT ":%u " STR_FMT, STR_ARG(place->ip),
                   (unsigned)place->port, STR_ARG(place->pod));
}

#define PORTS  "\"ports\":[{\"name\":\"web\",\"port\":80},{\"name\":\"tls\",\"port\":443}]"
#define TARGET "\"targetRef\":{\"kind\":\"Pod\",\"name\":\"p\"}"

static void fill(struct harness *harness)
{
    static const struct {
        const struct kind *kind;
        const char *body;
    } objects[] = {
        {&kind_service, "{\"metadata\":{\"name\":\"a\"},\"spec\":{" PORTS "}}"},
        {&kind_endpoints,
         "{\"metadata\":{\"name\":\"a\"},\"subsets\":[{\"notReadyAddresses\":[{\"ip\":\"10.0.0.9\"}"
         "],\"ports\":[{\"name\":\"web\",\"port\":1}]},{\"addresses\":[{\"ip\":\"10.0.0.1\"},"
         "{\"ip\":\"10.0.0.2\"," TARGET "}],\"ports\":[{\"name\":\"web\",\"port\":8080},"
         "{\"name\":\"tls\",\"port\":8443}]}]}"},
        {&kind_service,
         "{\"metadata\":{\"name\":\"sliced\"},\"spec\":{\"ports\":[{\"port\":443}]}}"},
        {&kind_endpointslice,
         "{\"metadata\":{\"name\":\"s\",\"labels\":{\"kubernetes.io/service-name\":\"sliced\"}},"
         "\"addressType\":\"IPv4\",\"endpoints\":[{\"addresses\":[\"10.0.0.3\"],\"conditions\":{"
         "\"ready\":false}},{\"addresses\":[\"10.0.0.4\"]}],\"ports\":[{\"port\":6443}]}"},
        {&kind_service, "{\"metadata\":{\"name\":\"empty\"},\"spec\":{" PORTS "}}"},
    };
    for (size_t i = 0; i < COUNT_OF(objects); i++)
        EXPECT(harness_create(harness, objects[i].kind, "default", objects[i].body) == 0);
}

TEST(a_service_leads_to_a_ready_address_of_its_endpoints)
{
    static const struct {
        const char *why;
        struct service_wish wish;
        enum service_lack lack;
        const char *text;
    } rows[] = {
        {"a number is a port of the Service",
         {.name = STR("a"), .port = STR("443")},
         SERVICE_LACKS_NOTHING,
         "10.0.0.1:8443 "},
        {"a name is one of the endpoints",
         {.name = STR("a"), .port = STR("web")},
         SERVICE_LACKS_NOTHING,
         "10.0.0.1:8080 "},
        {"any will do", {.name = STR("a")}, SERVICE_LACKS_NOTHING, "10.0.0.1:8080 "},
        {"each in turn",
         {.name = STR("a"), .port = STR("web"), .turn = 3},
         SERVICE_LACKS_NOTHING,
         "10.0.0.2:8080 p"},
        {"pods alone",
         {.name = STR("a"), .port = STR("web"), .pods_only = true},
         SERVICE_LACKS_NOTHING,
         "10.0.0.2:8080 p"},
        {"a number it does not have",
         {.name = STR("a"), .port = STR("8080")},
         SERVICE_LACKS_PORT,
         NULL},
        {"a name they do not have",
         {.name = STR("a"), .port = STR("x")},
         SERVICE_LACKS_ADDRESSES,
         NULL},
        {"a slice that somebody wrote",
         {.name = STR("sliced"), .port = STR("443")},
         SERVICE_LACKS_NOTHING,
         "10.0.0.4:6443 "},
        {"a slice has no pod",
         {.name = STR("sliced"), .port = STR("443"), .pods_only = true},
         SERVICE_LACKS_ADDRESSES,
         NULL},
        {"nobody listens",
         {.name = STR("empty"), .port = STR("443")},
         SERVICE_LACKS_ADDRESSES,
         NULL},
        {"no such Service", {.name = STR("b"), .port = STR("443")}, SERVICE_LACKS_ITSELF, NULL},
        {"none of that name, by any port", {.name = STR("b")}, SERVICE_LACKS_ITSELF, NULL},
    };
    struct harness harness;

    harness_open(&harness, NULL);
    fill(&harness);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct service_wish wish = rows[i].wish;
        struct found found = {0};

        test_case(rows[i].why);
        wish.ns = STR("default");
        service_find(harness.api, &wish, on_place, &found);
        EXPECT(!found.called);
        harness_settle(&harness);
        EXPECT(found.called && found.lack == rows[i].lack);
        if (rows[i].text)
            EXPECT(str_is(str_from(found.text), rows[i].text));
    }
    harness_close(&harness);
}
