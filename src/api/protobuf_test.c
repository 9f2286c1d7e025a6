#include "api/protobuf.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static struct str from_hex(struct arena *arena, const char *hex)
{
    char *out = ARENA_ARRAY(arena, char, strlen(hex) + 1);
    size_t len = 0;
    int high = -1;

    for (; *hex; hex++) {
        const char *digits = "0123456789abcdef";
        const char *at = strchr(digits, *hex);

        if (!at)
            continue;
        if (high < 0) {
            high = (int)(at - digits);
        } else {
            out[len++] = (char)(high * 16 + (int)(at - digits));
            high = -1;
        }
    }
    return (struct str){out, len};
}

/* What kubectl sent for `create configmap cm2 --from-literal=a=b`. */
#define CONFIGMAP                                                                                  \
    "6b387300 0a0f 0a027631 1209436f6e6669674d6170 121d 0a13 0a03636d32 1200 1a00 2200 2a00 3200 " \
    "3800 4200 1206 0a0161 120162 1a00 2200"

TEST(protobuf_configmap_of_kubectl_is_read)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *root = NULL;

    EXPECT(protobuf_to_json(&arena, from_hex(&arena, CONFIGMAP), NULL, &root, NULL) == 0);
    EXPECT(str_is(json_text(&arena, root),
                  "{\"metadata\":{\"name\":\"cm2\"},\"data\":{\"a\":\"b\"},"
                  "\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"}"));
}

TEST(protobuf_secret_bytes_become_base64)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *root = NULL;
    /* Secret s with data k = 00 ff 10 41 */
    struct str body = from_hex(&arena, "6b387300 0a0c 0a027631 1206536563726574 1210 0a03 0a0173 "
                                       "1209 0a016b 120400ff1041");

    EXPECT(protobuf_to_json(&arena, body, NULL, &root, NULL) == 0);
    EXPECT(str_is(json_str(json_at(root, "data.k")), "AP8QQQ=="));
}

TEST(protobuf_broken_anywhere_is_refused_not_read_beyond)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str whole = from_hex(&arena, CONFIGMAP);

    for (size_t len = 0; len < whole.len; len++) {
        struct json *root = NULL;
        struct err err = {0};
        /* A copy of exactly that length, so that a sanitizer sees a read past it. */
        struct str part = str_dup(&arena, str_sub(whole, 0, len));

        if (protobuf_to_json(&arena, part, NULL, &root, &err) == 0)
            EXPECT(root != NULL);
        else
            EXPECT(err.text[0] != 0);
    }
}

TEST(protobuf_of_an_unknown_kind_says_so)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *root = NULL;
    struct err err = {0};

    EXPECT(protobuf_to_json(&arena, from_hex(&arena, "6b387300 0a09 0a027631 1203466f6f"), NULL,
                            &root, &err) == -EPROTONOSUPPORT);
}

/* ---- bodies made by hand ---- */

static void put_varint(struct buf *out, uint64_t number)
{
    for (; number >= 0x80; number >>= 7)
        buf_addc(out, (char)(number | 0x80));
    buf_addc(out, (char)number);
}

static struct str put_bytes(struct buf *out, uint32_t number, struct str bytes)
{
    put_varint(out, (uint64_t)number << 3 | WIRE_BYTES);
    put_varint(out, bytes.len);
    buf_add(out, bytes);
    return buf_str(out);
}

/* `message` as the raw part of a kind's envelope. */
static int read_raw(struct arena *arena,
                    const char *kind,
                    struct str message,
                    struct protobuf_unknown *unknown,
                    struct json **ret,
                    struct err *err)
{
    bool crd = strcmp(kind, "CustomResourceDefinition") == 0;
    _cleanup_(buf_done) struct buf type = {0};
    _cleanup_(buf_done) struct buf body = {0};

