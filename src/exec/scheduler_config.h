#pragma once

#include <stdint.h>

struct api;
struct kai_config;

/* scheduler_config: KAI's Config `kai-config` takes effect while the scheduler runs.
 *
 * Watches Configs where the API has them. The condition Applied of each says what took effect;
 * those of other names get a condition that they are not read. */
struct config_watcher;

struct config_options {
    struct api *api;
    int64_t (*now)(void *user);
    /* What it says now; every field empty once it is gone. Valid during the call. */
    void (*changed)(void *user, const struct kai_config *config);
    void *user;
};

struct config_watcher *config_watcher_new(const struct config_options *options);
/* NULL is fine. */
void config_watcher_free(struct config_watcher *watcher);
/* CRDs become kinds a moment after the start: look whether this one has. */
void config_watcher_turn(struct config_watcher *watcher);
