#pragma once

#include "base/str.h"

#include <stdbool.h>

struct arena;

/* kubelet: what a Kubernetes API server asks a node for, as the requests of our own API.
 *
 *     /containerLogs/NS/POD/CONTAINER   pods/log
 *     /exec/NS/POD[/UID]/CONTAINER      pods/exec; input, output, error are stdin, stdout, stderr
 *     /attach/NS/POD[/UID]/CONTAINER    pods/attach
 *     /portForward/NS/POD[/UID]         pods/portforward
 *
 * False, and nothing is changed, for any other path. */
bool kubelet_path(struct arena *arena, struct str *path, struct str *query);
