#include "control/grouping/grouping_case_test.h"

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/control.h"
#include "control/grouping/grouping.h"
#include "test.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

static struct json *parse(struct arena *arena, struct str text)
{
    char *copy = str_c(arena, text);
    struct json *tree = NULL;

    for (char *c = copy; *c; c++)
        if (*c == '\'')
            *c = '"';
    int r = json_parse(arena, str_from(copy), &tree, NULL);
    assert(r == 0);
    (void)r;
    return tree;
}

static bool is_of(const struct json *object, const char *kind, struct str ns)
{
    return str_is(json_str_at(object, "kind"), kind) &&
           str_eq(json_str_at(object, "metadata.namespace"), ns);
}

static const struct json *find(void *user, const char *kind, struct str ns, struct str name)
{
    JSON_FOREACH((const struct json *)user, object)
        if (is_of(object, kind, ns) && str_eq(json_str_at(object, "metadata.name"), name))
            return object;
    return NULL;
}

static const struct json *next(void *user, const char *kind, struct str ns, size_t *cursor)
{
    const struct json *object;

    while ((object = json_index(user, (*cursor)++)))
        if (is_of(object, kind, ns))
            return object;
    return NULL;
}

int grouping_case_decide(const struct grouping_case *row,
                         const struct grouping_input *as,
                         struct arena *arena,
                         struct grouping *ret,
                         struct err *err)
{
    static const struct control_config config = {.queue_label_key = STR("kai.scheduler/queue"),
                                                 .default_queue = STR("default-queue")};
    struct grouping_input in = *as;

    in.arena = arena;
    in.config = &config;
    in.find = find;
    in.next = next;
    in.user = parse(arena, str_printf(arena, "[%s]", row->around ? row->around : ""));
    in.pod = parse(arena, str_printf(arena,
                                     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'%s',"
                                     "'uid':'pu','namespace':'d'%s%s},'spec':{%s}}",
                                     row->name ? row->name : "p", row->meta ? "," : "",
                                     row->meta ? row->meta : "", row->spec ? row->spec : ""));
    for (in.owner_count = 0; row->owners[in.owner_count]; in.owner_count++)
        in.owners[in.owner_count] = parse(arena, str_from(row->owners[in.owner_count]));
    return grouping_decide(&in, NULL, ret, err);
}

/* ---- words ---- */

static struct str topology_words(const struct grouping_topology *topology, struct arena *arena)
{
    return topology->topology.len
               ? str_printf(arena, "@" STR_FMT ":" STR_FMT ":" STR_FMT, STR_ARG(topology->topology),
                            STR_ARG(topology->required), STR_ARG(topology->preferred))
               : STR_NONE;
}

static struct str sub_words(const struct grouping_sub *sub, struct arena *arena)
{
    return str_printf(arena, " " STR_FMT "=%s%lld%s" STR_FMT STR_FMT, STR_ARG(sub->name),
                      sub->inner ? "*" : "", (long long)(sub->inner ? sub->min_sub : sub->min),
                      sub->parent.len ? "<" : "", STR_ARG(sub->parent),
                      STR_ARG(topology_words(&sub->topology, arena)));
}

static struct str words_of(const struct grouping *group, struct arena *arena)
{
    struct str text = str_printf(arena, STR_FMT " %s%lld" STR_FMT, STR_ARG(group->name),
                                 group->min_sub ? "*" : "",
                                 (long long)(group->min_sub ? group->min_sub : group->min_member),
                                 STR_ARG(topology_words(&group->topology, arena)));

    for (size_t i = 0; i < group->subs.count; i++)
        text = str_printf(arena, STR_FMT STR_FMT, STR_ARG(text),
                          STR_ARG(sub_words(&group->subs.items[i], arena)));
    if (group->pod_sub.len)
        text = str_printf(arena, STR_FMT " -> " STR_FMT, STR_ARG(text), STR_ARG(group->pod_sub));
    if (!str_is(group->owner.name, "o"))
        text = str_printf(arena, STR_FMT " by " STR_FMT "/" STR_FMT, STR_ARG(text),
                          STR_ARG(group->owner.kind), STR_ARG(group->owner.name));
    if (!str_is(group->priority, "train"))
        text = str_printf(arena, STR_FMT " priority " STR_FMT, STR_ARG(text),
                          STR_ARG(group->priority));
    if (group->preemptibility.len)
        text = str_printf(arena, STR_FMT " is " STR_FMT, STR_ARG(text),
                          STR_ARG(group->preemptibility));
    return text;
}

void grouping_case_check(const struct grouping_case *rows,
                         size_t count,
                         const struct grouping_input *as)
{
    for (size_t i = 0; i < count; i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct grouping group = {0};
        struct err err = {0};
        struct str want = str_from(rows[i].want);
        struct str told = STR_NONE;

        test_case(rows[i].why);
        if (grouping_case_decide(&rows[i], as, &arena, &group, &err) < 0)
            told = str_sub(str_printf(&arena, "refused: %s", err.text), 0, want.len);
        else
            told = words_of(&group, &arena);
        if (!str_eq(told, want))
            test_fail(__FILE__, __LINE__,
                      str_c(&arena, str_printf(&arena, "%s, and not " STR_FMT, rows[i].want,
                                               STR_ARG(told))));
    }
}
