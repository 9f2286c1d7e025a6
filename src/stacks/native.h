#pragma once

#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

struct arena;
struct image;
struct memory;
struct proc_memory;
struct process_look;

/* native: the C and C++ functions that threads are in, as far as unwind.h comes: what a rank waits in
 * below the line of Python that called it. Of a thread of Python those from the innermost to where the
 * interpreter begins; of one that is none, all. Only threads that wait: where one that runs has its
 * stack, the kernel does not tell without stopping it. Names are those that libraries export. */
#define NATIVE_TASKS_MAX   64                /* of a process, the main one first */
#define NATIVE_SYMBOLS_MAX (2 * 1024 * 1024) /* of a library: libtorch has half a million */
#define NATIVE_NAME_MAX    160
/* Of all libraries of a process: those of PyTorch with CUDA have less than two million together. Read
 * and compared they take half a second. */
#define NATIVE_SYMBOLS_ALL_MAX (4 * 1024 * 1024)

struct native_frame {
    uint64_t address;    /* in the process */
    struct str function; /* empty: not exported */
    struct str file;     /* its last part; empty: code that is in no file */
    uint64_t offset;     /* from where the file is mapped */
};

/* Fills in `native` of its tasks. */
void native_look(struct proc_memory *from, struct arena *arena, struct process_look *look);

/* The names of those frames that are in a function of the image. `frames` is sorted; each is tried with
 * one symbol, so that a table of a million symbols that claim all frames costs no more than another.
 * *symbols_left is what may still be looked at. Pure. */
struct native_frames {
    struct native_frame **items;
    size_t count;
};
void native_names(struct memory *memory,
                  const struct image *image,
                  struct native_frames *frames,
                  size_t *symbols_left,
                  struct arena *arena);

/* "c10d::ProcessGroupGloo::allreduce" of what a C++ compiler makes of it, without arguments; `name`
 * itself where that takes more than this knows. */
struct str native_plain(struct arena *arena, struct str name);
