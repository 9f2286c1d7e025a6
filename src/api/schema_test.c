#include "api/admit.h"
#include "api/schema.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct schema *compiled(struct arena *arena, const char *spec)
{
    const struct schema *schema = NULL;
    struct err err = {0};
    struct str text = str_printf(arena, "{\"type\":\"object\",\"properties\":{\"spec\":%s}}", spec);

    if (schema_compile(arena, test_json(arena, text.p), &schema, &err) < 0)
        (void)fprintf(stderr, "%s\n", err.text);
    EXPECT(schema);
    return schema;
}

TEST(schemas_say_what_is_wrong_with_a_value)
{
    static const struct {
        const char *schema;
        const char *spec;
        const char *cause; /* NULL: fine */
    } rows[] = {
        {"{\"type\":\"integer\"}", "1", NULL},
        {"{\"type\":\"integer\"}", "1.5", "spec in body must be of type integer"},
        {"{\"type\":\"integer\"}", "\"1\"", "must be of type integer: \"string\""},
        {"{\"type\":\"string\",\"nullable\":true}", "null", NULL},
        {"{\"type\":\"string\"}", "null", "must be of type string: \"null\""},
        {"{\"x-kubernetes-int-or-string\":true}", "1", NULL},
        {"{\"x-kubernetes-int-or-string\":true}", "\"1Gi\"", NULL},
        {"{\"x-kubernetes-int-or-string\":true}", "true", "must be of type integer or string"},
        {"{\"type\":\"integer\",\"minimum\":1,\"maximum\":3}", "0",
         "should be greater than or equal to 1"},
        {"{\"type\":\"integer\",\"minimum\":1,\"maximum\":3}", "4",
         "should be less than or equal to 3"},
        {"{\"type\":\"number\",\"minimum\":0.5,\"exclusiveMinimum\":true}", "0.5",
         "should be greater than 0.5"},
        {"{\"type\":\"number\",\"minimum\":-1}", "-1", NULL},
        {"{'type':'number','maximum':3,'exclusiveMaximum':true}", "3", "should be less than 3"},
        {"{'type':'number','maximum':3,'exclusiveMaximum':true}", "2.9", NULL},
        {"{'type':'number','maximum':3}", "1e30", "should be less than or equal to 3"},
        {"{'type':'number','minimum':3}", "1e30", NULL},
        {"{'type':'number','maximum':3}", "1E200", "should be less than or equal to 3"},
        {"{'type':'number','maximum':3}", "1E-200", NULL},
        {"{'type':'number','minimum':3}", "1e-200", "should be greater than or equal to 3"},
        {"{'type':'number','minimum':3}", "-1e30", "should be greater than or equal to 3"},
        {"{'type':'number','multipleOf':0.5}", "1.5", NULL},
        {"{'type':'integer','format':'int32'}", "-3000000000", "32-bit"},
        {"{'type':'integer','format':'int32'}", "-2147483648", NULL},
        {"{'type':'number','format':'int32'}", "1.5", NULL},
        {"{'type':'boolean'}", "[]", "must be of type boolean: \"array\""},
        {"{'type':'array','items':{'type':'string'}}", "{}", "must be of type array: \"object\""},
        {"{'type':'string'}", "true", "must be of type string: \"boolean\""},
        {"{'type':'string'}", "1.5", "must be of type string: \"number\""},
        {"{'type':'string','format':'duration'}", "'1h30m'", NULL},
        {"{'type':'string','format':'duration'}", "'soon'", "must be of type duration"},
        {"{'type':'string','minLength':2}", "'a'", "should be at least 2 chars long"},
        {"{'type':'array','items':{'type':'string'},'minItems':1}", "[]",
         "should have at least 1 items"},
        {"{'type':'object','additionalProperties':{'type':'string'},'minProperties':1}", "{}",
         "should have at least 1 properties"},
        {"{'type':'array','x-kubernetes-list-type':'map','x-kubernetes-list-map-keys':['n','p'],"
         "'items':{'type':'object','properties':{'n':{'type':'string'},'p':{'type':'string'}}}}",
         "[{'n':'a'},{'n':'a','p':'x'},{'n':'a','p':'y'},{'p':'y'}]", NULL},
        {"{'type':'array','x-kubernetes-list-type':'map','x-kubernetes-list-map-keys':['n','p'],"
         "'items':{'type':'object','properties':{'n':{'type':'string'},'p':{'type':'string'}}}}",
         "[{'n':'a'},{'n':'b'},{'n':'a'}]", "spec[2]: Duplicate value"},
        {"{\"type\":\"integer\",\"multipleOf\":4}", "6", "multiple of 4"},
        {"{\"type\":\"integer\",\"format\":\"int32\"}", "3000000000", "32-bit"},
        {"{\"type\":\"string\",\"enum\":[\"a\",\"b\"]}", "\"c\"",
         "Unsupported value: \"c\": supported values: \"a\", \"b\""},
        {"{\"type\":\"string\",\"pattern\":\"^a+$\"}", "\"b\"", "should match '^a+$'"},
        {"{\"type\":\"string\",\"maxLength\":2}", "\"\xc3\xa9\xc3\xa9\"", NULL},
        {"{\"type\":\"string\",\"maxLength\":2}", "\"abc\"", "at most 2 chars long"},
        {"{\"type\":\"string\",\"format\":\"date-time\"}", "\"yesterday\"", "date-time"},
        {"{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"maxItems\":1}", "[\"a\",\"b\"]",
         "at most 1 items"},
        {"{\"type\":\"array\",\"items\":{\"type\":\"string\"}}", "[\"a\",1]", "spec[1]"},
        {"{\"type\":\"array\",\"x-kubernetes-list-type\":\"set\",\"items\":{\"type\":\"string\"}}",
         "[\"a\",\"a\"]", "Duplicate value: \"a\""},
        {"{\"type\":\"array\",\"x-kubernetes-list-type\":\"map\",\"x-kubernetes-list-map-keys\":["
         "\"n\"],\"items\":{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"string\"}}}}",
         "[{\"n\":\"a\"},{\"n\":\"a\"}]", "Duplicate value"},
        {"{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":{\"type\":\"string\"}}}",
         "{}", "spec.a: Required value"},
        {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"}}", "{\"x\":\"y\"}",
         "spec.x"},
        {"{\"type\":\"object\",\"x-kubernetes-embedded-resource\":true,"
         "\"x-kubernetes-preserve-unknown-fields\":true}",
         "{\"kind\":\"A\"}", "spec.apiVersion: Required value"},
        {"{\"type\":\"string\",\"anyOf\":[{\"pattern\":\"^a\"},{\"pattern\":\"b$\"}]}", "\"xb\"",
         NULL},
        {"{\"type\":\"string\",\"anyOf\":[{\"pattern\":\"^a\"},{\"pattern\":\"b$\"}]}", "\"x\"",
         "anyOf"},
        {"{\"type\":\"string\",\"oneOf\":[{\"pattern\":\"^a\"},{\"pattern\":\"b$\"}]}", "\"ab\"",
         "oneOf"},
        {"{\"type\":\"string\",\"not\":{\"enum\":[\"x\"]}}", "\"x\"", "(not)"},
        {"{\"type\":\"string\",\"allOf\":[{\"minLength\":2}]}", "\"x\"", "at least 2"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct schema *schema = compiled(&arena, rows[i].schema);
        struct admit admit = {.arena = &arena};

        test_case(rows[i].spec);
        if (!schema)
            continue;
        schema_validate(&admit, schema,
                        test_json(&arena, str_printf(&arena, "{\"spec\":%s}", rows[i].spec).p));
        EXPECT(admit.causes.count == (rows[i].cause ? 1 : 0));
        if (!admit.causes.count || !rows[i].cause)
            continue;
        struct str text =
            str_printf(&arena, STR_FMT ": " STR_FMT, STR_ARG(admit.causes.items[0].field),
                       STR_ARG(admit.causes.items[0].message));
        EXPECT(strstr(text.p, rows[i].cause));
    }
}

TEST(schemas_prune_and_default)
{
    static const struct {
        const char *why;
        const char *schema;
        const char *spec;
        const char *result;
        size_t unknown;
    } rows[] = {
        {"unknown members go", "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"}}}",
         "{\"a\":\"x\",\"b\":1}", "{\"a\":\"x\"}", 1},
        {"unless they are preserved",
         "{\"type\":\"object\",\"x-kubernetes-preserve-unknown-fields\":true,\"properties\":{\"a\":"
         "{"
         "\"type\":\"object\"}}}",
         "{\"a\":{\"gone\":1},\"b\":1}", "{\"a\":{},\"b\":1}", 1},
        {"maps keep all keys",
         "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"object\",\"properties\":{\"x\":"
         "{"
         "\"type\":\"string\"}}}}",
         "{\"k\":{\"x\":\"1\",\"y\":2}}", "{\"k\":{\"x\":\"1\"}}", 1},
        {"in lists too",
         "{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"x\":{\"type\":"
         "\"integer\",\"default\":7}}}}",
         "[{\"y\":1},{\"x\":2}]", "[{\"x\":7},{\"x\":2}]", 1},
        {"embedded resources keep their head",
         "{\"type\":\"object\",\"x-kubernetes-embedded-resource\":true}",
         "{\"apiVersion\":\"v1\",\"kind\":\"A\",\"metadata\":{\"name\":\"n\"},\"x\":1}",
         "{\"apiVersion\":\"v1\",\"kind\":\"A\",\"metadata\":{\"name\":\"n\"}}", 1},
        {"but nothing unknown in it",
         "{\"type\":\"object\",\"x-kubernetes-embedded-resource\":true}",
         "{\"kind\":\"A\",\"metadata\":{\"name\":\"n\",\"odd\":1,\"labels\":{\"a\":\"b\"}}}",
         "{\"kind\":\"A\",\"metadata\":{\"name\":\"n\",\"labels\":{\"a\":\"b\"}}}", 1},
        {"defaults fill in level by level",
         "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"object\",\"default\":{},"
         "\"properties\":{\"b\":{\"type\":\"string\",\"default\":\"z\"}}}}}",
         "{}", "{\"a\":{\"b\":\"z\"}}", 0},
        {"null is absent where it may not be",
         "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"default\":\"z\"},"
         "\"b\":{\"type\":\"string\",\"nullable\":true,\"default\":\"z\"},\"c\":{\"type\":"
         "\"string\"}}}",
         "{\"a\":null,\"b\":null,\"c\":null}", "{\"a\":\"z\",\"b\":null}", 0},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct schema *schema = compiled(&arena, rows[i].schema);
        struct schema_unknown unknown = {0};
        struct json *object =
            test_json(&arena, str_printf(&arena, "{\"kind\":\"K\",\"spec\":%s}", rows[i].spec).p);

        test_case(rows[i].why);
        if (!schema)
            continue;
        schema_prune(&arena, schema, object, &unknown);
        EXPECT(schema_default(&arena, schema, object, NULL) == 0);
        EXPECT(unknown.count == rows[i].unknown);
        EXPECT(str_is(json_text(&arena, json_get(object, "spec")), rows[i].result));
    }
}

