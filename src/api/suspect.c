#include "api/suspect.h"

#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/shorten.h"
#include "base/str.h"
#include "base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of SUSPECT_GPU_TAINT: after the others (rows that wait, heat, an error that was contained) a program
 * that runs may run to its end. */
static const char *const unusable[] = {"XID", "ECC", "RowRemapFailed"};

static struct suspect_blame blame_parse(const struct object_label *annotation)
{
    struct suspect_blame blame = {.key = annotation->key};
    struct str rest = annotation->value;
    struct str moment = STR_NONE;

    if (!str_cut(&rest, ' ', &moment) || !time_parse(moment, &blame.time_ms) ||
        !str_cut(&rest, ' ', &blame.word)) {
        blame.time_ms = 0;
        return blame;
    }
    blame.words = rest;
    return blame;
}

size_t suspect_blames(const struct object *node,
                      struct suspect_blame ret[static SUSPECT_BLAMES_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < node->annotation_count && count < SUSPECT_BLAMES_MAX; i++)
        if (str_starts(node->annotations[i].key, STR(SUSPECT_BLAME)))
            ret[count++] = blame_parse(&node->annotations[i]);
    return count;
}

struct str suspect_blame_key(struct arena *arena, struct str uid)
{
    return str_printf(arena, SUSPECT_BLAME STR_FMT, STR_ARG(uid));
}

struct str suspect_blame_text(struct arena *arena,
                              int64_t now_ms,
                              const char *word,
                              struct str words)
{
    struct str text = str_printf(arena, STR_FMT " %s " STR_FMT, STR_ARG(time_text(arena, now_ms)),
                                 word, STR_ARG(words));

    return str_utf8(arena, str_shorten(arena, text, SUSPECT_BLAME_TEXT));
}

bool suspect_is_named(const struct object *node)
{
    return object_annotation(node, SUSPECT_WORDS).len ||
           str_contains(node->raw, STR("\"" SUSPECT_TAINT "\"")) ||
           str_contains(node->raw, STR("\"" SUSPECT_GPU_TAINT "\""));
}

struct str suspect_leave(const struct json *node)
{
    JSON_FOREACH(json_at(node, "spec.taints"), taint) {
        struct str key = json_str(json_get(taint, "key"));
        struct str value = json_str(json_get(taint, "value"));

        if (str_is(key, SUSPECT_TAINT) && str_is(value, SUSPECT_TEST_FAILED))
            return value;
        for (size_t i = 0; str_is(key, SUSPECT_GPU_TAINT) && i < COUNT_OF(unusable); i++)
            if (str_is(value, unusable[i]))
                return value;
    }
    return STR_NONE;
}

bool suspect_is_faulty(const struct json *node)
{
    JSON_FOREACH(json_at(node, "spec.taints"), taint)
        if (str_is(json_str(json_get(taint, "key")), SUSPECT_GPU_TAINT) &&
            str_starts(json_str(json_get(taint, "value")), STR("XID")))
            return true;
    return false;
}
