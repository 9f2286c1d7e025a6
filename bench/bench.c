#include "bench.h"

#include <time.h>

double bench_now_s(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void bench_best(double *best_s, double took_s)
{
    if (*best_s <= 0 || took_s < *best_s)
        *best_s = took_s;
}
