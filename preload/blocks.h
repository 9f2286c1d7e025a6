#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* blocks: memory of cuMemAlloc() that is made by the virtual memory calls in its stead, where memory
 * is moved (settings.move). Its address is ours, and what is behind it can be taken away and put back.
 *
 * Only in a process that sees one device, on which it has the memory for itself: what is shared with
 * other processes or devices is the driver's, and so is what is small. */
#define BLOCK_MIN ((size_t)2 << 20) /* pages of a card are that large; PyTorch asks for multiples */

struct block {
    uint64_t at;
    size_t bytes;
    void *context;
    int device; /* as the driver counts */
    bool lent;  /* somebody else may hold what is behind it: it stays the driver's to move */
    bool gone;  /* nothing is behind it */
    char *host; /* where its bytes are; NULL: on the card */
    struct block *next;
};

/* The calls of the driver that moving needs; NULL: this driver has not all of them. */
struct blocks_driver {
    int (*reserve)(uint64_t *at, size_t bytes, size_t align, uint64_t fixed, uint64_t flags);
    int (*free_address)(uint64_t at, size_t bytes);
    int (*create)(uint64_t *handle, size_t bytes, const void *prop, uint64_t flags);
    int (*release)(uint64_t handle);
    int (*map)(uint64_t at, size_t bytes, size_t offset, uint64_t handle, uint64_t flags);
    int (*unmap)(uint64_t at, size_t bytes);
    int (*set_access)(uint64_t at, size_t bytes, const void *access, size_t count);
    int (*granularity)(size_t *ret, const void *prop, int option);
    int (*ctx_get_device)(int *ret);
    int (*ctx_get_current)(void **ret);
    int (*ctx_set_current)(void *context);
    int (*ctx_synchronize)(void);
    int (*device_count)(int *ret);
    int (*device_attribute)(int *ret, int attribute, int device);
    int (*stream_create)(void **ret, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*stream_synchronize)(void *stream);
    int (*to_host)(void *host, uint64_t at, size_t bytes, void *stream);
    int (*to_card)(uint64_t at, const void *host, size_t bytes, void *stream);
    int (*host_alloc)(void **ret, size_t bytes, unsigned flags);
    int (*host_free)(void *host);
    int (*capture_mode)(int *mode);
};
const struct blocks_driver *blocks_driver(void);

/* False: it is not for us, and the driver is to be asked. */
bool blocks_alloc(uint64_t *pointer, size_t bytes);
/* False: it is none of ours. */
bool blocks_free(uint64_t pointer, int *result);
/* Everything of a context goes with it. */
void blocks_drop(const void *context);
/* Somebody gets hold of what is behind an address. */
void blocks_lend(uint64_t pointer);
/* It is one of ours, or inside of one. */
bool blocks_has(uint64_t pointer);

/* All of them, newest first; held by whoever moves them, from the first copy until all are back. */
extern pthread_mutex_t blocks_mutex;
extern struct block *blocks_first;
/* What is behind an address, taken away and put back; 0, or CUDA's error. */
int blocks_unmap(struct block *block);
int blocks_map(struct block *block);
/* In a child that was forked: it has none. */
void blocks_forget(void);