TEST(schemas_that_are_not_structural_are_refused)
{
    static const char *const rows[] = {
        "{\"type\":\"string\"}",
        "{\"type\":\"object\",\"properties\":{\"a\":{}}}",
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\"}}}",
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"text\"}}}",
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"(\"}}}",
        "{\"type\":\"object\",\"properties\":{\"a\":7}}",
        ("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"items\":{\"type\":"
         "\"string\"},\"x-kubernetes-list-type\":\"map\"}}}"),
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"object\",\"$ref\":\"#/b\"}}}",
        "{\"type\":\"object\",\"definitions\":{\"a\":{\"type\":\"string\"}}}",
        "{\"type\":\"object\",\"patternProperties\":{\"a\":{\"type\":\"string\"}}}",
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct schema *schema = NULL;
        struct err err = {0};

        test_case(rows[i]);
        EXPECT(schema_compile(&arena, test_json(&arena, rows[i]), &schema, &err) == -EINVAL);
        EXPECT(!schema && strstr(err.text, "openAPIV3Schema"));
    }
}

/* Eight items, of which each gets eight, of which each ...: two million of a few hundred bytes. */
TEST(defaults_that_multiply_are_refused)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str text = STR("{\"type\":\"object\"}");
    struct err err = {0};

    for (int i = 0; i < 7; i++)
        text = str_printf(&arena,
                          "{\"type\":\"object\",\"properties\":{\"l\":{\"type\":\"array\","
                          "\"default\":[{},{},{},{},{},{},{},{}],\"items\":" STR_FMT "}}}",
                          STR_ARG(text));
    const struct schema *schema = compiled(&arena, text.p);
    struct json *object = test_json(&arena, "{\"spec\":{}}");
    size_t before = arena.bytes_used;
    EXPECT(schema_default(&arena, schema, object, &err) == -E2BIG);
    EXPECT(strstr(err.text, "defaults"));
    EXPECT(arena.bytes_used - before < SCHEMA_DEFAULT_BYTES_MAX + ((size_t)1 << 20));
}

