#include "store/evict.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "store/delete.h"
#include "store/edit.h"
#include "store/host.h"
#include "store/reply.h"
#include "store/shelf.h"
#include "store/write.h"

#include <stdbool.h>
#include <stddef.h>

/* Eviction: a delete that asks the budgets first. */

static bool budget_covers(const struct write *write, const struct object *budget)
{
    const struct selector *selector = object_selector(budget);

    return selector && selector_matches(selector, write->old->labels, write->old->label_count);
}

/* One fewer may go; who goes is written down, so that whoever counts anew before the pod shows that
 * it goes does not take it for healthy. */
static void count_down(struct json *root, const void *what)
{
    const struct write *write = what;
    struct arena *arena = write->arena;
    struct json *status = json_make_path(arena, root, "status");

    json_set(json_make_path(arena, status, "disruptedPods"), write->old->name,
             json_new_str(arena, time_text(arena, store_now(write->store))));
    json_add_i64(arena, status, "disruptionsAllowed",
                 json_i64_or(json_get(status, "disruptionsAllowed"), 0) - 1);
}

/* Who evicts sees by the cause that a budget refused, and not the server that had enough. */
static int budget_refuse(struct reply *reply, struct str name, const struct json *status)
{
    struct api_cause *cause = ARENA_NEW(&reply->arena, struct api_cause);

    cause->reason = STR("DisruptionBudget");
    cause->message =
        str_printf(&reply->arena, "budget " STR_FMT " needs %lld healthy pods and has %lld",
                   STR_ARG(name), (long long)json_i64_or(json_get(status, "desiredHealthy"), 0),
                   (long long)json_i64_or(json_get(status, "currentHealthy"), 0));
    reply->result.causes = cause;
    reply->result.cause_count = 1;
    return reply_fail(reply, 429, "TooManyRequests",
                      "Cannot evict pod as it would violate the pod's disruption budget: " STR_FMT,
                      STR_ARG(cause->message));
}

/* The budget that the pod's going is counted against; *ret NULL: none. */
static int budget_find(struct write *write, const struct entry **ret)
{
    const struct shelf *shelf = shelf_of(write->store, &kind_pdb);
    const struct json *pod = object_json(write->old, write->arena);
    struct str phase = json_str_at(pod, "status.phase");
    const struct entry *found = NULL;

    /* Who does not run disturbs nobody by leaving. */
    if (!str_is(phase, "Running") || write->old->deleted_ms)
        return 0;
    for (size_t at = shelf_lower(shelf, write->ns, STR("")); at < shelf->entries.count; at++) {
        const struct entry *entry = shelf->entries.items[at];

        if (!str_eq(entry->ns, write->ns))
            break;
        if (!entry_latest(entry) || !budget_covers(write, entry_latest(entry)))
            continue;
        if (found)
            return reply_fail(write->reply, 500, "InternalError",
                              "This pod has more than one PodDisruptionBudget, which the eviction "
                              "subresource does not support.");
        found = entry;
    }
    if (!found)
        return 0;
    const struct json *status = json_get(object_json(entry_latest(found), write->arena), "status");
    if (json_i64_or(json_get(status, "disruptionsAllowed"), 0) <= 0)
        return budget_refuse(write->reply, found->name, status);
    *ret = found;
    return 0;
}

int evict_pod(struct write *write, const struct api_request *request)
{
    struct json *root = NULL;
    struct err err = {0};
    struct delete_options options;
    struct api_request inner = *request;

    if (request->body.len && json_parse(write->arena, request->body, &root, &err) < 0)
        return reply_fail(write->reply, 400, "BadRequest", "Eviction: %s", err.text);
    int r = root || write->user ? write_check_post(write, root, "Eviction", "policy/v1") : 0;
    if (r < 0)
        return r;
    const struct json *given = json_get(root, "deleteOptions");
    inner.body = given ? json_text(write->arena, given) : STR_NONE;
    r = delete_parse(write->reply, &inner, &options);
    const struct entry *budget = NULL;
    if (r == 0 && write->old)
        r = budget_find(write, &budget);
    options.evicted = true;
    if (r == 0)
        r = delete_object(write, &options);
    /* Who was not let go takes nothing of it. */
    if (r == 0 && budget && !write->dry_run)
        collect_edit_status(write->store, budget, count_down, write);
    return r;
}
