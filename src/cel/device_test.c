#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "cel/cel.h"
#include "cel/device.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define DEVICE                                                                                 \
    "{\"name\":\"gpu-0\",\"attributes\":{\"type\":{\"string\":\"gpu\"},\"index\":{\"int\":3}," \
    "\"driverVersion\":{\"version\":\"550.54.15\"},\"resource.kubernetes.io/"                  \
    "pcieRoot\":{\"string\":"                                                                  \
    "\"pci0000:01\"},\"ecc\":{\"bool\":true}},\"capacity\":{\"memory\":{\"value\":\"80Gi\"}}}"

TEST(expressions_select_devices_as_kubernetes_has_it)
{
    static const struct {
        const char *text;
        int answer; /* 1, 0; -1: an error */
    } rows[] = {
        {"device.driver == 'gpu.nvidia.com'", 1},
        {"device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'",
         1},
        {"device.attributes['gpu.nvidia.com'].type == 'mig'", 0},
        {"device.attributes['gpu.nvidia.com'].index > 2", 1},
        {"device.attributes['gpu.nvidia.com'].ecc", 1},
        {"device.attributes['resource.kubernetes.io'].pcieRoot == 'pci0000:01'", 1},
        {"device.attributes['gpu.nvidia.com'].driverVersion.isGreaterThan(semver('535.0.0'))", 1},
        {"device.attributes['gpu.nvidia.com'].driverVersion.isLessThan(semver('535.0.0'))", 0},
        {"device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0", 1},
        {"device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('100Gi'))", 0},
        {"device.attributes['gpu.nvidia.com'].uuid == 'x'", -1}, /* no such attribute */
        {"device.attributes['other.com'].type == 'gpu'", -1}, /* an empty domain has none either */
        {"has(device.attributes['other.com'].type)", 0},
        {"'other.com' in device.attributes", 0},
        {"'gpu.nvidia.com' in device.attributes", 1},
        {"cel.bind(a, device.attributes['gpu.nvidia.com'], a.ecc && a.index == 3)", 1},
        {"device.allowMultipleAllocations", 0},
        {"device.attributes['gpu.nvidia.com'].type", -1}, /* a text is no answer */
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct cel_program *program = NULL;
        struct json *device = NULL;
        struct err err = {0};
        bool yes = false;

        test_case(rows[i].text);
        EXPECT(json_parse(&arena, STR(DEVICE), &device, &err) == 0);
        EXPECT(cel_device_compile(&arena, str_from(rows[i].text), &program, &err) == 0);
        int r =
            program ? cel_device_matches(program, STR("gpu.nvidia.com"), device, &yes, &err) : 0;
        EXPECT(rows[i].answer < 0 ? r < 0 && err.text[0] : r == 0 && yes == (rows[i].answer == 1));
    }
}

TEST(an_expression_that_means_no_device_is_refused)
{
    static const char *const texts[] = {"device.driver ==", "nothing == 1", "'gpu'", "1 + 1"};

    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct cel_program *program = NULL;
        struct err err = {0};

        test_case(texts[i]);
        EXPECT(cel_device_compile(&arena, str_from(texts[i]), &program, &err) < 0);
        EXPECT(strlen(err.text) > 0);
    }
}

TEST(an_expression_that_may_cost_too_much_is_too_complex)
{
    static const struct {
        const char *text;
        bool much;
    } rows[] = {
        {"device.driver == 'a'", false},
        {"device.attributes['a.com'].name == device.attributes['b.com'].name", false},
        {"device.attributes.all(d, device.attributes[d].all(n, n == d))", false},
        {"device.attributes.all(d, device.attributes.all(e, device.attributes.all(f, d == e || e "
         "== "
         "f)))",
         false},
        {"device.attributes.all(d, device.attributes.all(e, device.attributes.all(f, "
         "device.attributes.all(g, d == e || f == g))))",
         true},
        {"device.capacity['a.com'].memory != device.capacity['b.com'].memory", true},
        {"quantity('1') != quantity('2')", true}, /* nothing says how large one is */
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct cel_program *program = NULL;

        test_case(rows[i].text);
        EXPECT(cel_device_compile(&arena, str_from(rows[i].text), &program, NULL) == 0);
        EXPECT(program && cel_device_is_too_complex(&arena, program) == rows[i].much);
    }
}
