#include "api/kind.h"
#include "api/object.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const struct object_label labels[] = {{.key = {"app", 3}, .value = {"web", 3}},
                                             {.key = {"n", 1}, .value = {"7", 1}},
                                             {.key = {"e.com/x", 7}, .value = {"", 0}}};

TEST(label_selectors_select)
{
    static const struct {
        const char *text;
        bool matches;
    } rows[] = {
        {"", true},
        {"app=web", true},
        {"app==web", true},
        {" app = web ", true},
        {"app!=web", false},
        {"nope!=web", true},
        {"app in (db, web)", true},
        {"app in (db)", false},
        {"app notin (db)", true},
        {"nope notin (db)", true},
        {"app", true},
        {"nope", false},
        {"!nope", true},
        {"!app", false},
        {"app=web,n=7", true},
        {"app=web,n=8", false},
        {"n>6", true},
        {"n<6", false},
        {"e.com/x=", true},
        {"e.com/x", true},
        {"app in (web),!foo", true},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct selector selector = {0};

        test_case(rows[i].text);
        EXPECT(selector_parse_labels(&arena, str_from(rows[i].text), &selector, NULL) == 0);
        EXPECT(selector_matches(&selector, labels, 3) == rows[i].matches);
    }
}

TEST(label_selectors_that_are_none_are_refused)
{
    static const char *const rows[] = {"=a",      "a=b=c", "a in b", "a in (b", "a b", "-a=b",
                                       "a=b c=d", "a>x",   ",",      "a=%",     "(a)"};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct selector selector = {0};
        struct err err = {0};

        test_case(rows[i]);
        EXPECT(selector_parse_labels(&arena, str_from(rows[i]), &selector, &err) == -EINVAL);
        EXPECT(err.text[0]);
    }
}

TEST(field_selectors_read_metadata_and_paths)
{
    static const struct {
        const char *text;
        bool matches;
    } rows[] = {
        {"metadata.name=a", true},
        {"metadata.namespace==n,metadata.name!=b", true},
        {"spec.nodeName=", true},
        {"spec.nodeName!=", false},
        {"status.phase=Running", true},
        {"status.phase!=Running", false},
        {"status.phase=Running,spec.count=3,spec.flag=true", true},
    };
    _cleanup_(object_unrefp) struct object *object = NULL;

    EXPECT(
        object_new(&kind_pod,
                   STR("{\"metadata\":{\"name\":\"a\",\"namespace\":\"n\"},\"spec\":{\"count\":3,"
                       "\"flag\":true},\"status\":{\"phase\":\"Running\"}}"),
                   &object, NULL) == 0);
    for (size_t i = 0; object && i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct selector selector = {0};

        test_case(rows[i].text);
        EXPECT(selector_parse_fields(&arena, str_from(rows[i].text), &selector, NULL) == 0);
        EXPECT(selector_matches_fields(&selector, object) == rows[i].matches);
    }
}

TEST(selector_objects_of_specs_select)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *value = NULL;
    struct selector selector = {0};

    EXPECT(json_parse(&arena,
                      STR("{\"matchLabels\":{\"app\":\"web\"},\"matchExpressions\":[{\"key\":\"n\","
                          "\"operator\":\"In\",\"values\":[\"7\"]},{\"key\":\"z\",\"operator\":"
                          "\"DoesNotExist\"}]}"),
                      &value, NULL) == 0);
    EXPECT(selector_from_json(&arena, value, &selector, NULL) == 0);
    EXPECT(selector_matches(&selector, labels, 3));
    EXPECT(!selector_matches(&selector, labels, 1));
}
