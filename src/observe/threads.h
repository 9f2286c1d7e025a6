#pragma once

#include "api/ranks.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* threads: what the threads of a process wait for, as /proc says.
 *
 * A thread waits for another one of its process when it is in a futex without a limit that no other
 * process can wake. All others may go on by themselves: who has a limit, reads, sleeps, waits for a
 * child or for a socket. But for PyTorch's own, which are told by the code that they were called from,
 * and which have sockets to the gang and nowhere else: gloo's, that of its store, and those in which
 * collectives run, whose limit of half an hour is no reason to go on; a shorter one may be, and is told
 * apart. (Those of torch.distributed.rpc
 * have other peers: they are told by their names.) Nor is a process locked that handles signals by which
 * it may be told to go on: a timer's, or those that programs have a meaning of their own for; nor one
 * that has data on its way, as a network may be slow, or come back. */
#define THREADS_MAX 512 /* are looked at; with more nothing is said to be locked */

struct threads_wait {
    char in[RANKS_WAIT_BYTES]; /* the main thread, by the kernel's name; empty: it does not say */
    bool locked;  /* every one waits for another, or is PyTorch's and waits for the gang */
    bool unsure;  /* not locked, as one runs just now; all others are */
    bool limited; /* locked, and one of PyTorch's has a limit that is over soon */
    bool meets; /* locked, and one of PyTorch's has a limit: it is in a collective, or in recv() */
};

/* Whether a line of /proc/PID/net/tcp says so of a connection, and whose socket that is. */
bool threads_sends(struct str line, struct str *ret_inode);
/* The signals that the process has handlers for, the first in the lowest bit. False: it is gone. */
bool threads_handle(int64_t pid, uint64_t *ret);
/* Of *opens is taken what it costs; where nothing is left afterwards, the answer says nothing. */
struct threads_wait threads_look(int64_t pid, size_t *opens);
