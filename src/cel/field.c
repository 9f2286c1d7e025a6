#include "cel/field.h"

#include "api/schema.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/str.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>

static const struct schema text_schema = {.type = SCHEMA_STRING,
                                          .min_length = -1,
                                          .max_length = -1};
static const struct schema_property meta_properties[] = {
    {STR("name"), &text_schema, false},
    {STR("generateName"), &text_schema, false}};
static const struct schema meta_schema = {.type = SCHEMA_OBJECT,
                                          .min_length = -1,
                                          .max_length = -1,
                                          .properties = meta_properties,
                                          .property_count = COUNT_OF(meta_properties)};

bool field_is_object(const struct schema *schema)
{
    return schema->type == SCHEMA_OBJECT && !schema->additional;
}

bool field_schema(const struct schema *schema,
                  bool resource,
                  struct str name,
                  const struct schema **ret)
{
    const struct schema *found = NULL;

    if (resource && (str_is(name, "apiVersion") || str_is(name, "kind")))
        found = &text_schema;
    else if (resource && str_is(name, "metadata"))
        found = &meta_schema;
    else
        found = schema_property(schema, name);
    if (!found || (found->type == SCHEMA_ANY && !found->int_or_string))
        return false;
    *ret = found;
    return true;
}

enum cel_type field_type(const struct schema *schema)
{
    if (schema->int_or_string)
        return CEL_DYN;
    switch (schema->type) {
    case SCHEMA_ANY: return CEL_DYN;
    case SCHEMA_OBJECT: return CEL_MAP;
    case SCHEMA_ARRAY: return CEL_LIST;
    case SCHEMA_INTEGER: return CEL_INT;
    case SCHEMA_NUMBER: return CEL_DOUBLE;
    case SCHEMA_BOOLEAN: return CEL_BOOL;
    case SCHEMA_STRING: break;
    }
    if (str_is(schema->format, "byte"))
        return CEL_BYTES;
    if (str_is(schema->format, "duration"))
        return CEL_DURATION;
    if (str_is(schema->format, "date-time") || str_is(schema->format, "date"))
        return CEL_TIMESTAMP;
    return CEL_STRING;
}

static bool is_escaped_word(struct str word)
{
    static const char *const words[] = {
        "true",     "false",   "null",      "in",       "as",  "break",  "const",
        "continue", "else",    "for",       "function", "if",  "import", "let",
        "loop",     "package", "namespace", "return",   "var", "void",   "while"};

    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (str_is(word, words[i]))
            return true;
    return false;
}

struct str field_unescape(struct arena *arena, struct str name)
{
    static const struct {
        const char *escaped;
        char plain;
    } signs[] = {{"__dot__", '.'}, {"__dash__", '-'}, {"__slash__", '/'}, {"__underscores__", '_'}};

    if (name.len > 4 && str_starts(name, STR("__")) && str_ends(name, STR("__")) &&
        is_escaped_word(str_sub(name, 2, name.len - 4)))
        return str_sub(name, 2, name.len - 4);
    if (!str_contains(name, STR("__")))
        return name;
    struct buf out = {.bytes_max = name.len + 1};
    while (name.len) {
        size_t taken = 1;

        for (size_t i = 0; i < COUNT_OF(signs); i++)
            if (str_starts(name, str_from(signs[i].escaped))) {
                taken = str_from(signs[i].escaped).len;
                buf_addc(&out, signs[i].plain);
                if (signs[i].plain == '_')
                    buf_addc(&out, '_');
            }
        if (taken == 1)
            buf_addc(&out, name.p[0]);
        name = str_sub(name, taken, name.len);
    }
    struct str plain = str_dup(arena, buf_str(&out));
    buf_done(&out);
    return plain;
}
