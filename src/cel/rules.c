#include "cel/rules.h"

#include "api/admit.h"
#include "api/schema.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "cel/budget.h"
#include "cel/cel.h"
#include "cel/estimate.h"
#include "cel/field.h"
#include "cel/fieldpath.h"
#include "cel/shape.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MESSAGE_BYTES_MAX 5120 /* of what a messageExpression gives */

enum {
    SELF,
    OLD_SELF,
    VARIABLES,
};

struct rule {
    struct str text;
    struct str message;
    struct str reason;
    struct str field; /* fieldPath, as it is appended to a path: ".spec.x" */
    bool optional_old;
    bool uses_old;
    struct str wrong; /* why it could not be compiled */
    const struct cel_program *program;
    const struct cel_program *words; /* messageExpression, or NULL */
};

struct rule_list {
    const struct rule *items;
    size_t count;
};

struct rules {
    const struct rule_list *lists; /* by schema->rules_at - 1 */
};

/* ---- compiling ---- */

struct compiling {
    struct arena *arena;
    struct admit *admit;   /* NULL: nobody is told */
    struct budget *budget; /* NULL: costs are not estimated */
    bool loose;            /* it was taken before, when less was known of types */
    VEC(struct rule_list) lists;
};

/* Where a schema is in its CRD, and from where on its values have no counterpart in the old one. */
struct place {
    struct str path;
    struct str uncorrelated; /* STR_NONE: they have */
    bool root;
    const struct shape *shape; /* NULL: costs are not estimated */
    struct budget_times times;
};

static struct str place_of(const struct compiling *c,
                           const struct place *place,
                           size_t index,
                           const char *what)
{
    return str_printf(c->arena, STR_FMT ".x-kubernetes-validations[%zu].%s", STR_ARG(place->path),
                      index, what);
}

static bool has_lines(struct str text)
{
    return str_find(text, '\n') < text.len;
}

/* What can be said without compiling. */
static bool check_form(const struct compiling *c,
                       const struct place *place,
                       const struct json *source,
                       size_t index)
{
    static const char *const reasons[] = {"FieldValueInvalid", "FieldValueForbidden",
                                          "FieldValueRequired", "FieldValueDuplicate"};
    struct str rule = str_trim(json_str(json_get(source, "rule")));
    const struct json *message = json_get(source, "message");
    struct str words = str_trim(json_str(message));
    const struct json *reason = json_get(source, "reason");
    struct admit trial = {.arena = c->arena};
    struct admit *admit = c->admit ? c->admit : &trial;
    size_t before = admit->causes.count;
    bool known = json_is_null(reason);

    for (size_t i = 0; i < COUNT_OF(reasons); i++)
        known |= str_is(json_str(reason), reasons[i]);
    if (!rule.len)
        admit_required(admit, place_of(c, place, index, "rule"), "rule is not specified");
    else if (json_str(message).len && !words.len)
        admit_invalid(admit, place_of(c, place, index, "message"), message,
                      "message must be non-empty if specified");
    else if (has_lines(words))
        admit_invalid(admit, place_of(c, place, index, "message"), message,
                      "message must not contain line breaks");
    else if (has_lines(rule) && !words.len)
        admit_required(admit, place_of(c, place, index, "message"),
                       "message must be specified if rule contains line breaks");
    if (!known)
        admit_unsupported(admit, place_of(c, place, index, "reason"), reason,
                          "\"FieldValueDuplicate\", \"FieldValueForbidden\", "
                          "\"FieldValueInvalid\", \"FieldValueRequired\"");
    return admit->causes.count == before;
}

static void compile_wrong(const struct compiling *c,
                          struct str path,
                          const struct json *value,
                          const char *before,
                          const char *words)
{
    if (c->admit)
        admit_invalid(c->admit, path, value, str_printf(c->arena, "%s%s", before, words).p);
}

