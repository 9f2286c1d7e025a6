#include "api/ranges.h"

#include "api/kind.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

static const char *const container_lists[] = {"initContainers", "containers"};

/* ---- filling in ---- */

static void fill_list(struct arena *arena,
                      struct json *container,
                      const char *list,
                      const struct json *amounts)
{
    JSON_FOREACH(amounts, amount) {
        struct json *there = json_make_path(arena, container, "resources");

        if (!json_is(json_get(there, list), JSON_OBJECT))
            json_add_object(arena, there, list);
        there = json_get(there, list);
        if (!json_get_str(there, json_key(amount)))
            json_set(there, str_dup(arena, json_key(amount)), json_clone(arena, amount));
    }
}

void ranges_fill(struct arena *arena, const struct json *spec, struct json *pod)
{
    JSON_FOREACH(json_get(spec, "limits"), item) {
        if (!str_is(json_str(json_get(item, "type")), "Container"))
            continue;
        for (size_t i = 0; i < COUNT_OF(container_lists); i++)
            JSON_FOREACH(json_get(json_get(pod, "spec"), container_lists[i]), container) {
                fill_list(arena, container, "limits", json_get(item, "default"));
                fill_list(arena, container, "requests", json_get(item, "defaultRequest"));
            }
    }
}

/* ---- checking ---- */

struct ranges_run {
    struct arena *arena;
    struct buf *problems;
    const char *type; /* Container, Pod, PersistentVolumeClaim */
};

static void add(struct ranges_run *run, struct str sentence)
{
    buf_addf(run->problems, "%s" STR_FMT, run->problems->len ? ", " : "", STR_ARG(sentence));
}

static struct str text_of(const struct json *value)
{
    return json_is(value, JSON_NUMBER) ? json_number_text(value) : json_str(value);
}

/* `given` NULL: nothing is said. */
static void check_bound(struct ranges_run *run,
                        const struct json *bound,
                        const struct quantity *given,
                        bool most)
{
    struct quantity limit = {0};
    const char *word = most ? "limit" : "request";

    if (quantity_parse_json(bound, &limit, NULL) < 0)
        return;
    if (!given)
        add(run,
            str_printf(run->arena, "%s " STR_FMT " usage per %s is " STR_FMT ". No %s is specified",
                       most ? "maximum" : "minimum", STR_ARG(json_key(bound)), run->type,
                       STR_ARG(text_of(bound)), word));
    else if (most ? quantity_cmp(*given, limit) > 0 : quantity_cmp(*given, limit) < 0)
        add(run,
            str_printf(run->arena, "%s " STR_FMT " usage per %s is " STR_FMT ", but %s is " STR_FMT,
                       most ? "maximum" : "minimum", STR_ARG(json_key(bound)), run->type,
                       STR_ARG(text_of(bound)), word, STR_ARG(quantity_text(run->arena, *given))));
}

static const struct quantity *read_amount(struct ranges_run *run,
                                          const struct json *amounts,
                                          struct str name)
{
    const struct json *value = json_get_str(amounts, name);
    struct quantity *amount = ARENA_NEW(run->arena, struct quantity);

    return !json_is_null(value) && quantity_parse_json(value, amount, NULL) == 0 ? amount : NULL;
}

static void check_ratio(struct ranges_run *run,
                        const struct json *bound,
                        const struct quantity *request,
                        const struct quantity *limit)
{
    struct quantity ratio = {0};

    if (quantity_parse_json(bound, &ratio, NULL) < 0)
        return;
    /* Who says nothing of one of them has no bound of that ratio. */
    const char *missing = !request || request->nano <= 0 ? "request"
                          : !limit || limit->nano <= 0   ? "limit"
                                                         : NULL;
    if (missing) {
        add(run, str_printf(run->arena,
                            STR_FMT " max limit to request ratio per %s is " STR_FMT
                                    ", but no %s is specified or %s is 0",
                            STR_ARG(json_key(bound)), run->type, STR_ARG(text_of(bound)), missing,
                            missing));
        return;
    }
    __int128 given = limit->nano * 1000000 / request->nano;
    if (given * 1000 > ratio.nano)
        add(run, str_printf(run->arena,
                            STR_FMT " max limit to request ratio per %s is " STR_FMT
                                    ", but provided ratio is %lld.%06lld",
                            STR_ARG(json_key(bound)), run->type, STR_ARG(text_of(bound)),
                            (long long)(given / 1000000), (long long)(given % 1000000)));
}

