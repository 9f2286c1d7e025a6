#include "api/kept.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

TEST(kept_drops_what_no_table_names_and_keeps_the_rest)
{
    static const struct {
        const char *whole;
        const char *kept;
        const char *why;
    } rows[] = {
        {"{\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\",\"managedFields\":[{}],\"labels\":{\"a\":"
         "\"b\"}}}",
         "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\",\"labels\":{\"a\":\"b\"}}}",
         "managed fields go, labels are a map and stay whole"},
        {"{\"metadata\":{\"name\":\"p\",\"annotations\":{"
         "\"kubectl.kubernetes.io/last-applied-configuration\":\"{}\"}}}",
         "{\"metadata\":{\"name\":\"p\"}}", "kubectl's note, and the map it leaves empty"},
        {"{\"spec\":{\"containers\":[{\"name\":\"c\",\"env\":[{\"name\":\"A\",\"value\":\"b\"}],"
         "\"args\":[\"x\"]}],\"volumes\":[{\"name\":\"v\",\"persistentVolumeClaim\":{\"claimName\":"
         "\"c\","
         "\"readOnly\":true}},{\"name\":\"s\",\"secret\":{\"secretName\":\"s\"}}]}}",
         "{\"spec\":{\"containers\":[{\"name\":\"c\"}],\"volumes\":[{\"name\":\"v\","
         "\"persistentVolumeClaim\":{\"claimName\":\"c\"}},{\"name\":\"s\"}]}}",
         "inside lists too; which claims a pod mounts"},
        {"{\"spec\":{\"topologySpreadConstraints\":[{\"maxSkew\":1,\"nodeAffinityPolicy\":"
         "\"Ignore\","
         "\"nodeTaintsPolicy\":\"Honor\",\"matchLabelKeys\":[\"v\"]}]}}",
         "{\"spec\":{\"topologySpreadConstraints\":[{\"maxSkew\":1,\"nodeAffinityPolicy\":"
         "\"Ignore\","
         "\"nodeTaintsPolicy\":\"Honor\",\"matchLabelKeys\":[\"v\"]}]}}",
         "all that decides where a pod may go"},
        {"{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"lastProbeTime\":null,\"status\":"
         "\"True\"}],\"startTime\":null}}",
         "{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}",
         "null says nothing"},
        {"{\"spec\":3,\"status\":[{\"a\":1}]}", "{\"spec\":3,\"status\":[{\"a\":1}]}",
         "what is not an object is not looked into"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *tree = NULL;

        test_case(rows[i].why);
        EXPECT(json_parse(&arena, str_from(rows[i].whole), &tree, NULL) == 0);
        kept_trim(&kind_pod, tree);
        EXPECT(str_is(json_text(&arena, tree), rows[i].kept));
    }
}

TEST(kept_leaves_other_kinds_whole)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *tree = NULL;
    const char *text = "{\"metadata\":{\"managedFields\":[]},\"data\":{\"a\":\"b\"}}";

    EXPECT(json_parse(&arena, str_from(text), &tree, NULL) == 0);
    kept_trim(&kind_configmap, tree);
    EXPECT(str_is(json_text(&arena, tree), text));
    EXPECT(kept_is(&kind_node) && !kept_is(&kind_configmap));
}

TEST(kept_makes_text_of_bytes_that_are_none)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *tree = NULL;
    struct json *again = NULL;
    /* metadata{name "a\xff\xe2\x82z"} */
    struct str message = {"\x0a\x07\x0a\x05"
                          "a\xff\xe2\x82z",
                          9};

    EXPECT(kept_decode(&arena, &kind_pod, message, &tree, NULL) == 0);
    EXPECT(str_is(json_str_at(tree, "metadata.name"), "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz"));
    EXPECT(json_parse(&arena, json_text(&arena, tree), &again, NULL) == 0);
}
