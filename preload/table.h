#pragma once

#include <stdbool.h>
#include <stdint.h>

/* table: what this process has allocated, by address or handle. Each has several parts with a lock
 * of their own, so that threads seldom meet. */
struct record {
    int64_t bytes;
    void *owner; /* context of a pointer or array; what a handle or mapping stands for */
    int device;  /* of the region */
};

struct entry {
    uint64_t key; /* 0: free; no allocation has that address */
    struct record record;
};

#define TABLE_PARTS 16

enum table {
    TABLE_POINTERS,
    TABLE_ARRAYS,
    TABLE_HANDLES,
    TABLE_MAPPINGS,
    TABLE_BLOCKS, /* owner: a struct block */
    TABLE_COUNT,
};

/* A key that is there is replaced. Without memory for it nothing is remembered: the bytes then stay
 * counted until the process ends. */
void table_put(enum table table, uint64_t key, struct record record);
bool table_get(enum table table, uint64_t key, struct record *ret);
/* The same, and it is gone. */
bool table_take(enum table table, uint64_t key, struct record *ret);
/* Everything of one owner goes; `gone` is told of each. */
void table_drop(enum table table, const void *owner, void (*gone)(const struct record *record));
/* In a child that was forked. The memory stays: it may have been half written. */
void table_forget_all(void);