static const struct cel_variable *variables_of(const struct compiling *c,
                                               const struct schema *schema,
                                               const struct place *place,
                                               bool optional_old)
{
    struct cel_variable *variables = ARENA_ARRAY(c->arena, struct cel_variable, VARIABLES);

    variables[SELF] =
        (struct cel_variable){.name = "self", .schema = schema, .resource = place->root};
    variables[OLD_SELF] = (struct cel_variable){.name = "oldSelf",
                                                .schema = schema,
                                                .resource = place->root,
                                                .type = optional_old ? CEL_OPTIONAL : CEL_DYN};
    return variables;
}

/* What is dyn may be it; who writes a rule must say so. */
static bool gives(const struct compiling *c, const struct cel_program *program, enum cel_type type)
{
    return program->result == type || (c->loose && program->result == CEL_DYN);
}

static int compile_text(const struct compiling *c,
                        struct str text,
                        const struct cel_variable *variables,
                        const struct cel_program **ret,
                        struct err *err)
{
    struct cel_program *program = NULL;
    int r = cel_compile(&(struct cel_compile){.arena = c->arena,
                                              .text = text,
                                              .variables = variables,
                                              .variable_count = VARIABLES,
                                              .loose = c->loose},
                        &program, err);

    *ret = program;
    return r;
}

static void compile_message(const struct compiling *c,
                            const struct json *source,
                            const struct cel_variable *variables,
                            struct str path,
                            struct rule *rule)
{
    struct str text = json_str(json_get(source, "messageExpression"));
    struct err err = {0};

    if (!text.len)
        return;
    if (compile_text(c, text, variables, &rule->words, &err) < 0)
        compile_wrong(c, path, source, "messageExpression compilation failed: ", err.text);
    else if (!gives(c, rule->words, CEL_STRING))
        compile_wrong(c, path, source, "", "messageExpression must evaluate to a string");
}

/* What the rule and its words may cost at worst. */
static void estimate_rule(const struct compiling *c,
                          const struct place *place,
                          size_t index,
                          const struct rule *rule)
{
    struct budget_item item = {.path = place_of(c, place, index, "rule"),
                               .what = "estimated rule cost"};

    if (!c->budget || !place->shape || !rule->program || rule->wrong.len)
        return;
    item.cost = budget_cost(cel_estimate(c->arena, rule->program, place->shape), place->shape,
                            place->times);
    budget_add(c->budget, c->admit, &item);
    if (!rule->words)
        return;
    item = (struct budget_item){.path = place_of(c, place, index, "messageExpression"),
                                .what = "estimated messageExpression cost",
                                .cost = cel_estimate(c->arena, rule->words, place->shape)};
    budget_add(c->budget, c->admit, &item);
}

/* oldSelf needs a counterpart, and optionalOldSelf needs oldSelf. */
static void check_old(const struct compiling *c,
                      const struct place *place,
                      const struct json *source,
                      size_t index,
                      const struct rule *rule)
{
    const struct json *optional = json_get(source, "optionalOldSelf");

    if (rule->uses_old && place->uncorrelated.p && c->admit)
        admit_invalid(c->admit, place_of(c, place, index, "rule"), json_get(source, "rule"),
                      str_printf(c->arena,
                                 "oldSelf cannot be used on the uncorrelatable portion of the "
                                 "schema within " STR_FMT,
                                 STR_ARG(place->uncorrelated))
                          .p);
    if (!rule->uses_old && !json_is_null(optional) && c->admit)
        admit_invalid(c->admit, place_of(c, place, index, "optionalOldSelf"), optional,
                      "may not be set if oldSelf is not used in rule");
}

