#pragma once

#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cel_program;
struct err;
struct json;
struct node;
struct sched;

/* device: devices that drivers publish in ResourceSlices, the classes that name them, and what a
 * claim asks of them.
 *
 * A device is known by its driver, pool and name, whatever slice it is in: claims that have it keep
 * it while its slice is written anew. Which devices there are at all follows from the slices, and
 * is worked out again before the next cycle when one of them changed (devices_gathered()): of a
 * pool only the slices of its latest generation count, and only when all of them are there.
 *
 * Answers of expressions are kept per device: gangs ask the same of the same devices. */
struct device {
    struct str key; /* "driver/pool/name" */
    struct str driver;
    struct str pool;
    struct str name;
    uint32_t id;             /* in devices.all, and in the answers of selectors */
    bool usable;             /* published, whole, and of a sort that is given */
    const struct json *body; /* in its slice; NULL: not published */
    const struct slice *slice;
    /* Claims that have it, that are about to give it up, and that are promised it. */
    uint32_t firm;
    uint32_t ending;
    uint32_t promised;
    uint32_t refs;     /* claims that name it, and its slice */
    uint32_t gathered; /* devices.mark when it was last published; 0: it is not */
    bool picked;       /* by the search under way */
};

struct slice {
    struct str name;
    struct arena arena;
    const struct json *spec;
    struct str node; /* empty: see terms */
    bool everywhere;
    bool each; /* every device says where it is */
    const struct sched_node_term *terms;
    size_t term_count;
};

/* An expression, kept once for all who say it. */
struct selector {
    struct str text;
    uint32_t refs;
    struct arena arena;
    struct cel_program *program; /* NULL: it cannot be read */
    struct str wrong;            /* why */
    VEC(uint8_t) answers;        /* by device: enum answer */
    VEC(struct str) errors;      /* what it said, each once, where it had no answer; heap */
};

struct device_class {
    struct str name;
    int64_t created_ms;
    struct str extended; /* resource of containers that it serves */
    struct selector **selectors;
    size_t selector_count;
};

struct device_choice {
    struct str name; /* "request", or "request/choice" */
    struct str class;
    struct selector **selectors;
    size_t selector_count;
    int64_t count;
    bool all;
    const char
        *beyond; /* a field of it that is not honoured here, so nothing is given; NULL: none */
    const struct json *tolerations;
};

struct device_request {
    struct str name;
    struct device_choice *choices;
    size_t choice_count;
};

/* An attribute that is the same, or another one, of all devices of some requests. */
struct device_rule {
    struct str attribute;
    bool distinct;
    const struct str *requests; /* none: all */
    size_t request_count;
};

struct device_ask {
    struct arena arena;
    struct device_request *requests;
    size_t request_count;
    struct device_rule *rules;
    size_t rule_count;
};

struct devices {
    struct map by_key;
    struct map slices;
    struct map classes;
    struct map selectors;
    VEC(struct device *) all;  /* by id; NULL holes */
    size_t hole;               /* there is none before this id */
    VEC(struct device *) wide; /* usable from more than one node */
    uint32_t mark;
    bool dirty;
};

void devices_free(struct devices *devices);

void slice_put(struct devices *devices, struct str name, const struct json *spec);
bool slice_drop(struct devices *devices, struct str name);
void device_class_put(struct devices *devices,
                      struct str name,
                      int64_t created_ms,
                      const struct json *spec);
bool device_class_drop(struct devices *devices, struct str name);
struct device_class *device_class_get(const struct devices *devices, struct str name);

/* What a claim's spec.devices asks for. */
struct device_ask *device_ask_new(struct devices *devices, const struct json *spec);
void device_ask_free(struct devices *devices, struct device_ask *ask); /* NULL is allowed */
/* How many GPUs: devices of classes that have "gpu" in their name. While nothing is given (`results`
 * of an allocation, NULL), all that a node has count as one, and of several choices the smallest
 * counts. */
int64_t device_ask_gpus(const struct device_ask *ask, const struct json *results);

/* With a reference. */
struct device *device_get(struct devices *devices,
                          struct str driver,
                          struct str pool,
                          struct str name);
void device_unref(struct devices *devices, struct device *device);

/* The class whose devices serve GPUs that pods ask for as nvidia.com/gpu: of several the newest, of
 * those the first by name; NULL: there is none. */
const struct device_class *device_class_of_gpus(const struct devices *devices);
/* Works out which devices there are, and puts those of single nodes on their nodes. */
void devices_gathered(struct sched *sched);
bool device_reaches(const struct device *device, const struct node *node);
bool device_is_everywhere(const struct device *device);
/* What counts as a GPU of its node: its driver has "gpu" in its name, and it is no part of one. */
bool device_is_gpu(const struct device *device);
/* Whether it is one that the choice means. -EINVAL: an expression has no answer, or the class does
 * not exist. */
int device_selected(const struct devices *devices,
                    const struct device_choice *choice,
                    const struct device *device,
                    bool *ret,
                    struct err *err);
bool device_tolerated(const struct device *device, const struct json *tolerations);
/* NULL: it has none of that name. */
const struct json *device_attribute(const struct device *device, struct str name);
