#pragma once

#include <stddef.h>

struct str;

/* bench: what the measurements share. Every figure is the best of BENCH_ROUNDS: what else runs on
 * the machine only ever makes one slower. */
#define BENCH_ROUNDS 7

/* A clock for measuring. */
double bench_now_s(void);
/* Keep the smaller one; 0 is "none yet". */
void bench_best(double *best_s, double took_s);

struct json_result {
    double first_s; /* the first reading: memory comes fresh from the kernel */
    double read_s;
    double write_s;
    size_t bytes; /* of the tree, without the text */
};

/* One round. */
void bench_jansson(struct str text, struct json_result *best);
