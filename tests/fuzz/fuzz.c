#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>

static struct fuzz_target *targets;

void fuzz_register(struct fuzz_target *target)
{
    target->next = targets;
    targets = target;
}

const struct fuzz_target *fuzz_targets(void)
{
    return targets;
}

void fuzz_broken(const char *file, int line, const char *what)
{
    (void)fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
    abort();
}
