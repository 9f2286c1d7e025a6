#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct json;

/* install: a file of our image in somebody else's pod, on a cluster: an init container copies it to
 * a volume, and containers mount that. */
struct install {
    const char *name; /* of the volume and of the init container */
    const char *from; /* in our image; NULL: muster-launch itself */
    const char *to;   /* in `folder` */
    const char *also; /* in `folder`: muster-launch itself, beside `from`; NULL: it is not wanted */
    const char *folder;
    struct str image;
    const struct json *like; /* a container whose CPU and memory the copying may have, so that the
                                pod's class of service stays; NULL: it has none to keep */
    bool asks;               /* for INSTALL_CPU and INSTALL_MEMORY where `like` says nothing */
};

/* What a program of ours that stands in somebody's pod may do: nothing that Pod Security `restricted`
 * forbids, whatever else the pod is. Of the pod's own context (NULL: it has none) only a user that is
 * root is not taken over: nothing of ours needs that. */
struct json *install_security(struct arena *arena, const struct json *pod_security);
/* What it asks for where nobody says: little, but not nothing, which a ResourceQuota refuses and which
 * is evicted first. */
#define INSTALL_USER         65532 /* as our image has it */
#define INSTALL_CPU          "10m"
#define INSTALL_MEMORY       "64Mi"
#define INSTALL_CPU_MILLI    10
#define INSTALL_MEMORY_BYTES ((int64_t)64 << 20)
void install_requests(struct arena *arena, struct json *container);

/* The volume and the init container, which is the first one: others may want the file too. Once
 * they are there, nothing is done. */
void install_add(struct arena *arena, struct json *pod, const struct install *install);
/* Nothing where the container has a mount of that name. */
void install_mount(struct arena *arena,
                   struct json *container,
                   const char *volume,
                   const char *at,
                   bool read_only);
/* A volume of that name, to be filled in; NULL when there is one. */
struct json *install_volume(struct arena *arena, struct json *pod, const char *name);
