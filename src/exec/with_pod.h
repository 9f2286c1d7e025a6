#pragma once

struct api;
struct control_input;
struct object;

/* with_pod: what is written together with a pod that was just made, in its commit: the group of a pod
 * that is alone in it (control/grouping/group.h). Whatever comes of it, the pod grouper looks at the
 * pod, and makes what is missing. */
void with_pod_write(struct api *api, const struct control_input *input, const struct object *pod);
