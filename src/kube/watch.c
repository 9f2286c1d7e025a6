#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/mem.h"
#include "kube/kube_internal.h"
#include "kube/source.h"
#include "tool/timer.h"

#include <assert.h>

/* Watches of struct api. Informers of the same kind, namespace and selectors share one source, so
 * that controllers and scheduler together cost the server one watch, and us one copy of each
 * object. Who joins later is first told what the source knows, as ADDED, then SYNCED, then what
 * happens. */

enum watch_state {
    WATCH_JOINING, /* is told nothing until it was told what there is */
    WATCH_LIVE,
    WATCH_STOPPED, /* to be freed when nobody is on the stack */
};

struct api_watch {
    struct api_watch *next;
    struct kube_hub *hub;
    api_watch_fn *fn;
    void *user;
    enum watch_state state;
    bool bookmarks;
    struct timer *join;
};

struct kube_hub {
    struct kube_hub *next;
    struct kube *kube;
    const struct kind *kind;
    struct buf ns;
    struct buf label_selector;
    struct buf field_selector;
    bool shared;
    struct source *source;
    struct api_watch *watches;
    unsigned int busy;
};

static void watch_free(struct api_watch *watch)
{
    timer_free(watch->join);
    mem_free(watch);
}

static void hub_free(struct kube_hub *hub)
{
    struct kube_hub **at = &hub->kube->hubs;

    while (*at != hub)
        at = &(*at)->next;
    *at = hub->next;
    source_free(hub->source);
    buf_done(&hub->ns);
    buf_done(&hub->label_selector);
    buf_done(&hub->field_selector);
    mem_free(hub);
}

/* Free what was stopped while callbacks were running, and the hub with its last watch. */
static void hub_sweep(struct kube_hub *hub)
{
    if (hub->busy)
        return;
    for (struct api_watch **at = &hub->watches; *at;) {
        struct api_watch *watch = *at;

        if (watch->state != WATCH_STOPPED) {
            at = &watch->next;
            continue;
        }
        *at = watch->next;
        watch_free(watch);
    }
    if (!hub->watches)
        hub_free(hub);
}

static void on_change(void *user, const struct api_change *change)
{
    struct kube_hub *hub = user;

    hub->busy++;
    /* New watches are put in front, so this walk does not meet one that joined from inside it. */
    for (struct api_watch *watch = hub->watches; watch; watch = watch->next)
        if (watch->state == WATCH_LIVE && (change->event != API_BOOKMARK || watch->bookmarks))
            watch->fn(watch->user, change);
    hub->busy--;
    hub_sweep(hub);
}

static void on_join(void *user)
{
    struct api_watch *watch = user;
    struct kube_hub *hub = watch->hub;
    const struct object *object;
    size_t cursor = 0;

    if (watch->state != WATCH_JOINING)
        return;
    watch->state = WATCH_LIVE;
    hub->busy++;
    while (watch->state == WATCH_LIVE && (object = source_next(hub->source, &cursor)))
        watch->fn(watch->user, &(struct api_change){.event = API_ADDED,
                                                    .object = object,
                                                    .revision = object->revision});
    if (watch->state == WATCH_LIVE && source_synced(hub->source))
        watch->fn(watch->user, &(struct api_change){.event = API_SYNCED});
    hub->busy--;
    hub_sweep(hub);
}

static bool is_same(const struct kube_hub *hub, const struct api_watch_request *request)
{
    return hub->shared && hub->kind == request->kind && str_eq(buf_str(&hub->ns), request->ns) &&
           str_eq(buf_str(&hub->label_selector), request->label_selector) &&
           str_eq(buf_str(&hub->field_selector), request->field_selector);
}

static struct kube_hub *hub_new(struct kube *kube, const struct api_watch_request *request)
{
    struct kube_hub *hub = MEM_NEW(struct kube_hub);

    hub->kube = kube;
    hub->kind = request->kind;
    buf_add(&hub->ns, request->ns);
    buf_add(&hub->label_selector, request->label_selector);
    buf_add(&hub->field_selector, request->field_selector);
    hub->shared = request->from_revision == 0;
    hub->next = kube->hubs;
    kube->hubs = hub;
    hub->source = source_new(kube, request, on_change, hub);
    return hub;
}

struct api_watch *kube_watch(struct api *api,
                             const struct api_watch_request *request,
                             api_watch_fn *fn,
                             void *user)
{
    struct kube *kube = (struct kube *)api;
    struct kube_hub *hub = request->from_revision == 0 ? kube->hubs : NULL;
    struct api_watch *watch = MEM_NEW(struct api_watch);

    while (hub && !is_same(hub, request))
        hub = hub->next;
    watch->fn = fn;
    watch->user = user;
    watch->bookmarks = request->bookmarks;
    if (hub) {
        watch->state = WATCH_JOINING;
        watch->join = timer_new(kube->loop, watch);
        timer_in(watch->join, 0, on_join);
    } else {
        watch->state = WATCH_LIVE;
        hub = hub_new(kube, request);
    }
    watch->hub = hub;
    watch->next = hub->watches;
    hub->watches = watch;
    return watch;
}

void kube_watch_stop(struct api *api, struct api_watch *watch)
{
    (void)api;
    watch->state = WATCH_STOPPED;
    hub_sweep(watch->hub);
}

void kube_watches_free(struct kube *kube)
{
    while (kube->hubs) {
        struct kube_hub *hub = kube->hubs;

        for (struct api_watch *watch = hub->watches; watch; watch = watch->next)
            watch->state = WATCH_STOPPED;
        assert(!hub->busy);
        hub_sweep(hub);
    }
}

const struct object *kube_known(const struct kube *kube, const struct kind *kind, size_t *cursor)
{
    for (const struct kube_hub *hub = kube->hubs; hub; hub = hub->next)
        if (is_same(hub, &(struct api_watch_request){.kind = kind}))
            return source_next(hub->source, cursor);
    return NULL;
}

void kube_watches_hurry(struct kube *kube)
{
    for (struct kube_hub *hub = kube->hubs; hub; hub = hub->next)
        source_hurry(hub->source);
}

void kube_watches_count(const struct kube *kube, struct kube_stats *ret)
{
    ret->watches = ret->watches_synced = 0;
    for (const struct kube_hub *hub = kube->hubs; hub; hub = hub->next) {
        ret->watches++;
        if (source_current(hub->source))
            ret->watches_synced++;
    }
}
