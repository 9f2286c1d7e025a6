#include "api/selector.h"

#include "api/kind.h"
#include "api/names.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_names.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct terms VEC_FIELDS(struct selector_term);

/* A cursor over the text of a label selector. */
struct scan {
    struct arena *arena;
    struct str text;
    size_t at;
};

static void skip_blanks(struct scan *scan)
{
    while (scan->at < scan->text.len &&
           (scan->text.p[scan->at] == ' ' || scan->text.p[scan->at] == '\t'))
        scan->at++;
}

static bool take(struct scan *scan, char c)
{
    skip_blanks(scan);
    if (scan->at >= scan->text.len || scan->text.p[scan->at] != c)
        return false;
    scan->at++;
    return true;
}

static struct str take_word(struct scan *scan)
{
    skip_blanks(scan);
    size_t start = scan->at;
    while (scan->at < scan->text.len &&
           !memchr(" \t,()=!<>", scan->text.p[scan->at], sizeof(" \t,()=!<>") - 1))
        scan->at++;
    return str_sub(scan->text, start, scan->at - start);
}

static int wrong(const struct scan *scan, const char *expected, struct err *err)
{
    return err_set(err, -EINVAL,
                   "unable to parse selector \"" STR_FMT "\": expected %s at character %zu",
                   STR_ARG(str_sub(scan->text, 0, 80)), expected, scan->at + 1);
}

static int take_values(struct scan *scan, struct selector_term *term, struct err *err)
{
    VEC(struct str) values = {0};

    if (!take(scan, '('))
        return wrong(scan, "'('", err);
    do {
        if (values.count == SELECTOR_VALUES_MAX)
            return err_set(err, -EINVAL, "a selector term has at most %d values",
                           SELECTOR_VALUES_MAX);
        VEC_PUSH(scan->arena, &values, take_word(scan));
    } while (take(scan, ','));
    if (!take(scan, ')'))
        return wrong(scan, "')'", err);
    term->values = values.items;
    term->value_count = values.count;
    return 0;
}

static void one_value(struct scan *scan, struct selector_term *term)
{
    struct str *value = ARENA_NEW(scan->arena, struct str);

    *value = take_word(scan);
    term->values = value;
    term->value_count = 1;
}

/* What follows the key: an operator and its values, or nothing (the key exists). */
static int take_operator(struct scan *scan, struct selector_term *term, struct err *err)
{
    static const struct {
        char text[3];
        enum selector_op op;
    } symbols[] = {{"==", SELECTOR_IN},
                   {"!=", SELECTOR_NOT_IN},
                   {"=", SELECTOR_IN},
                   {">", SELECTOR_GREATER},
                   {"<", SELECTOR_LESS}};

    skip_blanks(scan);
    struct str rest = str_sub(scan->text, scan->at, scan->text.len);
    for (size_t i = 0; i < COUNT_OF(symbols); i++) {
        if (!str_starts(rest, str_from(symbols[i].text)))
            continue;
        scan->at += strlen(symbols[i].text);
        term->op = symbols[i].op;
        one_value(scan, term);
        int64_t bound = 0;
        if (term->op >= SELECTOR_GREATER && !str_to_i64(term->values[0], &bound))
            return wrong(scan, "a whole number after '<' or '>'", err);
        return 0;
    }
    if (!rest.len || rest.p[0] == ',') {
        term->op = SELECTOR_EXISTS;
        return 0;
    }
    struct str word = take_word(scan);
    if (!str_is(word, "in") && !str_is(word, "notin"))
        return wrong(scan, "one of = == != in notin , or the end", err);
    term->op = str_is(word, "in") ? SELECTOR_IN : SELECTOR_NOT_IN;
    return take_values(scan, term, err);
}

static int check_term(const struct selector_term *term, struct err *err)
{
    const char *rule = names_qualified(term->key);

    if (rule)
        return err_set(err, -EINVAL, "unable to parse selector: key \"" STR_FMT "\": %s",
                       STR_ARG(term->key), rule);
    for (size_t i = 0; i < term->value_count; i++) {
        rule = names_label_value(term->values[i]);
        if (rule)
            return err_set(err, -EINVAL, "unable to parse selector: value \"" STR_FMT "\": %s",
                           STR_ARG(term->values[i]), rule);
    }
    return 0;
}

int selector_parse_labels(struct arena *arena,
                          struct str text,
                          struct selector *ret,
                          struct err *err)
{
    struct scan scan = {.arena = arena, .text = text};
    struct terms terms = {0};

    skip_blanks(&scan);
    while (scan.at < scan.text.len) {
        struct selector_term term = {0};
        bool absent = take(&scan, '!');

        term.key = take_word(&scan);
        term.op = SELECTOR_ABSENT;
        int r = absent ? 0 : take_operator(&scan, &term, err);
        if (r == 0)
            r = check_term(&term, err);
        if (r < 0)
            return r;
        if (terms.count == SELECTOR_TERMS_MAX)
            return err_set(err, -EINVAL, "a selector has at most %d terms", SELECTOR_TERMS_MAX);
        VEC_PUSH(arena, &terms, term);
        if (!take(&scan, ',') && scan.at < scan.text.len)
            return wrong(&scan, "',' or the end", err);
        skip_blanks(&scan);
    }
    *ret = (struct selector){.terms = terms.items, .term_count = terms.count};
    return 0;
}