/* A long name above many unknown members is not written out for each of them. */
TEST(paths_of_unknown_members_are_short)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf members = {0};
    const struct schema *schema =
        compiled(&arena, "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"object\"}}");
    char name[50001];
    struct schema_unknown unknown = {0};

    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    for (int i = 0; i < 5000; i++)
        buf_addf(&members, "%s\"%d\":1", i ? "," : "", i);
    struct str text =
        str_printf(&arena, "{\"spec\":{\"%s\":{" STR_FMT "}}}", name, STR_ARG(buf_str(&members)));
    struct json *object = test_json(&arena, text.p);
    size_t before = arena.bytes_used;
    schema_prune(&arena, schema, object, &unknown);
    EXPECT(!json_count(json_first(json_get(object, "spec"))));
    EXPECT(unknown.count && unknown.count <= SCHEMA_UNKNOWN_MAX);
    EXPECT(arena.bytes_used - before < (size_t)1 << 20);
}

/* One place with a title, as a CRD has it. */
#define TITLED(title, more) \
    "{'type':'object','title':'" title "','x-kubernetes-preserve-unknown-fields':true" more "}"
#define OWN                                                                                        \
    "{'type':'object','title':'v1.PodTemplateSpec','properties':{'metadata':{'type':'object',"     \
    "'properties':{'labels':{'type':'object','additionalProperties':{'type':'string'}}}},'spec':{" \
    "'type':'object','x-kubernetes-preserve-unknown-fields':true,'required':['containers'],"       \
    "'properties':{'containers':{'type':'array','minItems':1,'items':{'type':'object',"            \
    "'x-kubernetes-preserve-unknown-fields':true,'properties':{'mine':{'type':'string'}}}}}}}}"
