#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct err;
struct spawner;

/* link: the socket to one shim. */

/* One message from the shim, with the descriptor that came along or -1; whoever wants to keep the
 * descriptor duplicates it. */
typedef void link_message_fn(void *user, const char *text, int fd);
typedef void link_lost_fn(void *user);

/* Part of its owner, who fills in the callbacks, and -1 as `fd`. */
struct link {
    uv_poll_t poll;
    bool open;
    int fd;
    link_message_fn *message;
    link_lost_fn *lost;         /* the shim is gone; not called after link_close() */
    void (*closed)(void *user); /* link_close() has finished: the memory is the owner's again */
    void *user;
};

/* The lock of the pod's shim, a descriptor: whoever has it may have a shim made. -EBUSY: a shim has
 * it, or one that is being made. */
int link_lock(const char *folder, struct err *err);
/* A shim is there, or will be. */
bool link_locked(const char *folder);
/* What a shim is made from. */
struct link_order {
    struct spawner *spawner;
    const char *folder;
    int lock_fd; /* of link_lock(); stays the caller's, the shim has it too */
};
/* Have a shim made. One that cannot be made shows as a lost link. */
int link_spawn(struct link *link, uv_loop_t *loop, const struct link_order *order, struct err *err);
/* Reach the shim that is already there; -ECONNREFUSED or -ENOENT: it is gone. */
int link_connect(struct link *link, uv_loop_t *loop, const char *folder, struct err *err);
void link_send(struct link *link, const int *fds, size_t fd_count, const char *fmt, ...)
    _printf_(4, 5);
void link_close(struct link *link);
