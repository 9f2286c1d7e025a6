#pragma once

#include "base/str.h"

/* A fuzz target is a function that is handed bytes and must hold whatever they are. It registers
 * itself before main() and stands in thing_fuzz.c beside the code. The files of tests/corpus/NAME
 * are replayed by the unit tests; `make fuzz` looks for new ones with libFuzzer. */
struct fuzz_target {
    const char *name;
    void (*run)(struct str input);
    struct fuzz_target *next;
};

void fuzz_register(struct fuzz_target *target);
const struct fuzz_target *fuzz_targets(void);
_Noreturn void fuzz_broken(const char *file, int line, const char *what);

#define FUZZ(id)                                                           \
    static void fuzz_##id(struct str input);                               \
    __attribute__((constructor)) static void fuzz_register_##id(void)      \
    {                                                                      \
        static struct fuzz_target entry = {.name = #id, .run = fuzz_##id}; \
        fuzz_register(&entry);                                             \
    }                                                                      \
    static void fuzz_##id(struct str input)

#define FUZZ_HOLDS(condition)                            \
    do {                                                 \
        if (!(condition))                                \
            fuzz_broken(__FILE__, __LINE__, #condition); \
    } while (0)
