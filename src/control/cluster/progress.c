#include "control/cluster/progress.h"

#include "api/kind.h"
#include "base/account.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/time.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct str progress_path(struct arena *arena, struct str ns, struct str name)
{
    return str_printf(arena, "%s/%s/namespaces/" STR_FMT "/%s/" STR_FMT "/status",
                      kind_trainjob.group, kind_trainjob.version, STR_ARG(ns), kind_trainjob.plural,
                      STR_ARG(name));
}

int progress_patch(struct arena *arena,
                   struct str body,
                   int64_t now_ms,
                   struct str *ret,
                   struct err *err)
{
    struct json *root = NULL;

    if (json_parse(arena, body, &root, err) < 0)
        return err_wrap(err, -EINVAL, "the body is not JSON");
    const struct json *told = json_get(root, "trainerStatus");
    if (!json_is(told, JSON_OBJECT)) {
        int r = err_set(err, -EINVAL, "trainerStatus: Required value: what the training reports");

        if (err)
            err->http_status = 422;
        return r;
    }
    struct json *patch = json_new_object(arena);
    struct json *status = json_clone(arena, told);
    if (!json_get(status, "lastUpdatedTime"))
        json_add_str(arena, status, "lastUpdatedTime", time_text(arena, now_ms));
    json_set(json_add_object(arena, patch, "status"), STR("trainerStatus"), status);
    *ret = json_text(arena, patch);
    return 0;
}

struct str progress_review(struct arena *arena, struct str token, struct str audience)
{
    struct json *review =
        json_make(arena, "{apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview'}");

    /* Nobody stores it, but the answer is read as an object, and those have names. */
    json_fill(arena, review, "{metadata: {name: 'progress'}, spec: {token: $, audiences: [$]}}",
              token, audience);
    return json_text(arena, review);
}

bool progress_allows(const struct json *review, struct str ns, struct str audience)
{
    const struct json *status = json_get(review, "status");
    struct str user = json_str_at(status, "user.username");
    struct str of, account;
    bool meant = false;

    /* A server that knows nothing of audiences authenticates and names none: that is not enough. */
    JSON_FOREACH(json_get(status, "audiences"), entry)
        meant = meant || str_eq(json_str(entry), audience);
    return meant && json_bool_or(json_get(status, "authenticated"), false) &&
           account_split(user, &of, &account) && str_eq(of, ns);
}
