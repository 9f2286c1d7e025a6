#include "cmd/user_queue.h"

#include "api/api.h"
#include "api/beyond.h"
#include "api/gpus.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "cmd/credential.h"
#include "cmd/look.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define LABEL_MADE "muster.dev/made-for"
#define MADE_FOR   "people"

/* GPUs of the largest node. */
static int node_gpus(struct look *look, int64_t *ret, struct err *err)
{
    struct look_list nodes = {0};
    int r = look_all(look, &kind_node, STR(""), &nodes, err);

    *ret = 0;
    for (size_t i = 0; r == 0 && i < nodes.count; i++) {
        int64_t gpus = gpus_of(json_at(nodes.items[i], "status.allocatable"));

        *ret = gpus > *ret ? gpus : *ret;
    }
    return r;
}

static struct str name_of(const struct json *object)
{
    return json_str_at(object, "metadata.name");
}

/* A queue below it, which is why it takes no jobs. */
static struct str child_of(const struct look_list *shares, struct str queue)
{
    for (size_t i = 0; i < shares->count; i++)
        if (str_eq(json_str_at(shares->items[i], "spec.parentQueue"), queue))
            return name_of(shares->items[i]);
    return STR_NONE;
}

/* Is it there? -EINVAL: it is, and takes no jobs. */
static int find_share(struct look *look, struct str queue, bool *ret, struct err *err)
{
    struct look_list queues = {0};
    int r = look_all(look, &kind_queue, STR(""), &queues, err);

    *ret = false;
    for (size_t i = 0; r == 0 && i < queues.count; i++)
        *ret = *ret || str_eq(name_of(queues.items[i]), queue);
    struct str child = child_of(&queues, queue);
    if (child.len)
        return err_set(err, -EINVAL,
                       "queue " STR_FMT " takes no jobs, because queue " STR_FMT
                       " is below it: name that one or a new one with --queue",
                       STR_ARG(queue), STR_ARG(child));
    return r;
}

/* Nothing is guaranteed to it and nothing kept from it: by their weights the queues of people have equal parts of what they want, and
 * give back what is above. It has none above it: one that has takes no jobs, and `default` is also what the owner's go to. */
static int put_share(struct look *look, struct str queue, struct err *err)
{
    struct json *share = credential_object(look->arena, STR(""), queue);
    bool there = false;
    int r = find_share(look, queue, &there, err);

    if (r < 0 || there)
        return r;
    json_add_c(look->arena, json_make_path(look->arena, share, "metadata.labels"), LABEL_MADE,
               MADE_FOR);
    json_add_c(look->arena, json_make_path(look->arena, share, "metadata.annotations"),
               BEYOND_ANNOTATION, BEYOND_NON_PREEMPTIBLE);
    json_fill(look->arena, share,
              "{spec: {resources: {gpu: {quota: 0, limit: -1, overQuotaWeight: 1}, "
              "cpu: {quota: 0, limit: -1, overQuotaWeight: 1}, "
              "memory: {quota: 0, limit: -1, overQuotaWeight: 1}}}}");
    return look_call(look,
                     &(struct api_request){.verb = API_CREATE,
                                           .kind = &kind_queue,
                                           .body = json_text(look->arena, share)},
                     NULL, err);
}

int user_queue_put(struct look *look,
                   struct str person,
                   struct str ns,
                   struct str queue,
                   struct err *err)
{
    struct json *own = credential_object(look->arena, ns, queue);
    struct err refused = {0};
    int64_t gpus = 0;
    int r = node_gpus(look, &gpus, err);

    if (r == 0)
        r = put_share(look, queue, err);
    if (r < 0)
        return r;
    json_fill(look->arena, own, "{spec: {nodeResources: {gpus: $}, kaiQueue: $}}", gpus, queue);
    r = look_call(look,
                  &(struct api_request){.verb = API_CREATE,
                                        .kind = &kind_torchrunqueue,
                                        .ns = ns,
                                        .body = json_text(look->arena, own)},
                  NULL, &refused);
    if (r < 0 && refused.http_status != 409) {
        *err = refused;
        return r;
    }
    (void)fprintf(stderr,
                  r == 0 ? "queue " STR_FMT " was made for " STR_FMT
                           ", for jobs of up to %lld GPUs a node\n"
                         : "queue " STR_FMT " of " STR_FMT " is there already\n",
                  STR_ARG(queue), STR_ARG(person), (long long)gpus);
    return 0;
}

int user_queue_drop(struct look *look, struct str ns, struct err *err)
{
    struct look_list shares = {0}, queues = {0};
    int r = look_all(look, &kind_queue, STR(""), &shares, err);

    if (r == 0)
        r = look_all(look, &kind_torchrunqueue, STR(""), &queues, err);
    for (size_t i = 0; r == 0 && i < shares.count; i++) {
        bool hers = false, others = false;

        for (size_t j = 0; j < queues.count; j++) {
            if (!str_eq(json_str_at(queues.items[j], "status.kaiQueue"), name_of(shares.items[i])))
                continue;
            bool here = str_eq(json_str_at(queues.items[j], "metadata.namespace"), ns);
            hers = hers || here;
            others = others || !here;
        }
        if (!hers || others ||
            !str_is(json_str(json_get(json_at(shares.items[i], "metadata.labels"), LABEL_MADE)),
                    MADE_FOR))
            continue;
        if (child_of(&shares, name_of(shares.items[i])).len)
            (void)fprintf(stderr, "queue " STR_FMT " stays: other queues are below it\n",
                          STR_ARG(name_of(shares.items[i])));
        else
            r = credential_delete(look, &kind_queue, STR(""), name_of(shares.items[i]), err);
    }
    return r;
}
