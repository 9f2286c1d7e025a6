#pragma once

#include <stdbool.h>
#include <stdint.h>

struct api;
struct idle;
struct object;
struct uv_loop_s;

/* idle: ends a muster that has nothing to do. It looks every now and then: a TorchrunJob that is
 * neither over nor suspended is work, and so is every pod that has not ended and belongs to no such
 * job. `done` is called once, when there was none for `period_ms` without a break. */
struct idle_options {
    struct api *api;
    int64_t period_ms;
    void (*done)(void *user);
    void *user;
};

struct idle *idle_start(struct uv_loop_s *loop, const struct idle_options *options);
/* NULL is fine. */
void idle_stop(struct idle *idle);