/* Up to the next ',' that has no '\' before it. */
static bool cut_field(struct str *rest, struct str *ret)
{
    size_t end = 0;

    if (!rest->p)
        return false;
    while (end < rest->len && rest->p[end] != ',')
        end += rest->p[end] == '\\' && end + 1 < rest->len ? 2 : 1;
    *ret = str_sub(*rest, 0, end);
    *rest = end < rest->len ? str_sub(*rest, end + 1, rest->len) : STR_NONE;
    return true;
}

/* The value without the '\' before a ',', '=' or '\'; false: one stands before something else, or
 * before nothing, or a '=' stands alone. */
static bool unescape(struct arena *arena, struct str *text)
{
    char *out = arena_alloc(arena, text->len + 1, 1, 1);
    size_t len = 0;

    for (size_t i = 0; i < text->len; i++) {
        bool escaped = text->p[i] == '\\';

        i += escaped ? 1 : 0;
        char c = i < text->len ? text->p[i] : 0;
        if (escaped ? c != '\\' && c != ',' && c != '=' : c == '=')
            return false;
        out[len++] = c;
    }
    *text = (struct str){out, len};
    return true;
}

int selector_parse_fields(struct arena *arena,
                          struct str text,
                          struct selector *ret,
                          struct err *err)
{
    struct terms terms = {0};
    struct str rest = text;
    struct str part;

    while (text.len && cut_field(&rest, &part)) {
        size_t at = str_find(part, '=');
        struct str *value = ARENA_NEW(arena, struct str);

        if (!part.len)
            continue;
        if (at == part.len || at == 0 || terms.count == SELECTOR_TERMS_MAX)
            return err_set(err, -EINVAL,
                           "invalid field selector \"" STR_FMT "\": write field=value or "
                           "field!=value, separated by commas",
                           STR_ARG(str_sub(text, 0, 80)));
        bool not = part.p[at - 1] == '!';
        *value = str_sub(part, at + 1, part.len);
        if (!not &&str_starts(*value, STR("=")))
            *value = str_sub(*value, 1, value->len);
        if (!unescape(arena, value))
            return err_set(err, -EINVAL,
                           "invalid field selector \"" STR_FMT "\": in a value a '\\' stands "
                           "before each ',', '=' and '\\', and before nothing else",
                           STR_ARG(str_sub(text, 0, 80)));
        VEC_PUSH(arena, &terms,
                 (struct selector_term){.key = str_trim(str_sub(part, 0, at - (not ? 1 : 0))),
                                        .op = not ? SELECTOR_NOT_IN : SELECTOR_IN,
                                        .values = value,
                                        .value_count = 1});
    }
    *ret = (struct selector){.terms = terms.items, .term_count = terms.count};
    return 0;
}

static int expression(struct arena *arena,
                      const struct json *item,
                      struct selector_term *ret,
                      struct err *err)
{
    static const struct {
        const char *name;
        enum selector_op op;
    } ops[] = {{"In", SELECTOR_IN},         {"NotIn", SELECTOR_NOT_IN},
               {"Exists", SELECTOR_EXISTS}, {"DoesNotExist", SELECTOR_ABSENT},
               {"Gt", SELECTOR_GREATER},    {"Lt", SELECTOR_LESS}};
    const struct json *values = json_get(item, "values");
    struct str *texts = ARENA_ARRAY(arena, struct str, json_count(values));
    size_t count = 0;

    JSON_FOREACH(values, value)
        texts[count++] = json_str(value);
    for (size_t i = 0; i < COUNT_OF(ops); i++) {
        if (!str_is(json_str(json_get(item, "operator")), ops[i].name))
            continue;
        *ret = (struct selector_term){.key = json_str(json_get(item, "key")),
                                      .op = ops[i].op,
                                      .values = texts,
                                      .value_count = count};
        return 0;
    }
    return err_set(err, -EINVAL,
                   "matchExpressions: operator must be In, NotIn, Exists or DoesNotExist");
}

int selector_from_json(struct arena *arena,
                       const struct json *value,
                       struct selector *ret,
                       struct err *err)
{
    struct terms terms = {0};

    JSON_FOREACH(json_get(value, "matchLabels"), label) {
        struct str *text = ARENA_NEW(arena, struct str);

        *text = json_str(label);
        VEC_PUSH(arena, &terms,
                 (struct selector_term){
                     .key = json_key(label), .op = SELECTOR_IN, .values = text, .value_count = 1});
    }
    JSON_FOREACH(json_get(value, "matchExpressions"), item) {
        struct selector_term term = {0};
        int r = expression(arena, item, &term, err);

        if (r < 0)
            return r;
        VEC_PUSH(arena, &terms, term);
    }
    *ret = (struct selector){.terms = terms.items, .term_count = terms.count};
    return 0;
}