static void check_amounts(struct ranges_run *run,
                          const struct json *item,
                          const struct json *requests,
                          const struct json *limits)
{
    JSON_FOREACH(json_get(item, "min"), bound)
        check_bound(run, bound, read_amount(run, requests, json_key(bound)), false);
    JSON_FOREACH(json_get(item, "max"), bound)
        check_bound(run, bound, read_amount(run, limits, json_key(bound)), true);
    JSON_FOREACH(json_get(item, "maxLimitRequestRatio"), bound)
        check_ratio(run, bound, read_amount(run, requests, json_key(bound)),
                    read_amount(run, limits, json_key(bound)));
}

/* What is in `sum` of an amount's resource becomes the sum of both, or the greater. */
static void sum_take(struct arena *arena, struct json *sum, const struct json *amount, bool most)
{
    struct quantity one = {0};
    struct quantity before = {0};

    if (quantity_parse_json(amount, &one, NULL) < 0)
        return;
    (void)quantity_parse_json(json_get_str(sum, json_key(amount)), &before, NULL);
    one.nano = !most ? one.nano + before.nano : one.nano > before.nano ? one.nano : before.nano;
    json_set(sum, str_dup(arena, json_key(amount)), json_new_str(arena, quantity_text(arena, one)));
}

/* What a pod takes: its containers and those that run beside them added up, or what one of those
 * before them takes with the ones that run by then, if that is more. */
static struct json *add_up(struct ranges_run *run, const struct json *spec, const char *list)
{
    struct json *beside = json_new_object(run->arena);
    struct json *before = json_new_object(run->arena);

    JSON_FOREACH(json_get(spec, "initContainers"), container) {
        bool stays = str_is(json_str(json_get(container, "restartPolicy")), "Always");
        struct json *with = stays ? beside : json_clone(run->arena, beside);

        JSON_FOREACH(json_get(json_get(container, "resources"), list), amount)
            sum_take(run->arena, with, amount, false);
        JSON_FOREACH(with, amount)
            sum_take(run->arena, before, amount, true);
    }
    JSON_FOREACH(json_get(spec, "containers"), container)
        JSON_FOREACH(json_get(json_get(container, "resources"), list), amount)
            sum_take(run->arena, beside, amount, false);
    JSON_FOREACH(before, amount)
        sum_take(run->arena, beside, amount, true);
    return beside;
}

static void check_pod(struct ranges_run *run, const struct json *item, const struct json *spec)
{
    if (str_is(str_from(run->type), "Pod")) {
        check_amounts(run, item, add_up(run, spec, "requests"), add_up(run, spec, "limits"));
        return;
    }
    for (size_t i = 0; i < COUNT_OF(container_lists); i++)
        JSON_FOREACH(json_get(spec, container_lists[i]), container)
            check_amounts(run, item, json_at(container, "resources.requests"),
                          json_at(container, "resources.limits"));
}

void ranges_check(struct arena *arena,
                  const struct json *spec,
                  const struct kind *kind,
                  const struct json *object,
                  struct buf *problems)
{
    JSON_FOREACH(json_get(spec, "limits"), item) {
        struct str type = json_str(json_get(item, "type"));
        struct ranges_run run = {arena, problems, str_c(arena, type)};

        if (kind == &kind_pod && (str_is(type, "Container") || str_is(type, "Pod"))) {
            check_pod(&run, item, json_get(object, "spec"));
        } else if (kind == &kind_pvc && str_is(type, "PersistentVolumeClaim")) {
            const struct json *requests = json_at(object, "spec.resources.requests");

            check_amounts(&run, item, requests, requests); /* what is asked for is both */
        }
    }
}