static struct rule compile_rule(const struct compiling *c,
                                const struct schema *schema,
                                const struct place *place,
                                const struct json *source,
                                size_t index)
{
    struct rule rule = {.text = str_trim(json_str(json_get(source, "rule"))),
                        .message = str_trim(json_str(json_get(source, "message"))),
                        .reason = json_str(json_get(source, "reason")),
                        .optional_old = json_bool_or(json_get(source, "optionalOldSelf"), false)};
    struct str path = json_str(json_get(source, "fieldPath"));
    struct err err = {0};

    if (!check_form(c, place, source, index)) {
        rule.wrong = STR("the rule is not complete");
        return rule;
    }
    const struct cel_variable *variables = variables_of(c, schema, place, rule.optional_old);
    struct str where = place_of(c, place, index, "rule");
    if (compile_text(c, rule.text, variables, &rule.program, &err) < 0) {
        rule.wrong = str_dup(c->arena, str_from(err.text));
        compile_wrong(c, where, source, "compilation failed: ", err.text);
    } else if (!gives(c, rule.program, CEL_BOOL)) {
        rule.wrong = STR("cel expression must evaluate to a bool");
        compile_wrong(c, where, source, "", rule.wrong.p);
    } else {
        rule.uses_old = cel_uses(rule.program, "oldSelf");
        check_old(c, place, source, index, &rule);
    }
    compile_message(c, source, variables, place_of(c, place, index, "messageExpression"), &rule);
    if (path.len && !fieldpath_text(c->arena, schema, path, &rule.field))
        compile_wrong(c, place_of(c, place, index, "fieldPath"), json_get(source, "fieldPath"), "",
                      "fieldPath must be a valid path");
    estimate_rule(c, place, index, &rule);
    return rule;
}

static void compile_below(struct compiling *c,
                          const struct schema *schema,
                          const struct place *place);

/* The place of what is below; `shape` is NULL where the schema above does not show it. */
static struct place place_below(const struct compiling *c,
                                const struct schema *schema,
                                const struct place *place,
                                const struct schema *below,
                                const struct shape *shape)
{
    struct place next = {.uncorrelated = place->uncorrelated};

    /* What is replaced whole has no counterparts in it, nor has a list, but by its keys. */
    if (!next.uncorrelated.p &&
        (schema->atomic_map || (schema->type == SCHEMA_ARRAY && schema->list != SCHEMA_LIST_MAP)))
        next.uncorrelated = place->path;
    if (!c->budget)
        return next;
    next.times = budget_times_below(place->times, schema);
    next.shape = shape ? shape : shape_of(c->arena, below, below->embedded);
    return next;
}

// NOLINTNEXTLINE(misc-no-recursion)
static void compile_items(struct compiling *c,
                          const struct schema *schema,
                          const struct place *place)
{
    struct place below =
        place_below(c, schema, place, schema->items, place->shape ? place->shape->item : NULL);

    below.path = str_printf(c->arena, STR_FMT ".items", STR_ARG(place->path));
    compile_below(c, schema->items, &below);
}

/* In the order in which schema_compile() counted them. */
// NOLINTNEXTLINE(misc-no-recursion)
static void compile_below(struct compiling *c,
                          const struct schema *schema,
                          const struct place *place)
{
    if (!schema || !schema->rules_inside)
        return;
    if (schema->rules) {
        struct rule *items = ARENA_ARRAY(c->arena, struct rule, json_count(schema->rules));
        size_t count = 0;

        JSON_FOREACH(schema->rules, source) {
            items[count] = compile_rule(c, schema, place, source, count);
            count++;
        }
        VEC_PUSH(c->arena, &c->lists, (struct rule_list){items, count});
    }
    for (size_t i = 0; i < schema->property_count; i++) {
        const struct schema_property *property = &schema->properties[i];

        if (!property->schema->rules_inside)
            continue;
        struct place below = place_below(c, schema, place, property->schema,
                                         shape_field(place->shape, property->name));
        below.path = str_printf(c->arena, STR_FMT ".properties[" STR_FMT "]", STR_ARG(place->path),
                                STR_ARG(property->name));
        compile_below(c, property->schema, &below);
    }
    if (schema->additional && schema->additional->rules_inside) {
        struct place below = place_below(c, schema, place, schema->additional,
                                         place->shape ? place->shape->item : NULL);

        below.path = str_printf(c->arena, STR_FMT ".additionalProperties", STR_ARG(place->path));
        compile_below(c, schema->additional, &below);
    }
    if (schema->items && schema->items->rules_inside)
        compile_items(c, schema, place);
}

