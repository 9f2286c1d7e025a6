#pragma once

struct arena;
struct json;
struct object;

/* daemonset: what the files of the DaemonSet controller share. */
enum daemon_place {
    DAEMON_AWAY, /* no pod here */
    DAEMON_STAY, /* one that is here stays, but none is made */
    DAEMON_RUN,
};

/* daemon_node.c; `spec` is that of the template's pods. */
enum daemon_place daemon_place(struct arena *arena,
                               const struct json *spec,
                               const struct object *node);
void daemon_tolerate(struct arena *arena, struct json *spec);
