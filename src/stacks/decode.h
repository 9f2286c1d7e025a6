#pragma once

#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct err;
struct memory;

/* decode: the stacks of the threads of a CPython, read from its memory while it runs.
 *
 * Nothing is stopped, so what is read may change under our feet: every loop ends, every pointer is
 * tried and not trusted, and what makes no sense ends the stack it is in. Whoever reads a process
 * that changes reads again (process.h). Pure: the memory is a function. */
#define DECODE_INTERPRETERS_MAX 16
#define DECODE_THREADS_MAX      512
#define DECODE_FRAMES_MAX       200  /* of a thread that are kept, from the innermost */
#define DECODE_WALK_MAX         4000 /* frames without Python code between them, and all others */
#define DECODE_TEXT_MAX         400  /* characters of a name */
#define DECODE_LINES_MAX        (64 * 1024)

struct stack_frame {
    struct str file;
    struct str function;
    int64_t line; /* -1: none */
};

struct stack_thread {
    uint64_t pthread;
    int64_t tid;                    /* 0: not known (before 3.11) */
    VEC(struct stack_frame) frames; /* the innermost first */
    bool cut;                       /* there are more */
    bool broken;                    /* something in it made no sense */
};

struct stack_threads VEC_FIELDS(struct stack_thread);

struct decode_where {
    uint64_t runtime;   /* _PyRuntime */
    uint64_t code_type; /* PyCode_Type; 0: not known */
    uint32_t version;   /* PY_VERSION_HEX, or its first two bytes; 0: not known */
};

/* The threads, the oldest (which is the main one) last. *ret_version is PY_VERSION_HEX. */
int decode_threads(struct memory *memory,
                   const struct decode_where *where,
                   struct arena *arena,
                   struct stack_threads *ret,
                   uint32_t *ret_version,
                   struct err *err);