const struct rules *rules_compile(struct arena *arena,
                                  const struct schema *schema,
                                  struct admit *admit,
                                  struct str path)
{
    struct compiling c = {.arena = arena, .admit = admit, .loose = !admit};
    struct place place = {.path = path, .root = true};

    if (!schema || !schema->rules_inside)
        return NULL;
    compile_below(&c, schema, &place);
    struct rules *rules = ARENA_NEW(arena, struct rules);
    rules->lists = c.lists.items;
    return rules;
}

/* The version's schema is what it was: a rule in it that costs too much was taken before. */
static bool is_unchanged(const struct admit *admit, const struct json *version)
{
    JSON_FOREACH(json_at(admit->old, "spec.versions"), old) {
        if (json_equal(json_get(old, "name"), json_get(version, "name")))
            return json_equal(json_get(old, "schema"), json_get(version, "schema"));
    }
    return false;
}

static void check_version(struct admit *admit, const struct json *version, struct str path)
{
    const struct schema *schema = NULL;
    bool unchanged = is_unchanged(admit, version);
    struct budget budget = {.one_may_be_over = unchanged};
    struct compiling c = {
        .arena = admit->arena, .admit = admit, .budget = &budget, .loose = unchanged};
    struct place place = {.path = path, .root = true, .times = {.count = 1}};

    if (schema_compile(admit->arena, json_at(version, "schema.openAPIV3Schema"), &schema, NULL) <
            0 ||
        !schema || !schema->rules_inside)
        return;
    place.shape = shape_of(admit->arena, schema, true);
    compile_below(&c, schema, &place);
    budget_check(&budget, admit, path);
}

void rules_check_crd(struct admit *admit)
{
    size_t index = 0;

    JSON_FOREACH(json_at(admit->object, "spec.versions"), version)
        check_version(
            admit, version,
            str_printf(admit->arena, "spec.versions[%zu].schema.openAPIV3Schema", index++));
}

/* ---- evaluating ---- */

struct checking {
    struct admit *admit;
    const struct rules *rules;
    int64_t budget; /* negative: nothing is evaluated any more */
    struct str *warnings;
};

/* A value and what it was. */
struct pair {
    const struct json *value;
    const struct json *old; /* NULL: there is no counterpart */
    bool same;              /* it, or what it is in, did not change */
    const struct schema_path *path;
};

static const char *type_name(const struct schema *schema)
{
    static const char *const names[] = {
        [SCHEMA_ANY] = "",           [SCHEMA_OBJECT] = "object",   [SCHEMA_ARRAY] = "array",
        [SCHEMA_STRING] = "string",  [SCHEMA_INTEGER] = "integer", [SCHEMA_NUMBER] = "number",
        [SCHEMA_BOOLEAN] = "boolean"};

    return names[schema->type];
}

static struct str path_text(const struct checking *c, const struct pair *pair, struct str field)
{
    struct str path = schema_path_text(c->admit->arena, pair->path);

    if (!path.len && !field.len)
        return STR("<nil>");
    if (!path.len)
        return field.p[0] == '.' ? str_sub(field, 1, field.len) : field;
    return str_printf(c->admit->arena, STR_FMT STR_FMT, STR_ARG(path), STR_ARG(field));
}

static void fail(const struct checking *c,
                 const struct schema *schema,
                 const struct pair *pair,
                 struct str words)
{
    admit_invalid(c->admit, path_text(c, pair, STR("")),
                  json_new_str(c->admit->arena, str_from(type_name(schema))),
                  str_c(c->admit->arena, words));
}

static struct str rule_words(const struct rule *rule)
{
    return rule->message.len ? rule->message : rule->text;
}

