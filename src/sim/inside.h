#pragma once

#include <stdbool.h>
#include <stdint.h>

struct inside;
struct machines;
struct rng;
struct suspender_inside;

/* inside: the commands that an operator runs in containers to move GPU memory (exec/suspender.h).
 *
 * Each takes a while. Some do not reach the container, and of some that ran nobody hears. Those of an
 * operator that dies have run, or never do. */
struct inside_options {
    struct machines *machines; /* outlive it */
    struct rng *rng;
    int64_t (*now)(void *user);
    void (*trace)(void *user, const char *text);
    void (*tell)(void *user, const char *sentence); /* may be NULL */
    void *user;
};

struct inside *inside_new(const struct inside_options *options);
/* After inside_cut(). NULL is fine. */
void inside_free(struct inside *inside);
const struct suspender_inside *inside_commands(struct inside *inside);

void inside_set_faults(struct inside *inside, bool on);
/* What is due. Returns when the next is; INT64_MAX: none. NULL is fine. */
int64_t inside_turn(struct inside *inside);
/* Whoever ran them is dead, and is told so. NULL is fine. */
void inside_cut(struct inside *inside);
