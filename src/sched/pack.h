#pragma once

#include "sched/spec.h"

#include <stddef.h>

/* pack: a spec copied into one heap block, with everything it points to.
 *
 * Each pack_*() runs its copy twice: once to count the bytes, once to fill the block. The result's
 * pointers lead into *ret_block, which the caller frees with mem_free(). */
void pack_node(const struct sched_node *node, struct sched_node *ret, void **ret_block);
/* The spec itself is at the head of the block; the caller frees it with mem_free(). */
struct sched_group *pack_group(const struct sched_group *group);
struct sched_namespace *pack_namespace(const struct sched_namespace *space);
void pack_queue(const struct sched_queue *queue, struct sched_queue *ret, void **ret_block);
void pack_claim(const struct sched_claim *claim, struct sched_claim *ret, void **ret_block);
void pack_topology(const struct sched_topology *topology,
                   struct sched_topology *ret,
                   void **ret_block);
/* Only the fields that pods of one template share: requests and constraints. */
void pack_shape(const struct sched_pod *pod, struct sched_pod *ret, void **ret_block);
void pack_volume_claim(const struct sched_volume_claim *claim,
                       struct sched_volume_claim *ret,
                       void **ret_block);
void pack_volume(const struct sched_volume *volume, struct sched_volume *ret, void **ret_block);
void pack_storage_class(const struct sched_storage_class *class,
                        struct sched_storage_class *ret,
                        void **ret_block);
void pack_limits(const struct sched_volume_limits *limits,
                 struct sched_volume_limits *ret,
                 void **ret_block);
void pack_storage_room(const struct sched_storage_room *room,
                       struct sched_storage_room *ret,
                       void **ret_block);