#define BOX(more) "{'spec':{'containers':[{'name':'c'" more "}]}}"

TEST(a_title_says_which_type_stands_where_anything_is_kept)
{
    static const struct {
        const char *why;
        const char *schema;
        const char *spec;
        const char *unknown; /* NULL: none */
        const char *cause;   /* NULL: none */
    } rows[] = {
        {"fields of the type", OWN, BOX(",'image':'i','tty':true"), NULL, NULL},
        {"others", OWN, BOX(",'imagee':'i'"), "spec.spec.containers[0].imagee", NULL},
        {"further down", OWN, BOX(",'resources':{'limit':{}}"),
         "spec.spec.containers[0].resources.limit", NULL},
        {"beside it", OWN, "{'spec':{'containers':[{}],'nodeSelectr':{}}}", "spec.spec.nodeSelectr",
         NULL},
        {"what the schema closes stays closed", OWN, "{'metadata':{'name':'n'}}",
         "spec.metadata.name", NULL},
        {"fields of its own", OWN, BOX(",'mine':'m'"), NULL, NULL},
        {"with a type of their own", OWN, BOX(",'mine':1"), NULL,
         "spec.spec.containers[0].mine: Invalid value: \"integer\": spec.spec.containers[0].mine "
         "in "
         "body must be of type string: \"integer\""},
        {"what the schema requires", OWN, "{'spec':{}}", NULL, "spec.spec.containers: Required"},
        {"a type", OWN, BOX(",'stdin':'x'"), NULL,
         "spec.spec.containers[0].stdin in body must be of type boolean"},
        {"inside of what is inline", OWN,
         "{'spec':{'containers':[{}],'volumes':[{'name':'v','nfs':{'serer':'s'}}]}}",
         "spec.spec.volumes[0].nfs.serer", NULL},
        {"a quantity", OWN, BOX(",'resources':{'limits':{'cpu':0.5,'memory':'1Gi'}}"), NULL, NULL},
        {"none", OWN, BOX(",'resources':{'limits':{'memory':'1 GB'}}"), NULL, "must be a quantity"},
        {"no quantity either", OWN, BOX(",'resources':{'limits':{'memory':{}}}"), NULL,
         "must be a quantity"},
        {"nothing is filled in, and nulls go", OWN, BOX(",'image':null"), NULL, NULL},
        {"another version", TITLED("batch/v1.JobTemplateSpec", ""), "{'spec':{'parallelsm':1}}",
         "spec.spec.parallelsm", NULL},
        {"some other title", TITLED("The pods", ""), "{'a':1}", NULL, NULL},
        {"without effect", TITLED("no effect", ""), "{'a':1}", NULL,
         "warned: spec: has no effect here; see kubectl explain"},
        {"without effect but for some",
         TITLED("no effect", ",'properties':{'a':{'type':'integer'}}"), "{'a':1,'b':1}", NULL,
         "warned: spec.b: has no effect here; see kubectl explain"},
        {"an object of any kind", TITLED("any kind", ""),
         "{'apiVersion':'v1','kind':'Service','metadata':{'creationTimestamp':null},'spec':{"
         "'port':1}}",
         "spec.spec.port", NULL},
        {"that does not say which", TITLED("any kind", ""), "{'kind':'Service'}", NULL,
         "spec.apiVersion: Required value"},
        {"of a kind that nobody knows", TITLED("any kind", ""),
         "{'apiVersion':'a/v1','kind':'B','spec':{'port':1}}", NULL, NULL},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct schema_unknown unknown = {0};
        struct admit admit = {.arena = &arena};
        struct str text = str_printf(&arena, "{'spec':%s}", rows[i].spec);
        const struct schema *schema =
            compiled(&arena, json_text(&arena, test_json(&arena, rows[i].schema)).p);
        struct json *object = test_json(&arena, text.p);

        test_case(rows[i].why);
        schema_prune(&arena, schema, object, &unknown);
        EXPECT(schema_default(&arena, schema, object, NULL) == 0);
        schema_validate(&admit, schema, object);
        EXPECT(unknown.count == (rows[i].unknown ? 1 : 0));
        EXPECT(!unknown.count || str_is(unknown.items[0], rows[i].unknown));
        struct str said =
            admit.causes.count
                ? str_printf(&arena, STR_FMT ": " STR_FMT, STR_ARG(admit.causes.items[0].field),
                             STR_ARG(admit.causes.items[0].message))
            : admit.warnings.len ? str_printf(&arena, "warned: " STR_FMT, STR_ARG(admit.warnings))
                                 : STR("");
        EXPECT(rows[i].cause ? str_contains(said, str_from(rows[i].cause)) : !said.len);
    }
}
