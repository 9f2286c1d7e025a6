#include "base/str.h"
#include "fuzz/fuzz.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What libFuzzer calls. MUSTER_FUZZ names the target: one binary has them all. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct fuzz_target *chosen(void)
{
    const char *name = getenv("MUSTER_FUZZ");

    for (const struct fuzz_target *target = fuzz_targets(); target; target = target->next)
        if (name && strcmp(target->name, name) == 0)
            return target;
    (void)fprintf(stderr, "MUSTER_FUZZ must be one of:");
    for (const struct fuzz_target *target = fuzz_targets(); target; target = target->next)
        (void)fprintf(stderr, " %s", target->name);
    (void)fprintf(stderr, "\n");
    exit(2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct fuzz_target *target;

    if (!target)
        target = chosen();
    target->run((struct str){(const char *)data, size});
    return 0;
}