    (void)put_bytes(&type, 1, crd ? STR("apiextensions.k8s.io/v1") : STR("v1"));
    (void)put_bytes(&type, 2, str_from(kind));
    buf_add(&body, STR("k8s\0"));
    (void)put_bytes(&body, 1, buf_str(&type));
    (void)put_bytes(&body, 2, message);
    return protobuf_to_json(arena, str_dup(arena, buf_str(&body)), unknown, ret, err);
}

TEST(protobuf_that_is_wrong_is_refused_in_words)
{
    static const struct {
        const char *hex;
        const char *words;
        const char *why;
    } rows[] = {
        {"0a 02 08 01", "metadata.name: comes in a form", "a name that is a number"},
        {"08 01", "metadata: comes in a form", "metadata that is a number"},
        {"0a 81808080808080808002", "cut short", "a length of more than 64 bits"},
        {"0a ffffffffffffffffff01", "cut short", "a length beyond the end of memory"},
        {"0a 8180808080808080808001", "cut short", "a length that never ends"},
        {"0a 05 0a 7f 61", "cut short", "a length beyond its message"},
        {"00 00", "cut short", "field number 0"},
        {"0b 0c", "cut short", "a group"},
        {"12 04 20 ff ff", "cut short", "a number that is cut"},
        {"0a 06 42 04 08 80 80 01 10 80", "", "a broken time"},
        {"0a 0d 42 0b 08 ffffffffffffffffff01 00", "", "a broken time of some year"},
        {"0a 0d 42 0b 08 ffffffffffffffffff7f", "", "a time beyond 64 bits"},
        {"0a 09 42 07 08 ffffffff ff7f", "metadata.creationTimestamp: not a time",
         "the year 400000"},
        {"0a 0f 42 0d 08 01 10 ffffffffffffffffff01", "metadata.creationTimestamp: not a time",
         "less than no nanoseconds"},
        {"12 07 c8 01 80 80 80 80 10", "spec.priority: a number beyond 32 bits", "2^32"},
        {"0a 07 6a 05 0a 04 61 62 00", "metadata.ownerReferences[0]: cut short",
         "a list cut in the middle"},
        {"0a 05 5a 03 18 01 00", "", "an entry of a map with a third field"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *root = NULL;
        struct err err = {0};

        test_case(rows[i].why);
        EXPECT(read_raw(&arena, "Pod", from_hex(&arena, rows[i].hex), NULL, &root, &err) ==
               -EINVAL);
        EXPECT(str_contains(str_from(err.text), str_from(rows[i].words)));
    }
}

TEST(protobuf_nested_without_end_is_refused)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str message = STR("");
    struct json *root = NULL;
    struct err err = {0};
    const struct type *crd =
        type_of_kind(STR("apiextensions.k8s.io/v1"), STR("CustomResourceDefinition"));
    const struct type_field *field = type_field_named(crd, STR("spec"));
    const char *const path[] = {"versions", "schema", "openAPIV3Schema"};
    uint32_t numbers[] = {field->number, 0, 0, 0};

    for (size_t i = 0; i < 3; i++) {
        field = type_field_named(field->type, str_from(path[i]));
        numbers[i + 1] = field->number;
    }
    uint32_t not = type_field_named(field->type, STR("not"))->number;
    for (int i = 0; i < 2 * PROTOBUF_DEPTH_MAX + 4; i++) {
        _cleanup_(buf_done) struct buf out = {0};
        bool inside = i < 2 * PROTOBUF_DEPTH_MAX;

        message =
            str_dup(&arena, put_bytes(&out, inside ? not : numbers[2 * PROTOBUF_DEPTH_MAX + 3 - i],
                                      message));
    }
    EXPECT(read_raw(&arena, "CustomResourceDefinition", message, NULL, &root, &err) == -EINVAL);
    EXPECT(str_contains(str_from(err.text), STR("nested too deeply")));
}

TEST(protobuf_of_more_values_than_an_object_has_is_refused)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf many = {0};
    struct json *root = NULL;
    struct err err = {0};

    for (size_t i = 0; i <= PROTOBUF_VALUES_MAX; i++)
        buf_add(&many, STR("\x78\0"));
    EXPECT(read_raw(&arena, "Pod", buf_str(&many), NULL, &root, &err) == -EINVAL);
    EXPECT(str_contains(str_from(err.text), STR("too many values")));
}

