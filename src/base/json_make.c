#include "base/json_make.h"

#include "base/json.h"
#include "base/str.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct template
{
    struct arena *arena;
    const char *p;
    const struct json_arg *next;
    const struct json_arg *end;
};

static void template_skip_blanks(struct template *t)
{
    while (*t->p == ' ' || *t->p == '\n')
        t->p++;
}

static bool template_takes(struct template *t, char c)
{
    template_skip_blanks(t);
    if (*t->p != c)
        return false;
    t->p++;
    return true;
}

static void template_expect(struct template *t, char c)
{
    bool is_there = template_takes(t, c);

    assert(is_there);
    (void)is_there;
}

/* 'text' or a bare word. */
static struct str template_word(struct template *t)
{
    const char *start;

    if (template_takes(t, '\'')) {
        start = t->p;
        t->p += strcspn(t->p, "'");
        assert(*t->p == '\'');
        return (struct str){start, (size_t)(t->p++ - start)};
    }
    start = t->p;
    t->p += strspn(t->p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./");
    assert(t->p > start);
    return (struct str){start, (size_t)(t->p - start)};
}

/* NULL: left out. */
static struct json *template_argument(struct template *t)
{
    bool may_be_absent = *t->p == '?';
    const struct json_arg *arg = t->next;

    t->p += may_be_absent;
    assert(arg < t->end);
    t->next++;
    switch (arg->type) {
    case JSON_ARG_TEXT:
        return may_be_absent && arg->text.len == 0 ? NULL : json_new_str(t->arena, arg->text);
    case JSON_ARG_I64: return json_new_i64(t->arena, arg->number);
    case JSON_ARG_BOOL: return json_new_bool(t->arena, arg->truth);
    case JSON_ARG_TREE: assert(arg->tree || may_be_absent); return arg->tree;
    }
    return NULL;
}

static struct json *template_value(struct template *t);

static void template_members(struct template *t, struct json *object)
{
    if (template_takes(t, '}'))
        return;
    do {
        struct str key = template_word(t);

        template_expect(t, ':');
        struct json *value = template_value(t);
        if (value)
            json_set(object, key, value);
    } while (template_takes(t, ','));
    template_expect(t, '}');
}

static struct json *template_array(struct template *t)
{
    struct json *array = json_new_array(t->arena);

    if (template_takes(t, ']'))
        return array;
    do {
        struct json *value = template_value(t);

        if (value)
            json_push(array, value);
    } while (template_takes(t, ','));
    template_expect(t, ']');
    return array;
}

static struct json *template_value(struct template *t)
{
    if (template_takes(t, '$'))
        return template_argument(t);
    if (template_takes(t, '['))
        return template_array(t);
    if (template_takes(t, '{')) {
        struct json *object = json_new_object(t->arena);

        template_members(t, object);
        return object;
    }
    bool is_text = *t->p == '\'';
    struct str word = template_word(t);
    if (is_text)
        return json_new_str(t->arena, word);
    if (str_is(word, "null"))
        return json_new_null(t->arena);
    if (str_is(word, "true") || str_is(word, "false"))
        return json_new_bool(t->arena, str_is(word, "true"));
    return json_new_number(t->arena, word);
}

static void template_check_end(struct template *t)
{
    template_skip_blanks(t);
    assert(*t->p == '\0' && t->next == t->end);
}

struct json *json_make_args(struct arena *arena,
                            const char *template,
                            const struct json_arg *args,
                            size_t count)
{
    struct template t = {arena, template, args, args + count};
    struct json *value = template_value(&t);

    template_check_end(&t);
    return value;
}

void json_fill_args(struct arena *arena,
                    struct json *object,
                    const char *template,
                    const struct json_arg *args,
                    size_t count)
{
    struct template t = {arena, template, args, args + count};

    template_expect(&t, '{');
    template_members(&t, object);
    template_check_end(&t);
}