/* What a rule that failed says: its expression where that gives words, its message, or itself. */
static struct str failed_words(struct checking *c,
                               const struct rule *rule,
                               const struct cel_value *values)
{
    struct str otherwise = rule->message.len ? rule->message
                                             : str_printf(c->admit->arena, "failed rule: " STR_FMT,
                                                          STR_ARG(rule->text));

    if (!rule->words)
        return otherwise;
    struct cel_result result = cel_evaluate(rule->words, c->admit->arena, values, CEL_COST_MAX);
    if ((int64_t)result.cost > c->budget || result.out_of_cost) {
        c->budget = -1;
        return result.out_of_cost
                   ? str_printf(c->admit->arena,
                                "no further validation rules will be run due to call cost exceeds "
                                "limit for messageExpression: \"" STR_FMT "\"",
                                STR_ARG(rule->words->text))
                   : STR("messageExpression evaluation failed due to running out of cost budget, "
                         "no further validation rules will be run");
    }
    c->budget -= (int64_t)result.cost;
    if (result.value.type != CEL_STRING)
        return otherwise;
    struct str words = str_trim(result.value.s);
    return words.len && words.len <= MESSAGE_BYTES_MAX && !has_lines(words)
               ? str_utf8(c->admit->arena, words)
               : otherwise;
}

static void add_failed(const struct checking *c,
                       const struct schema *schema,
                       const struct pair *pair,
                       const struct rule *rule,
                       struct str words)
{
    struct str path = path_text(c, pair, rule->field);
    struct admit trial = {.arena = c->admit->arena};
    struct admit *admit = !rule->uses_old && pair->same ? &trial : c->admit;
    const struct json *value = json_new_str(admit->arena, str_from(type_name(schema)));
    const char *text = str_c(admit->arena, words);

    if (str_is(rule->reason, "FieldValueForbidden"))
        admit_forbidden(admit, path, text);
    else if (str_is(rule->reason, "FieldValueRequired"))
        admit_required(admit, path, text);
    else if (str_is(rule->reason, "FieldValueDuplicate"))
        admit_duplicate(admit, path, value);
    else
        admit_invalid(admit, path, value, text);
    for (size_t i = 0; i < trial.causes.count; i++)
        *c->warnings =
            str_printf(admit->arena, STR_FMT "%s" STR_FMT ": " STR_FMT, STR_ARG(*c->warnings),
                       c->warnings->len ? "\n" : "", STR_ARG(trial.causes.items[i].field),
                       STR_ARG(trial.causes.items[i].message));
}

/* Why an evaluation gave no answer. */
static struct str error_words(const struct checking *c,
                              const struct rule *rule,
                              const struct cel_result *result)
{
    struct arena *arena = c->admit->arena;
    struct str words = result->value.type == CEL_ERROR ? result->value.s : STR("no such overload");

    if (result->out_of_cost)
        return str_printf(arena,
                          "'" STR_FMT "': no further validation rules will be run due to call cost "
                          "exceeds limit for rule: " STR_FMT,
                          STR_ARG(words), STR_ARG(rule_words(rule)));
    if (str_starts(words, STR("no such overload")))
        return str_printf(arena,
                          "'" STR_FMT "': call arguments did not match a supported operator, "
                          "function or macro signature for rule: " STR_FMT,
                          STR_ARG(words), STR_ARG(rule_words(rule)));
    return str_printf(arena, STR_FMT " evaluating rule: " STR_FMT, STR_ARG(words),
                      STR_ARG(rule_words(rule)));
}

