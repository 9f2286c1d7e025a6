#include "exec/scheduler_config.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "exec/applied.h"
#include "exec/kai_config.h"

#include <stdbool.h>
#include <stdint.h>

struct config_watcher {
    struct config_options options;
    struct api_watch *watch;
    uint64_t read; /* hash of the uid and generation that were read last; 0: none */
};

static void tell(struct config_watcher *watcher, const struct object *object, struct str ignored)
{
    struct applied applied = {0};

    if (!str_is(object->name, KAI_CONFIG_NAME))
        applied =
            (struct applied){"NotRead", STR("only the Config named " KAI_CONFIG_NAME " is read")};
    else if (ignored.len)
        applied = (struct applied){"PartlyIgnored", ignored};
    applied_tell(watcher->options.api, object, &applied,
                 watcher->options.now(watcher->options.user));
}

static void on_change(void *user, const struct api_change *change)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct config_watcher *watcher = user;
    const struct object *object = change->object;
    struct kai_config config = {0};

    if (!object)
        return;
    bool ours = str_is(object->name, KAI_CONFIG_NAME);
    bool gone = change->event == API_DELETED;
    uint64_t version = gone ? 0 : str_hash(object->uid, (uint64_t)object->generation) | 1;
    if (ours && version == watcher->read)
        return; /* what tell() wrote */
    if (!gone)
        kai_config_read(object_json(object, &arena), &arena, &config);
    if (ours) {
        watcher->read = version;
        watcher->options.changed(watcher->options.user, &config);
    }
    if (!gone)
        tell(watcher, object, config.ignored);
}

void config_watcher_turn(struct config_watcher *watcher)
{
    const struct config_options *options = &watcher->options;
    const struct kind *kind =
        kinds_by_name(options->api->kinds, STR("kai.scheduler/v1"), STR("Config"));

    if (!watcher->watch && kind)
        watcher->watch =
            api_watch(options->api, &(struct api_watch_request){.kind = kind}, on_change, watcher);
}

struct config_watcher *config_watcher_new(const struct config_options *options)
{
    struct config_watcher *watcher = MEM_NEW(struct config_watcher);

    watcher->options = *options;
    config_watcher_turn(watcher);
    return watcher;
}

void config_watcher_free(struct config_watcher *watcher)
{
    if (!watcher)
        return;
    api_watch_stop(watcher->options.api, watcher->watch);
    mem_free(watcher);
}
