#pragma once

#include "base/str.h"
#include "sched/spec.h"

#include <stddef.h>
#include <stdint.h>

struct arena;
struct decode_kind;
struct err;
struct json;
struct object;
struct sched_config;

/* What is read of the kinds that CRDs define (api/decode.h). */
extern const struct decode_kind podgroup_decode_kind;
extern const struct decode_kind queue_decode_kind;
extern const struct decode_kind topology_decode_kind;
extern const struct decode_kind numa_decode_kind;

/* decode: API objects as specs. Everything returned points into the object's tree or `arena`.
 * A field that makes no sense is an error that names it; the spec is usable all the same. */
struct decode {
    const struct sched_config *config;
    struct arena *arena;
    const struct object *object;
    const struct json *tree;
    struct err *err;
    int code; /* the first error, 0 */
};

int decode_error(struct decode *decode, const char *fmt, ...) _printf_(2, 3);

void decode_node(struct decode *decode, struct sched_node *ret);
void decode_numa(struct decode *decode, struct sched_numa *ret);
void decode_pod(struct decode *decode, struct sched_pod *ret);
void decode_group(struct decode *decode, struct sched_group *ret);
void decode_queue(struct decode *decode, struct sched_queue *ret);
void decode_topology(struct decode *decode, struct sched_topology *ret);
void decode_claim(struct decode *decode, struct sched_claim *ret);
void decode_namespace(struct decode *decode, struct sched_namespace *ret);

void decode_volume_claim(struct decode *decode, struct sched_volume_claim *ret);
void decode_volume(struct decode *decode, struct sched_volume *ret);
void decode_storage_class(struct decode *decode, struct sched_storage_class *ret);
void decode_volume_limits(struct decode *decode, struct sched_volume_limits *ret);
void decode_storage_room(struct decode *decode, struct sched_storage_room *ret);
void decode_pod_volumes(struct decode *decode, struct sched_pod *pod);

struct sched_selector decode_selector(const struct decode *decode, const struct json *selector);
const struct sched_node_term *decode_node_terms(struct arena *arena,
                                                const struct json *list,
                                                size_t *ret_count);
struct sched_expression *decode_expressions(struct arena *arena,
                                            const struct json *list,
                                            size_t *ret_count);
