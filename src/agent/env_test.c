#include "agent/env.h"
#include "api/kind.h"
#include "api/literal.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Every text of up to six of these letters. */
TEST(a_literal_value_arrives_as_it_is)
{
    static const char letters[] = "$()A";
    struct arena arena = {0};
    struct env env = {0};

    env_set(&arena, &env, STR("A"), STR("one"));
    for (unsigned number = 0; number < 4096; number++) {
        char text[7];

        for (size_t len = 0; len <= 6; len++) {
            for (size_t i = 0; i < len; i++)
                text[i] = letters[number >> 2 * i & 3];
            text[len] = '\0';
            struct str seen = STR_NONE, literal = literal_value(&arena, str_from(text));
            EXPECT(env_expand(&arena, &env, literal, &seen, NULL) == 0 && str_is(seen, text));
        }
    }
    arena_done(&arena);
}

TEST(references_are_expanded_as_kubernetes_does)
{
    static const struct {
        const char *text;
        const char *want;
        const char *why;
    } rows[] = {
        {"plain", "plain", "no reference"},
        {"$(A)", "one", "a known name"},
        {"x$(A)y$(B)", "xoney", "several, one of them empty"},
        {"$(NOPE)", "$(NOPE)", "an unknown name stays"},
        {"$$(A)", "$(A)", "an escaped reference"},
        {"$$$(A)", "$one", "an escaped dollar before a reference"},
        {"$$", "$", "two dollars are one"},
        {"$A ${A}", "$A ${A}", "shell syntax is the shell's"},
        {"$(A", "$(A", "an open bracket"},
        {"$", "$", "a dollar at the end"},
        {"$(A)$(A", "one$(A", "one that is closed before one that is not"},
    };
    struct arena arena = {0};
    struct env env = {0};
    env_set(&arena, &env, STR("A"), STR("zero"));
    env_set(&arena, &env, STR("B"), STR(""));
    env_set(&arena, &env, STR("A"), STR("one"));
    EXPECT(env.count == 2);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        struct str text = STR_NONE;
        EXPECT(env_expand(&arena, &env, str_from(rows[i].text), &text, NULL) == 0);
        EXPECT(str_is(text, rows[i].want));
    }
    arena_done(&arena);
}

TEST(fields_of_the_pod_are_found)
{
    static const struct {
        const char *path;
        const char *want; /* NULL: refused */
        const char *why;
    } rows[] = {
        {"metadata.name", "p", "name"},
        {"metadata.labels['a.b/c']", "d", "a label with dots and a slash"},
        {"metadata.labels['none']", "", "an absent label is empty"},
        {"metadata.labels", "a.b/c=\"d\"\ne=\"f\"", "all labels, one a line"},
        {"metadata.annotations", "", "all annotations, of which there are none"},
        {"spec.nodeName", "n", "the node"},
        {"status.podIP", "127.64.0.1", "the address"},
        {"spec.containers", NULL, "what is not a field"},
        {"metadata.labels['", NULL, "an open subscript"},
    };
    struct arena arena = {0};
    struct err err = {0};
    struct json *pod = NULL;
    struct str text = STR("{\"metadata\":{\"name\":\"p\",\"labels\":{\"a.b/c\":\"d\",\"e\":\"f\"}},"
                          "\"spec\":{}}");
    EXPECT(json_parse(&arena, text, &pod, &err) == 0);
    struct env_context context = {
        .pod = pod, .pod_ip = STR("127.64.0.1"), .node_name = STR("n"), .ns = STR("x")};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct str value = STR_NONE;
        test_case(rows[i].why);
        int r = env_field(&arena, &context, str_from(rows[i].path), &value, &err);
        EXPECT(rows[i].want ? r == 0 && str_is(value, rows[i].want) : r == -EINVAL);
    }
    arena_done(&arena);
}

TEST(resources_are_divided_and_rounded_up)
{
    static const struct {
        const char *reference;
        const char *want;
        const char *why;
    } rows[] = {
        {"{\"resource\":\"limits.cpu\"}", "2", "1500m in whole CPUs"},
        {"{\"resource\":\"limits.cpu\",\"divisor\":\"1m\"}", "1500", "in thousandths"},
        {"{\"resource\":\"limits.memory\",\"divisor\":\"1Mi\"}", "64", "in MiB"},
        {"{\"resource\":\"requests.memory\"}", "0", "nothing asked for"},
    };
    struct arena arena = {0};
    struct err err = {0};
    struct json *container = NULL;
    EXPECT(json_parse(&arena,
                      STR("{\"resources\":{\"limits\":{\"cpu\":\"1500m\",\"memory\":\"64Mi\"}}}"),
                      &container, &err) == 0);
    struct env_context context = {.node_cpu_milli = 4000, .node_memory_bytes = 1 << 30};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct json *reference = NULL;
        struct str value = STR_NONE;
        test_case(rows[i].why);
        EXPECT(json_parse(&arena, str_from(rows[i].reference), &reference, &err) == 0);
        EXPECT(env_resource(&arena, &context, container, reference, &value, &err) == 0);
        EXPECT(str_is(value, rows[i].want));
    }
    arena_done(&arena);
}

