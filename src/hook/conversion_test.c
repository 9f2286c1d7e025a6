#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "hook/conversion.h"
#include "test.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define V1 "{\"apiVersion\":\"t.io/v1\",\"kind\":\"Thing\","
#define V2 "{\"apiVersion\":\"t.io/v2\",\"kind\":\"Thing\","
#define META                                                                           \
    "\"metadata\":{\"name\":\"a\",\"namespace\":\"n\",\"uid\":\"u\",\"generation\":3," \
    "\"labels\":{\"l\":\"1\"},\"annotations\":{\"b\":\"2\"}}"

static const struct kind v1 = {.group = "t.io",
                               .version = "v1",
                               .name = "Thing",
                               .plural = "things",
                               .namespaced = true,
                               .custom = true};
static const struct kind v2 = {.group = "t.io",
                               .version = "v2",
                               .name = "Thing",
                               .plural = "things",
                               .namespaced = true,
                               .custom = true};

static struct object *thing(const char *text)
{
    struct object *object = NULL;

    EXPECT(object_new(&v1, str_from(text), &object, NULL) == 0);
    return object;
}

TEST(a_conversion_review_has_the_objects_and_the_version_that_is_wanted)
{
    struct arena arena = {0};
    struct object *object = thing(V1 META ",\"spec\":{\"x\":1}}");
    const struct object *objects[] = {object, object};
    struct json *root = NULL;

    EXPECT(json_parse(&arena,
                      conversion_write(&arena, &(struct conversion){STR("q"), &v2, objects, 2}),
                      &root, NULL) == 0);
    EXPECT(str_is(json_str_at(root, "apiVersion"), "apiextensions.k8s.io/v1"));
    EXPECT(str_is(json_str_at(root, "kind"), "ConversionReview"));
    EXPECT(str_is(json_str_at(root, "request.uid"), "q"));
    EXPECT(str_is(json_str_at(root, "request.desiredAPIVersion"), "t.io/v2"));
    EXPECT(json_count(json_at(root, "request.objects")) == 2);
    EXPECT(str_is(json_str_at(root, "request.objects.1.apiVersion"), "t.io/v1"));
    object_unref(object);
    arena_done(&arena);
}

#define ANSWER(response)                      \
    "{\"apiVersion\":\"apiextensions.k8s.io/" \
    "v1\",\"kind\":\"ConversionReview\",\"response\":" response "}"
#define GOOD(objects)                                                                              \
    ANSWER("{\"uid\":\"q\",\"result\":{\"status\":\"Success\"},\"convertedObjects\":[" objects "]" \
           "}")

TEST(of_the_metadata_a_conversion_changes_labels_and_annotations_alone)
{
    struct arena arena = {0};
    struct object *object = thing(V1 META ",\"spec\":{\"x\":1}}");
    const struct object *objects[] = {object};
    struct json *made = NULL;
    struct err err = {0};

    EXPECT(conversion_read(&arena, &(struct conversion){STR("q"), &v2, objects, 1},
                           STR(GOOD(V2 "\"metadata\":{\"name\":\"a\",\"namespace\":\"n\",\"uid\":"
                                       "\"u\",\"generation\":9,\"finalizers\":[\"x.io/y\"],"
                                       "\"labels\":{\"new\":\"3\"}},\"spec\":{\"y\":2}}")),
                           &made, &err) == 0);
    EXPECT(json_i64_or(json_at(made, "metadata.generation"), 0) == 3);
    EXPECT(!json_at(made, "metadata.finalizers") && !json_at(made, "metadata.annotations"));
    EXPECT(str_is(json_str_at(made, "metadata.labels.new"), "3"));
    EXPECT(!json_at(made, "metadata.labels.l"));
    EXPECT(json_i64_or(json_at(made, "spec.y"), 0) == 2);
    object_unref(object);
    arena_done(&arena);
}

TEST(an_answer_that_is_not_the_objects_in_that_version_is_refused_in_words)
{
    static const struct {
        const char *body;
        const char *words;
        const char *why;
    } rows[] = {
        {"nonsense", "not JSON", "no document"},
        {"{}", "expected webhook response of apiextensions.k8s.io/v1", "another document"},
        {ANSWER("null"), "no response provided", "nothing is answered"},
        {ANSWER("{\"uid\":\"other\"}"), "expected response.uid=\"q\"", "to another question"},
        {ANSWER("{\"uid\":\"q\",\"result\":{\"status\":\"Failure\",\"message\":\"no way\"}}"),
         "no way", "its own words"},
        {ANSWER("{\"uid\":\"q\"}"), "no Success, and not why", "neither did it say so"},
        {GOOD(""), "returned 0 objects, expected 1", "one is missing"},
        {GOOD("7"), "no object with metadata", "no object"},
        {GOOD(V1 META "}"), "expected t.io/v2, got t.io/v1", "it is as it was"},
        {GOOD(V2 "\"metadata\":{\"name\":\"b\",\"namespace\":\"n\",\"uid\":\"u\"}}"),
         "same metadata.name", "another name"},
        {GOOD(V2 "\"metadata\":{\"name\":\"a\",\"namespace\":\"n\"}}"), "same metadata.uid",
         "another object"},
        {GOOD(V2 "\"metadata\":{\"name\":\"a\",\"namespace\":\"n\",\"uid\":\"u\",\"labels\":"
                 "{\"a b\":\"c\"}}}"),
         "metadata.labels", "labels are still labels"},
    };
    struct object *object = thing(V1 META "}");
    const struct object *objects[] = {object};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct json *made = NULL;
        struct err err = {0};

        test_case(rows[i].why);
        EXPECT(conversion_read(&arena, &(struct conversion){STR("q"), &v2, objects, 1},
                               str_from(rows[i].body), &made, &err) == -EINVAL);
        EXPECT(strstr(err.text, rows[i].words));
        arena_done(&arena);
    }
    object_unref(object);
}
