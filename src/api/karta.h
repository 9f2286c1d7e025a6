#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct admit;
struct arena;
struct err;
struct json;
struct query;

/* karta: a Karta (run.ai/v1alpha1) describes a kind of workload: the components it is made of, how
 * many pods each has, by what a pod of each is known, and which of them start together. The pod
 * grouper (control/grouping/grouping_karta.c) groups pods of kinds without a rule of their own by
 * it. Its expressions are queries (api/query.h). */
#define KARTA_KIND           "Karta"
#define KARTA_COMPONENTS_MAX 64

struct karta_component {
    struct str name;
    size_t parent; /* index; of the root: itself */
    bool holds;    /* pods: it says where their template is */
    bool scaled;   /* it says where its replicas are */
    /* NULL: not said. Of the workload: */
    const struct query *replicas;
    const struct query *min_replicas;
    const struct query *instances;
    /* Of a pod: */
    const struct query *type;
    const struct json *type_value; /* NULL: that there is one is enough */
    const struct query *instance;
};

struct karta {
    struct str name;
    struct str group;
    struct str version;
    struct str kind;
    struct karta_component components[KARTA_COMPONENTS_MAX]; /* the root first */
    size_t count;
    bool scaled;             /* some component is */
    const struct json *gang; /* spec.optimizationInstructions.gangScheduling; NULL: none */
};

/* -EINVAL with the field and words. */
int karta_read(struct arena *arena, const struct json *object, struct karta *ret, struct err *err);
/* Index of the component; count: there is none. */
size_t karta_find(const struct karta *karta, struct str name);
void admit_karta(struct admit *admit);