TEST(services_are_told_in_the_environment)
{
    static const char *const wanted[] = {
        "MY_FRONT_SERVICE_HOST=10.0.0.1",         "MY_FRONT_SERVICE_PORT=80",
        "MY_FRONT_SERVICE_PORT_WEB=80",           "MY_FRONT_PORT=tcp://10.0.0.1:80",
        "MY_FRONT_PORT_80_TCP=tcp://10.0.0.1:80", "MY_FRONT_PORT_80_TCP_PROTO=tcp",
        "MY_FRONT_PORT_80_TCP_PORT=80",           "MY_FRONT_PORT_80_TCP_ADDR=10.0.0.1",
        "MY_FRONT_PORT_53_UDP=udp://10.0.0.1:53"};
    struct arena arena = {0};
    struct env env = {0};
    struct cache *cache = cache_new(1);
    struct object *service = NULL;
    EXPECT(object_new(&kind_service,
                      STR("{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":"
                          "\"my-front\",\"namespace\":\"x\"},\"spec\":{\"clusterIP\":\"10.0.0.1\","
                          "\"ports\":[{\"name\":\"web\",\"port\":80},{\"port\":53,\"protocol\":"
                          "\"UDP\"}]}}"),
                      &service, NULL) == 0);
    cache_put(cache, service);
    object_unref(service);
    env_add_services(&arena, &env, &(struct env_context){.cache = cache, .ns = STR("x")});
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        bool found = false;
        test_case(wanted[i]);
        for (size_t j = 0; j < env.count; j++)
            found |= str_is(str_printf(&arena, STR_FMT "=" STR_FMT, STR_ARG(env.items[j].name),
                                       STR_ARG(env.items[j].value)),
                            wanted[i]);
        EXPECT(found);
    }
    cache_free(cache);
    arena_done(&arena);
}

#define LARGE      65536 /* of a variable; a container may have sixty-four of them */
#define REFERENCES 256
/* What is kept to find out: the values, and the text around them. */
#define MEMORY_MAX (4 * ENV_BYTES_MAX)

static struct json *container_of(struct arena *arena, struct buf *text)
{
    struct json *container = NULL;
    EXPECT(json_parse(arena, buf_str(text), &container, NULL) == 0);
    return container;
}

static struct str large_text(struct arena *arena)
{
    char *bytes = ARENA_ARRAY(arena, char, LARGE);
    memset(bytes, 'x', LARGE);
    return (struct str){bytes, LARGE};
}

TEST(variables_that_name_large_ones_have_a_budget_together)
{
    static const struct {
        const char *name; /* of each, with its number unless it is always the same */
        bool numbered;
        const char *value;
        const char *why;
    } rows[] = {{"V", true, "$(L0)$(L0)", "each refers to a large one"},
                {"L", false, "$(L0)$(L0)", "one grows out of itself"}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        _cleanup_(buf_done) struct buf text = {0};
        struct env env = {0};
        struct err err = {0};
        test_case(rows[i].why);
        env_set(&arena, &env, STR("L0"), large_text(&arena));
        buf_addf(&text, "{\"env\":[{\"name\":\"A\",\"value\":\"1\"}");
        for (int n = 0; n < REFERENCES; n++)
            buf_addf(&text, ",{\"name\":\"%s%d\",\"value\":\"%s\"}", rows[i].name,
                     rows[i].numbered ? n : 0, rows[i].value);
        buf_addf(&text, "]}");
        const struct json *container = container_of(&arena, &text);
        EXPECT(env_add_container(&arena, &env, &(struct env_context){0}, container, &err) ==
               -E2BIG);
        EXPECT(str_contains(str_from(err.text), STR("more than 4 MiB")));
        EXPECT(arena.bytes_used < MEMORY_MAX);
    }
}

TEST(arguments_count_with_the_variables)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct env env = {0};
    struct err err = {0};
    struct str text = STR_NONE;
    int r = 0, count = 0;
    env_set(&arena, &env, STR("L"), large_text(&arena));
    for (; r == 0 && count < REFERENCES; count++)
        r = env_expand(&arena, &env, STR("$(L)"), &text, &err);
    EXPECT(r == -E2BIG && count == (int)(ENV_BYTES_MAX / LARGE) - 1);
    EXPECT(arena.bytes_used < MEMORY_MAX);
}

TEST(a_configmap_that_many_variables_name_is_read_once)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf text = {0}, raw = {0};
    struct env env = {0};
    struct object *map = NULL;
    struct cache *cache = cache_new(1);
    buf_addf(
        &raw,
        "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"c\",\"namespace\":"
        "\"x\"},\"data\":{\"small\":\"1\"");
    for (int n = 0; n < 8 * REFERENCES; n++)
        buf_addf(&raw, ",\"k%d\":\"\"", n);
    buf_addf(&raw, "}}");
    EXPECT(object_new(&kind_configmap, buf_str(&raw), &map, NULL) == 0);
    cache_put(cache, map);
    object_unref(map);
    buf_addf(&text, "{\"env\":[{\"name\":\"A\"}");
    for (int n = 0; n < REFERENCES; n++)
        buf_addf(&text,
                 ",{\"name\":\"V%d\",\"valueFrom\":{\"configMapKeyRef\":{\"name\":\"c\",\"key\":"
                 "\"small\"}}}",
                 n);
    buf_addf(&text, "]}");
    const struct json *container = container_of(&arena, &text);
    EXPECT(env_add_container(&arena, &env, &(struct env_context){.cache = cache, .ns = STR("x")},
                             container, NULL) == 0);
    EXPECT(str_is(env_get(&env, STR("V255")), "1"));
    EXPECT(arena.bytes_used < ENV_BYTES_MAX);
    cache_free(cache);
}
