#include "kube/kube.h"

#include "api/api.h"
#include "api/kind.h"
#include "base/mem.h"
#include "kube/client.h"
#include "kube/kube_internal.h"
#include "system/random.h"
#include "tool/timer.h"

#include <errno.h>
#include <uv.h>

static const struct api_ops kube_ops = {
    .call = kube_call,
    .bind = kube_bind,
    .watch = kube_watch,
    .watch_stop = kube_watch_stop,
    .learn = kube_learn,
};

static void on_back(void *user)
{
    kube_watches_hurry(user);
}

int kube_open(struct uv_loop_s *loop,
              const struct kube_options *options,
              struct kube **ret,
              struct err *err)
{
    struct kube *kube = MEM_NEW(struct kube);
    int r;

    kube->api.ops = &kube_ops;
    kube->loop = loop;
    kube->log = options->log;
    kube->whole = options->whole;
    if (!random_bytes(&kube->random, sizeof(kube->random)) || !kube->random)
        kube->random = 1;
    r = client_new(
        &(struct client_options){
            .loop = loop,
            .config = options->config,
            .user_agent = options->user_agent ? options->user_agent : "muster/" MUSTER_VERSION,
            .per_second = options->per_second ? options->per_second : KUBE_PER_SECOND,
            .burst = options->burst ? options->burst : KUBE_BURST,
            .under_way_max = KUBE_UNDER_WAY,
            .back = on_back,
            .user = kube,
            .log = options->log,
        },
        &kube->client, err);
    if (r < 0) {
        mem_free(kube);
        return r;
    }
    kube->trim = timer_new(loop, kube);
    timer_unref(kube->trim);
    kube->kinds = kinds_new_cluster();
    kube->api.kinds = kube->kinds;
    *ret = kube;
    return 0;
}

struct api *kube_api(struct kube *kube)
{
    return &kube->api;
}

void kube_stats(const struct kube *kube, struct kube_stats *ret)
{
    *ret = kube->stats;
    client_stats(kube->client, &ret->client);
    kube_watches_count(kube, ret);
}

bool kube_is_writing(const struct kube *kube)
{
    return kube->gangs || client_writes(kube->client) > 0;
}

void kube_hold(struct kube *kube, bool held)
{
    client_hold(kube->client, held);
}

void kube_give_up(struct kube *kube)
{
    struct err err = {0};

    (void)err_set(&err, -ECANCELED, "this replica does not lead any more");
    kube_gangs_close(kube, &err);
    kube_calls_close(kube, true, &err);
    client_hold(kube->client, false);
}

const struct refusals *kube_refusals(const struct kube *kube)
{
    return &kube->refusals;
}

void kube_close(struct kube *kube)
{
    struct err err = {0};

    if (!kube)
        return;
    kube->closing = true;
    kube_watches_free(kube);
    (void)err_set(&err, -ECANCELED, "the connection to the API server is being closed");
    kube_gangs_close(kube, &err);
    kube_calls_close(kube, false, &err);
    kube_lessons_close(kube, &err);
    client_free(kube->client);
    timer_free(kube->trim);
    kinds_free(kube->kinds);
    kube_learned_free(kube);
    mem_free(kube);
}
