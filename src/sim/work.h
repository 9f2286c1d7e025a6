#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api;

/* work: what people do in the simulator: they bring queues, pods, gangs and jobs, change their
 * minds, and delete what they brought. They write to the store directly, as if by kubectl. */
struct work;

struct work_options {
    struct api *api;
    uint64_t seed; /* of what they do: each thing from numbers of its own, whatever came before */
    size_t machines;
    int64_t gpus; /* of each machine */
    bool suspend; /* queues suspend what gives way, and people suspend jobs and let them go on */
    bool cluster; /* only shares of GPUs can be suspended */
    bool wide;    /* they have names, which a queue goes by, and jobs with spare pods */
    void (*trace)(void *user, const char *text);
    void (*tell)(void *user, const char *sentence); /* may be NULL */
    void *user;
};

struct work *work_new(const struct work_options *options);
void work_free(struct work *work);
/* The queues that everything else is put into. */
void work_queues(struct work *work);
/* One thing, chosen at random; or nothing in its place. */
void work_something(struct work *work, bool happens);
/* How long somebody then waits before the next one. */
int64_t work_pause_ms(const struct work *work);
/* The fixed story of SIM_GANG, step `step`; false when it is over. */
bool work_story(struct work *work, size_t step);
/* Nobody holds a job back any longer. */
void work_release_all(struct work *work);
/* Everything that was brought goes. */
void work_delete_all(struct work *work);
/* Whether the node of a machine may be used. */
void work_ready(struct work *work, size_t machine, bool ready);
