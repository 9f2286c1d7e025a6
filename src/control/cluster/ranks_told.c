#include "control/cluster/ranks_told.h"

#include "api/kind.h"
#include "api/ranks.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/cluster/progress.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What the API server says of a token that is bound to a pod. */
#define EXTRA_POD "authentication.kubernetes.io/pod-name"
#define EXTRA_UID "authentication.kubernetes.io/pod-uid"

struct teller {
    struct str audience;
    struct str token;
    struct str uid;
    int64_t known_ms;
    int64_t told_ms; /* 0: not yet */
    char text[];     /* of all three */
};

struct str ranks_told_path(struct arena *arena, struct str ns, struct str pod)
{
    return str_printf(arena, "%s/namespaces/" STR_FMT "/%s/" STR_FMT "/ranks", kind_pod.version,
                      STR_ARG(ns), kind_pod.plural, STR_ARG(pod));
}

int ranks_told_patch(struct arena *arena, struct str body, struct str *ret, struct err *err)
{
    struct rank_report *reports = ARENA_ARRAY(arena, struct rank_report, RANKS_MAX);
    struct json *list = NULL;

    if (json_parse(arena, body, &list, err) < 0)
        return err_wrap(err, -EINVAL, "the body is not JSON");
    size_t count = ranks_parse(arena, body, reports);
    if (!json_is(list, JSON_ARRAY) || (json_count(list) && !count)) {
        int r = err_set(err, -EINVAL, "the body tells of no rank: send a list of reports");

        if (err)
            err->http_status = 422;
        return r;
    }
    struct json *patch = json_new_object(arena);
    json_add_str(arena, json_make_path(arena, patch, "metadata.annotations"), RANKS_ANNOTATION,
                 ranks_text(arena, reports, count));
    *ret = json_text(arena, patch);
    return 0;
}

/* Each has a list of values; of these there is one. */
static struct str extra_of(const struct json *review, const char *key)
{
    const struct json *values = json_get(json_at(review, "status.user.extra"), key);

    return json_count(values) == 1 ? json_str(json_first(values)) : STR_NONE;
}

bool ranks_told_allows(const struct json *review,
                       struct str ns,
                       struct str pod,
                       struct str audience,
                       struct str *ret_uid)
{
    struct str uid = extra_of(review, EXTRA_UID);

    if (!progress_allows(review, ns, audience) || !uid.len ||
        !str_eq(extra_of(review, EXTRA_POD), pod))
        return false;
    *ret_uid = uid;
    return true;
}

/* ---- who has told ---- */

/* However much of it is right, it takes the same time. */
static bool token_is(struct str known, struct str given)
{
    unsigned char different = 0;

    if (known.len != given.len)
        return false;
    for (size_t i = 0; i < known.len; i++)
        different |= (unsigned char)(known.p[i] ^ given.p[i]);
    return !different;
}

struct str ranks_told_known(const struct ranks_told *told,
                            struct str audience,
                            struct str token,
                            int64_t now_ms)
{
    const struct teller *teller = map_get(&told->pods, audience);

    return teller && now_ms < teller->known_ms + RANKS_TOLD_KNOWN_MS &&
                   token_is(teller->token, token)
               ? teller->uid
               : STR_NONE;
}

static void forget_silent(struct ranks_told *told)
{
    struct teller *silent = NULL;

    MAP_FOREACH(&told->pods, entry) {
        struct teller *teller = entry->value;

        if (!silent || teller->told_ms < silent->told_ms)
            silent = teller;
    }
    if (silent)
        mem_free(map_remove(&told->pods, silent->audience));
}

static struct str keep(char **room, struct str text)
{
    struct str kept = {*room, text.len};

    if (text.len)
        memcpy(*room, text.p, text.len);
    *room += text.len;
    return kept;
}

void ranks_told_learn(struct ranks_told *told,
                      struct str audience,
                      struct str token,
                      struct str uid,
                      int64_t now_ms)
{
    struct teller *teller = mem_alloc(sizeof(*teller) + audience.len + token.len + uid.len);
    char *room = teller->text;

    teller->audience = keep(&room, audience);
    teller->token = keep(&room, token);
    teller->uid = keep(&room, uid);
    teller->known_ms = now_ms;
    struct teller *before = map_get(&told->pods, audience);
    if (before)
        teller->told_ms = before->told_ms; /* a new token is no new turn */
    else if (told->pods.count >= RANKS_TOLD_PODS_MAX)
        forget_silent(told);
    mem_free(map_set(&told->pods, teller->audience, teller));
}

bool ranks_told_may(struct ranks_told *told, struct str audience, int64_t now_ms)
{
    struct teller *teller = map_get(&told->pods, audience);

    if (!teller || (teller->told_ms && now_ms < teller->told_ms + RANKS_TOLD_MS))
        return false;
    teller->told_ms = now_ms;
    return true;
}

void ranks_told_done(struct ranks_told *told)
{
    MAP_FOREACH(&told->pods, entry)
        mem_free(entry->value);
    map_done(&told->pods);
}
