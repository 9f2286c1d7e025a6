#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct object;

/* check_fact: a pod as the checks of check.h see it. */
#define MICRO 1000000

enum resource {
    CPU,    /* millicores */
    MEMORY, /* bytes */
    GPU,    /* millionths of a device */
    PODS,
    RESOURCES,
};
/* What people call them: CPU, memory, GPUs, pods. */
extern const char *const resource_words[RESOURCES];

/* A pod as it was last committed. */
struct fact {
    const struct object *object;
    struct str node; /* these point into the object */
    struct str group;
    int64_t wants[RESOURCES];
    uint64_t devices; /* bits */
    int64_t portion;  /* of each device, in millionths; 0: whole */
    bool shares;
    bool ended;
    bool succeeded;
    bool running;
    bool evicted;   /* while it ran */
    bool yields;    /* is on its way out of its GPUs */
    bool suspended; /* it has its CPUs and memory, and no GPU */
    bool leaving;   /* deleted by somebody: then a budget is not asked about its eviction */
    size_t len;
    char text[]; /* "ns/name" */
};
