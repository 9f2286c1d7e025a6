#pragma once

struct admit;
struct arena;
struct json;

/* device_access: pods see only the GPUs that they asked for.
 *
 * The NVIDIA runtime gives a container the devices that the variable NVIDIA_VISIBLE_DEVICES names,
 * whatever its pod asked for. Where an administrator says so, containers that ask for no device get
 * the value void, and a pod that sets the variable itself is refused. The container that gets a
 * share of a GPU (share.h) is left alone: its devices come with the variable. */

/* Containers and init containers without a GPU or MIG request see none. */
void device_access_mutate(struct arena *arena, struct json *pod);
/* Causes for every container that names devices by itself. */
void device_access_check(struct admit *admit);
