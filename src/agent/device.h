#pragma once

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct buf;
struct env;
struct pod;

/* device: the GPUs of a pod. */
void device_take(struct pod *pod);
void device_give(struct pod *pod);
/* UUIDs of real cards that are the pod's alone. */
size_t device_cards(const struct pod *pod, const char **ret, size_t max);
/* Container `index` has a part of each of the pod's GPUs. */
bool device_has_share(const struct pod *pod, size_t index);
/* Container `index` has one GPU, or a part of one. */
bool device_has_one(const struct pod *pod, size_t index);
/* What container `index` is told about them. */
void device_env(const struct pod *pod, size_t index, struct arena *arena, struct env *env);
/* The device files of a container, as mounts. */
void device_files(const struct pod *pod, size_t index, struct buf *records);
