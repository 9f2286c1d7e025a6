#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/* selftest: whether this machine computes what it should.
 *
 * On every CPU that we may use a product of matrices is checked, memory is filled and read again, and
 * processes add their numbers up, each checking the sum. Where GPUs are promised (LAUNCH_ENV_TEST_GPUS)
 * and a Python with torch is there, the same is done on each of them, and over all of them with NCCL
 * (selftest.py). Then what the administrator adds (LAUNCH_ENV_TEST_COMMAND). All numbers are whole, so
 * every answer is exact, and a difference is a fault.
 *
 * What cannot be tested (no torch, no memory for it) is said, and is no fault. */
#define SELFTEST_MEMORY_BYTES    ((size_t)256 << 20)
#define SELFTEST_PREFLIGHT_BYTES ((size_t)32 << 20) /* a pod may not have more to spare */
#define SELFTEST_PROCESSES       4
#define SELFTEST_LIMIT_S         600 /* of all that is not ours, together */
#define SELFTEST_PREFLIGHT_S     180 /* the same before a gang, which waits for it */
#define SELFTEST_PREFLIGHT_MIB \
    2048                  /* of each card that are written and read then; else most of it */
#define SELFTEST_SIDE 128 /* of the matrices of each CPU */

struct selftest {
    size_t memory_bytes;
    int64_t limit_s;
    int64_t gpu_mib; /* of each card; 0: four fifths of what is free */
};

/* True: nothing was found. `words` has a sentence in either case. */
bool selftest_run(const struct selftest *test, struct buf *words);
/* muster-launch selftest: 0, or LAUNCH_TEST_FAILED, with the sentence in the termination log. */
int selftest_main(void);

/* The parts, for the tests. */
void selftest_fill(uint64_t *words, size_t count, uint64_t seed);
/* The first word that is not what selftest_fill() wrote; `count`: all are. */
size_t selftest_differs(const uint64_t *words, size_t count, uint64_t seed);
/* Whether c = a b, by Freivalds' check with whole numbers; each of SELFTEST_SIDE squared. */
void selftest_multiply(const double *a, const double *b, double *c);
bool selftest_is_product(const double *a, const double *b, const double *c);
