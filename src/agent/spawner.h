#pragma once

struct err;
struct spawner;

/* spawner: the process that makes shims (shim/shim.h). One that was killed is started again when it
 * is needed. */
#define SPAWNER_POINTS_BYTES 512

/* `program` is muster-shim and must outlive it; `points` is a folder of mount points, empty:
 * none. */
int spawner_start(const char *program, const char *points, struct spawner **ret, struct err *err);
/* The shims it made stay. NULL is fine. */
void spawner_stop(struct spawner *spawner);
const char *spawner_points(const struct spawner *spawner);

/* Have a shim made for the pod's folder; `lock_fd` is of link_lock(), stays the caller's, and the
 * shim has it too. Returns our end of the shim's socket, the caller's, or -errno. A shim that
 * cannot be made closes its end. */
int spawner_make(struct spawner *spawner, const char *folder, int lock_fd, struct err *err);
