#pragma once

#include "base/arena.h"
#include "stacks/regions.h"

#include <stddef.h>
#include <stdint.h>

/* callers: whose code threads of another process wait in, and who called that.
 *
 * It is told by frames (stacks/unwind.h). Where these do not lead far enough any address of code counts
 * that lies on the stack. It may be one that an earlier call has left there, or an earlier thread, as the
 * memory of stacks is used again; so a thread that C++ has begun is not Python's, unless Python's addresses
 * lie beyond that. */
enum owner {
    OWNER_NOBODY, /* what all call: who called it is asked */
    OWNER_LIBC,   /* so is this; and all threads begin in it */
    OWNER_CPP,    /* and this, which calls what threads of C++ do */
    OWNER_PYTORCH,
    OWNER_PYTHON, /* its interpreter */
    OWNER_DRIVER, /* of the GPU */
    OWNER_OTHERS
};

struct caller {
    enum owner owner; /* whose code waits */
    size_t pytorch;   /* so many calls within PyTorch, before those of Python */
    size_t python;    /* calls of Python, or of a library that calls PyTorch: it is the program's */
};

/* Of one process; its code is read when it is first asked for. */
struct callers {
    int64_t pid;
    int memory; /* its descriptor; -1: not open */
    struct regions regions;
    enum owner *owners; /* of the regions */
    struct arena arena;
};

/* Of *opens is taken what it costs. */
struct caller callers_find(struct callers *callers,
                           const struct unwind_start *start,
                           size_t *opens);
void callers_done(struct callers *callers);
