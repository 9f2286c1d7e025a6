#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* gpu_page: how the agent's helper, or on a cluster muster-launch, and libmuster-gpu.so (preload/) speak, where the library moves a
 * process's GPU memory to host memory itself, which is many times faster than the driver.
 *
 * Every process with such memory has a page in a file without a name (memfd), which the helper finds
 * among the process's descriptors. The helper writes an order and one more into `turn`; a thread of
 * the library does it, and copies the turn to `answered` last. Both wait on these two words (futex).
 * Where the process stands is in the page, so a helper that was killed is followed by another, which
 * waits for what is under way and goes on from there. Between AWAY and the way back every call that
 * the process makes to the driver is held at the library.
 *
 * Nothing in it is trusted: the process writes it. */
#define GPU_PAGE_ENV        "MUSTER_GPU_SUSPEND" /* "1": the library is to own memory, and have a page */
#define GPU_PAGE_NAME       "muster-gpu-page"
#define GPU_PAGE_MAGIC      UINT64_C(0x31304547504d5547) /* "GUMPGE01" where the low byte is first */
#define GPU_PAGE_BYTES      4096
#define GPU_PAGE_WORDS_MAX  240
#define GPU_PAGE_PINNED_MIB 256   /* that the copy itself needs, while it is under way */
#define GPU_PAGE_QUIET_MS   10000 /* for calls and work under way to end, before anything is moved */
#define GPU_PAGE_STALLED_MS 40000 /* without an answer and without a byte more: it is given up */

enum gpu_order {
    GPU_ORDER_NONE,
    GPU_ORDER_OUT, /* to host memory; where it fails all is as it was */
    GPU_ORDER_IN,  /* back; where it fails it may be tried again */
};

enum gpu_state {
    GPU_STATE_HERE, /* on the card, and the process runs */
    GPU_STATE_AWAY, /* in host memory, and calls are held */
};

struct gpu_page {
    _Atomic uint64_t magic; /* written last, when all the rest is there */
    int64_t pid;            /* as the process itself sees it */
    _Atomic uint32_t order;
    _Atomic uint32_t turn;
    _Atomic uint32_t answered;
    _Atomic uint32_t state;
    _Atomic uint32_t failed; /* the order of turn `answered` was; `words` say why */
    _Atomic int64_t held;    /* bytes that can be moved, as far as it knows */
    _Atomic int64_t moved;   /* bytes that are in host memory */
    _Atomic int64_t copied;  /* bytes that the order under way has copied */
    char words[GPU_PAGE_WORDS_MAX];
    /* Of what is AWAY: bytes that the process has on the card besides, and 1; 0: they are not counted,
     * since there is no limit, or the library is older than this. */
    _Atomic int64_t left;
};
_Static_assert(sizeof(struct gpu_page) <= GPU_PAGE_BYTES, "the page holds it");