TEST(protobuf_map_is_bounded_and_its_last_entry_of_a_name_counts)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf message = {0};
    struct json *root = NULL;
    struct err err = {0};

    for (int i = 0; i < JSON_MEMBERS_MAX + 2; i++) {
        _cleanup_(buf_done) struct buf entry = {0};

        if (i == JSON_MEMBERS_MAX + 1) { /* one name too many; so far there were doubles */
            EXPECT(read_raw(&arena, "ConfigMap", buf_str(&message), NULL, &root, &err) == 0);
            EXPECT(json_count(json_get(root, "data")) == JSON_MEMBERS_MAX);
            EXPECT(str_is(json_str(json_get(json_get(root, "data"), "k7")), "20000"));
        }
        (void)put_bytes(&entry, 1, str_printf(&arena, "k%d", i == JSON_MEMBERS_MAX ? 7 : i));
        (void)put_bytes(&entry, 2, str_printf(&arena, "%d", i));
        (void)put_bytes(&message, 2, buf_str(&entry));
    }
    EXPECT(read_raw(&arena, "ConfigMap", buf_str(&message), NULL, &root, &err) == -EINVAL);
    EXPECT(str_contains(str_from(err.text), STR("data: too many entries")));
}

TEST(protobuf_field_that_no_type_has_is_told_with_its_place)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct protobuf_unknown unknown = {0};
    struct json *root = NULL;
    /* Two containers, the second with field 1000; and field 15 of the Pod itself. */
    struct str message =
        from_hex(&arena, "12 0a 12 03 0a0161 12 03 c03e 01 78 01 12 07 12 05 c23e 02 6162");

    EXPECT(read_raw(&arena, "Pod", message, &unknown, &root, NULL) == 0);
    EXPECT(unknown.count == 3);
    EXPECT(str_is(unknown.items[0], "unknown field number 1000 of \"spec.containers[1]\""));
    EXPECT(str_is(unknown.items[1], "unknown field number 15 of \"Pod\""));
    EXPECT(str_is(unknown.items[2], "unknown field number 1000 of \"spec.containers[2]\""));
}

TEST(protobuf_numbers_of_a_list_may_come_packed_and_a_message_in_halves)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *root = NULL;
    /* securityContext.supplementalGroups [1, 2] packed, 3 alone; a second securityContext adds to
     * the first */
    struct str message = from_hex(&arena, "12 0d 72 06 22 02 0102 20 03 72 03 10 f001");

    EXPECT(read_raw(&arena, "Pod", message, NULL, &root, NULL) == 0);
    EXPECT(str_is(json_text(&arena, json_at(root, "spec.securityContext")),
                  "{\"supplementalGroups\":[1,2,3],\"runAsUser\":240}"));
}

#define POD(more) "{'apiVersion':'v1','kind':'Pod'," more "}"
#define CRD(schema)                                                                      \
    "{'apiVersion':'apiextensions.k8s.io/v1','kind':'CustomResourceDefinition','spec':{" \
    "'versions':[{'schema':{'openAPIV3Schema':{'properties':{'a':{" schema "}}}}}]}}"
#define LEASE(time) \
    "{'apiVersion':'coordination.k8s.io/v1','kind':'Lease','spec':{'renewTime':'" time "'}}"

