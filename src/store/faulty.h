#pragma once

#include <stdbool.h>

/* faulty: a layer under SQLite that fails on demand, for tests. Installed once, it is the default
 * for every file that is opened afterwards and hands everything through until told otherwise. */
enum faulty_mode {
    FAULTY_FINE,
    FAULTY_FULL,  /* writes: no space left */
    FAULTY_QUOTA, /* writes: the quota is used up, which SQLite takes for an I/O error */
    FAULTY_SYNC,  /* fsync: I/O error */
    FAULTY_READ,  /* reads: I/O error */
};

void faulty_install(void);
void faulty_set(enum faulty_mode mode);
/* How often something was made to fail since the last faulty_set(). */
unsigned faulty_count(void);
/* Calls of write and fsync for files that were opened since faulty_install(); they only grow. */
unsigned faulty_writes(void);
unsigned faulty_syncs(void);