static bool term_matches(const struct selector_term *term, bool present, struct str value)
{
    int64_t a = 0;
    int64_t b = 0;
    bool listed = false;

    for (size_t i = 0; present && i < term->value_count && !listed; i++)
        listed = str_eq(value, term->values[i]);
    switch (term->op) {
    case SELECTOR_IN: return listed;
    case SELECTOR_NOT_IN: return !listed;
    case SELECTOR_EXISTS: return present;
    case SELECTOR_ABSENT: return !present;
    case SELECTOR_GREATER:
    case SELECTOR_LESS:
        if (!present || term->value_count != 1 || !str_to_i64(value, &a) ||
            !str_to_i64(term->values[0], &b))
            return false;
        return term->op == SELECTOR_GREATER ? a > b : a < b;
    }
    return false;
}

/* A few terms look through the labels one by one; more, and many labels, ask a map. */
#define SCAN_TERMS_MAX 16

static const struct object_label *label_find(const struct object_label *labels,
                                             size_t label_count,
                                             struct str key)
{
    for (size_t i = 0; i < label_count; i++)
        if (str_eq(labels[i].key, key))
            return &labels[i];
    return NULL;
}

bool selector_matches(const struct selector *selector,
                      const struct object_label *labels,
                      size_t label_count)
{
    _cleanup_(map_done) struct map names = {.seed = (uintptr_t)labels};
    bool many = selector->term_count > SCAN_TERMS_MAX && label_count > JSON_NAMES_SCAN_MAX;

    for (size_t i = 0; many && i < label_count; i++)
        (void)map_set(&names, labels[i].key, (void *)(uintptr_t)&labels[i]);
    for (size_t i = 0; i < selector->term_count; i++) {
        const struct selector_term *term = &selector->terms[i];
        const struct object_label *found =
            many ? map_get(&names, term->key) : label_find(labels, label_count, term->key);

        if (!term_matches(term, found != NULL, found ? found->value : STR_NONE))
            return false;
    }
    return true;
}

bool selector_matches_json(const struct selector *selector, const struct json *labels)
{
    _cleanup_(json_names_done) struct json_names names = {.object = labels};

    for (size_t i = 0; i < selector->term_count; i++) {
        struct str key = selector->terms[i].key;
        const struct json *found = selector->term_count > SCAN_TERMS_MAX
                                       ? json_names_get(&names, key)
                                       : json_get_str(labels, key);

        if (!term_matches(&selector->terms[i], found != NULL, json_str(found)))
            return false;
    }
    return true;
}

/* The text of a leaf; absent is "", as Kubernetes' field selectors have it. */
static struct str field_text(const struct json *root, struct str path)
{
    struct str name;

    while (root && str_cut(&path, '.', &name))
        root = json_get_str(root, name);
    if (json_is(root, JSON_BOOL))
        return json_bool_or(root, false) ? STR("true") : STR("false");
    return json_is(root, JSON_NUMBER) ? json_number_text(root) : json_str(root);
}

/* "a.b|c": c where a.b says nothing. */
static struct str first_text(const struct json *root, struct str paths)
{
    struct str path;
    struct str text = STR_NONE;

    while (!text.len && str_cut(&paths, '|', &path))
        text = field_text(root, path);
    return text;
}

bool selector_matches_fields(const struct selector *selector, const struct object *object)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *root = NULL;

    for (size_t i = 0; i < selector->term_count; i++) {
        const struct selector_term *term = &selector->terms[i];
        struct str value;

        if (str_is(term->key, "metadata.name")) {
            value = object->name;
        } else if (str_is(term->key, "metadata.namespace")) {
            value = object->ns;
        } else {
            if (!root)
                root = object_tree(object, &arena);
            value = first_text(root, term->key);
        }
        if (!term_matches(term, true, value))
            return false;
    }
    return true;
}

struct selector_kept {
    struct arena arena;
    struct selector selector;
    bool there;
};

/* The texts of a tree are those of the object, but for what was escaped. */
static const struct selector *selector_keep(struct selector_kept *kept, const struct object *object)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *wanted = json_at(object_tree(object, &arena), "spec.selector");
    struct json *outer = NULL;

    if (!json_is(wanted, JSON_OBJECT))
        return NULL;
    wanted = json_clone(&kept->arena, wanted);
    if (!object->kind->group[0]) {
        outer = json_new_object(&kept->arena);
        json_set(outer, STR("matchLabels"), (struct json *)(uintptr_t)wanted);
    }
    kept->there =
        selector_from_json(&kept->arena, outer ? outer : wanted, &kept->selector, NULL) == 0;
    return kept->there ? &kept->selector : NULL;
}

const struct selector *object_selector(const struct object *object)
{
    struct object *shared = (struct object *)(uintptr_t)object;

    if (shared->selector)
        return shared->selector->there ? &shared->selector->selector : NULL;
    shared->selector = MEM_NEW(struct selector_kept);
    return selector_keep(shared->selector, object);
}

void selector_kept_free(struct selector_kept *kept)
{
    if (kept)
        arena_done(&kept->arena);
    mem_free(kept);
}