TEST(protobuf_says_only_what_it_can_say)
{
    static const struct {
        const char *json;
        int code;
        const char *why;
    } rows[] = {
        {"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"spec\":{\"later\":1}}", -EPROTONOSUPPORT,
         "a field without a number would be lost"},
        {"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"later\":1}", -EPROTONOSUPPORT,
         "at the top too"},
        {"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"spec\":{\"later\":null}}", 0,
         "null says nothing"},
        {"{\"apiVersion\":\"kubeflow.org/v1\",\"kind\":\"PyTorchJob\"}", -EPROTONOSUPPORT,
         "a kind of a CRD"},
        {"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"spec\":{\"containers\":{}}}", -EINVAL,
         "an object for a list"},
        {"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"spec\":{\"priority\":4294967296}}", -EINVAL,
         "a number beyond 32 bits"},
        {"{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"data\":{\"a\":\"*\"}}", -EINVAL,
         "not base64"},
        {POD("'metadata':{'name':7}"), -EINVAL, "a number for a text"},
        {POD("'metadata':{'creationTimestamp':'soon'}"), -EINVAL, "a word for a time"},
        {POD("'metadata':{'labels':[]}"), -EINVAL, "a list for a map"},
        {POD("'metadata':{'labels':{'a':1}}"), -EINVAL, "a map of numbers"},
        {POD("'metadata':7"), -EINVAL, "a number for an object"},
        {POD("'spec':{'hostPID':'yes'}"), -EINVAL, "a word for a truth"},
        {POD("'spec':{'priority':1.5}"), -EINVAL, "a part of a number"},
        {POD("'spec':{'priority':-2147483649}"), -EINVAL, "a number below 32 bits"},
        {POD("'spec':{'overhead':{'cpu':true}}"), -EINVAL, "a truth for an amount"},
        {POD("'spec':{'overhead':{'cpu':1}}"), 0, "a number for an amount"},
        {POD("'metadata':{'finalizers':[1]}"), -EINVAL, "a list of numbers"},
        {"{'apiVersion':'v1','kind':'Service','spec':{'ports':[{'targetPort':true}]}}", -EINVAL,
         "a truth for a port"},
        {CRD("'maximum':'x'"), -EINVAL, "a word for a number"},
        {CRD("'additionalProperties':'x'"), -EINVAL, "a word for a schema or a truth"},
        {CRD("'items':[{'type':'string'}]"), 0, "schemas for the items of a list"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        _cleanup_(buf_done) struct buf out = {0};
        struct err err = {0};

        test_case(rows[i].why);
        buf_add(&out, STR("before"));
        EXPECT(protobuf_from_json(test_json(&arena, rows[i].json), false, &out, &err) ==
               rows[i].code);
        EXPECT((rows[i].code != 0) == str_is(buf_str(&out), "before"));
    }
}

TEST(protobuf_has_the_values_that_were_written)
{
    static const struct {
        const char *json;
        const char *path;
        const char *value; /* as it comes back */
    } rows[] = {
        {POD("'metadata':{'creationTimestamp':'2026-01-02T03:04:05Z'}"),
         "metadata.creationTimestamp", "'2026-01-02T03:04:05Z'"},
        {POD("'metadata':{'creationTimestamp':'1969-12-31T23:59:58Z'}"),
         "metadata.creationTimestamp", "'1969-12-31T23:59:58Z'"},
        {LEASE("2026-01-02T03:04:05.123456Z"), "spec.renewTime", "'2026-01-02T03:04:05.123456Z'"},
        {LEASE("2026-01-02T03:04:05.5Z"), "spec.renewTime", "'2026-01-02T03:04:05.500000Z'"},
        {LEASE("2026-01-02T03:04:05Z"), "spec.renewTime", "'2026-01-02T03:04:05.000000Z'"},
        {LEASE("1969-12-31T23:59:58.250000Z"), "spec.renewTime", "'1969-12-31T23:59:58.250000Z'"},
        {POD("'spec':{'overhead':{'cpu':2}}"), "spec.overhead.cpu", "'2'"},
        {POD("'spec':{'priority':-2147483648}"), "spec.priority", "-2147483648"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        _cleanup_(buf_done) struct buf out = {0};
        struct json *back = NULL;

        test_case(rows[i].json);
        EXPECT(protobuf_from_json(test_json(&arena, rows[i].json), false, &out, NULL) == 0);
        EXPECT(protobuf_to_json(&arena, buf_str(&out), NULL, &back, NULL) == 0);
        EXPECT(json_equal(json_at(back, rows[i].path), test_json(&arena, rows[i].value)));
    }
}

TEST(protobuf_numbers_are_those_of_the_text)
{
    static const struct {
        const char *text;
        double number;
    } rows[] = {
        {"0", 0.0},         {"-0.25", -0.25},   {"1.5e-30", 1.5e-30},     {"1E+5", 1E+5},
        {"1e22", 1e22},     {"1e23", 1e23},     {"123456.75", 123456.75}, {"1e300", 1e300},
        {"1e-300", 1e-300}, {"2.5e-3", 2.5e-3}, {"1e-900", 0.0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        double number = protobuf_double(str_from(rows[i].text));
        bool large = rows[i].number > 1e22;
        int64_t bits[2] = {0};

        memcpy(&bits[0], &number, sizeof(number));
        memcpy(&bits[1], &rows[i].number, sizeof(number));
        test_case(rows[i].text);
        EXPECT(bits[0] == bits[1] || (large && bits[0] - bits[1] <= 1 && bits[1] - bits[0] <= 1));
    }
}

static struct json *pod_named(struct arena *arena, const char *name)
{
    struct json *pod = NULL;

    EXPECT(json_parse(arena,
                      str_printf(arena,
                                 "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":"
                                 "\"%s\",\"creationTimestamp\":null},\"spec\":{\"later\":1}}",
                                 name),
                      &pod, NULL) == 0);
    return pod;
}

TEST(protobuf_list_is_read_as_it_was_written)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf out = {0};
    struct protobuf_list read = {0};
    struct json *meta = NULL;
    struct str item;
    struct err err = {0};

    EXPECT(
        json_parse(&arena,
                   STR("{\"resourceVersion\":\"12\",\"continue\":\"c\",\"remainingItemCount\":3}"),
                   &meta, NULL) == 0);
    struct protobuf_list_writer list = protobuf_list_begin(&out, STR("v1"), STR("PodList"), meta);
    EXPECT(protobuf_list_add(&list, pod_named(&arena, "a"), true, &err) == 0);
    /* One that cannot be said leaves no trace. */
    EXPECT(protobuf_list_add(&list, pod_named(&arena, "b"), false, &err) == -EPROTONOSUPPORT);
    EXPECT(protobuf_list_add(&list, pod_named(&arena, "c"), true, &err) == 0);
    protobuf_list_end(&list);
    EXPECT(protobuf_list_open(buf_str(&out), &read, &err) == 0);
    EXPECT(read.revision == 12 && str_is(read.continue_token, "c"));
    const char *const names[] = {"a", "c"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct json *pod = NULL;

        EXPECT(protobuf_list_next(&read, &item));
        EXPECT(protobuf_decode(&arena, type_of_kind(STR("v1"), STR("Pod")), false, item, &pod,
                               &err) == 0);
        EXPECT(str_is(json_str_at(pod, "metadata.name"), names[i]));
    }
    EXPECT(!protobuf_list_next(&read, &item));
}

TEST(protobuf_event_is_read_as_it_was_written)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf out = {0};
    struct protobuf_event event = {0};
    struct json *custom = NULL;
    struct err err = {0};

    EXPECT(json_parse(&arena, STR("{\"apiVersion\":\"a.b/v1\",\"kind\":\"C\"}"), &custom, NULL) ==
           0);
    EXPECT(protobuf_event_write(&out, "ADDED", custom, &err) == -EPROTONOSUPPORT && out.len == 0);
    EXPECT(protobuf_event_write(&out, "MODIFIED", pod_named(&arena, "a"), &err) == 0);
    EXPECT(protobuf_frame_size(out.p) == out.len - PROTOBUF_FRAME_HEAD);
    EXPECT(protobuf_event_read(str_sub(buf_str(&out), PROTOBUF_FRAME_HEAD, out.len), &event,
                               &err) == 0);
    EXPECT(str_is(event.type, "MODIFIED") && str_is(event.object.kind, "Pod"));
}