static void check_rule(struct checking *c,
                       const struct schema *schema,
                       const struct pair *pair,
                       const struct rule *rule)
{
    struct arena *arena = c->admit->arena;
    struct cel_value (*view)(struct arena *, const struct json *, const struct schema *) =
        pair->path ? cel_from_json : cel_from_resource;

    if (rule->wrong.len) {
        fail(c, schema, pair,
             str_printf(arena, "rule compile error: " STR_FMT, STR_ARG(rule->wrong)));
        return;
    }
    if (rule->uses_old && !pair->old && !rule->optional_old)
        return;
    struct cel_value values[VARIABLES] = {[SELF] = view(arena, pair->value, schema)};
    if (pair->old)
        values[OLD_SELF] = view(arena, pair->old, schema);
    if (rule->optional_old)
        values[OLD_SELF] = pair->old ? cel_new_optional(arena, values[OLD_SELF])
                                     : (struct cel_value){.type = CEL_OPTIONAL};
    struct cel_result result = cel_evaluate(rule->program, arena, values, CEL_COST_MAX);
    if ((int64_t)result.cost > c->budget) {
        fail(c, schema, pair,
             STR("validation failed due to running out of cost budget, no further validation rules "
                 "will be run"));
        c->budget = -1;
        return;
    }
    c->budget -= (int64_t)result.cost;
    if (result.value.type != CEL_BOOL) {
        fail(c, schema, pair, error_words(c, rule, &result));
        c->budget = result.out_of_cost ? -1 : c->budget;
        return;
    }
    if (!result.value.truth)
        add_failed(c, schema, pair, rule, failed_words(c, rule, values));
}

/* ---- walking ---- */

static void check_below(struct checking *c, const struct schema *schema, struct pair pair);

/* The item of the old list that has the same keys. */
static const struct json *counterpart(const struct schema *schema,
                                      const struct json *old,
                                      const struct json *item)
{
    if (schema->list != SCHEMA_LIST_MAP)
        return NULL;
    JSON_FOREACH(old, candidate) {
        bool same = true;

        JSON_FOREACH(schema->list_keys, key)
            same &= json_equal(json_get_str(candidate, json_str(key)),
                               json_get_str(item, json_str(key)));
        if (same)
            return candidate;
    }
    return NULL;
}

// NOLINTNEXTLINE(misc-no-recursion)
static void check_array(struct checking *c, const struct schema *schema, const struct pair *pair)
{
    struct schema_path path = {.up = pair->path};

    if (!schema->items || !schema->items->rules_inside)
        return;
    JSON_FOREACH(pair->value, item) {
        check_below(c, schema->items,
                    (struct pair){.value = item,
                                  .old = counterpart(schema, pair->old, item),
                                  .same = pair->same,
                                  .path = &path});
        path.index++;
    }
}

// NOLINTNEXTLINE(misc-no-recursion)
static void check_below(struct checking *c, const struct schema *schema, struct pair pair)
{
    if (!schema || !schema->rules_inside || json_is_null(pair.value) || c->budget < 0)
        return;
    if (json_is_null(pair.old))
        pair.old = NULL;
    if (schema->rules) {
        const struct rule_list *list = &c->rules->lists[schema->rules_at - 1];

        pair.same = pair.same || (pair.old && json_equal(pair.value, pair.old));
        for (size_t i = 0; i < list->count && c->budget >= 0; i++)
            check_rule(c, schema, &pair, &list->items[i]);
    }
    if (json_is(pair.value, JSON_ARRAY))
        check_array(c, schema, &pair);
    if (!json_is(pair.value, JSON_OBJECT))
        return;
    JSON_FOREACH(pair.value, member) {
        struct schema_path path = {
            .up = pair.path, .name = json_key(member), .key = schema->additional != NULL};
        const struct json *old = schema->atomic_map ? NULL : pair.old;

        check_below(c, schema_property(schema, json_key(member)),
                    (struct pair){.value = member,
                                  .old = json_get_str(old, json_key(member)),
                                  .same = pair.same,
                                  .path = &path});
    }
}

void rules_validate(struct admit *admit,
                    const struct rules *rules,
                    const struct schema *schema,
                    struct str *warnings)
{
    struct checking checking = {
        .admit = admit, .rules = rules, .budget = CEL_COST_BUDGET, .warnings = warnings};

    if (rules)
        check_below(&checking, schema, (struct pair){.value = admit->object, .old = admit->old});
}
