#pragma once

#include "base/str.h"
#include "base/vec.h"
#include "stacks/decode.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct native_frame;
struct patience;

/* process: what a process is doing, from /proc alone: it is not stopped, nothing is attached to it,
 * nothing is started in it, and it does not notice.
 *
 * Its memory is readable for who might attach a debugger: root, its own user where Yama allows it,
 * and who made its user namespace. A process that holds the lock of its own address space while the
 * kernel keeps it waiting (state D) keeps the reader waiting as well: call this from a thread. */
#define PROCESS_TASKS_MAX 512

struct process_task {
    int64_t tid;
    struct str name;
    struct str wchan;   /* where in the kernel it sleeps; empty: nowhere, or not told */
    struct str syscall; /* futex, poll, ...: what it sleeps in; empty: the same */
    char state;         /* R S D T t Z, ?: gone */
    bool python;
    bool cut;
    struct stack_frame *frames; /* the innermost first */
    size_t frame_count;
    uint64_t pc; /* where it is, and its stack, while it waits; 0: not told */
    uint64_t sp;
    struct native_frame *native; /* the innermost first (native.h) */
    size_t native_count;
};

struct process_look {
    int64_t pid;
    struct str command;
    char state;
    uint32_t version; /* PY_VERSION_HEX; 0: not Python, or not known */
    bool python;
    struct str why;                 /* the stacks could not be read, for this reason */
    VEC(struct process_task) tasks; /* the main one first, then those of Python */
};

/* All strings are on the arena. A process that is gone has the state '?'. `patience`: proc.h; NULL: as
 * long as the limits on what is read let it take. */
void process_look(int64_t pid,
                  const struct patience *patience,
                  struct arena *arena,
                  struct process_look *ret);
/* Where the main thread of a Python is. */
#define PROCESS_LINE_BYTES 96
struct process_line {
    char text
        [PROCESS_LINE_BYTES]; /* "train.py:31 in main": the innermost frame that is of no library */
    uint64_t stack;           /* the same while every frame of it is at the same line */
};
/* False: it is gone, is no Python, or its stack made no sense. */
bool process_line(int64_t pid, const struct patience *patience, struct process_line *ret);
/* The environment that the process was started with, and the value of a variable in it; STR_NONE:
 * there is none. */
struct str process_environ(struct arena *arena, int64_t pid);
struct str environ_get(struct str env, const char *name);
/* Its parent; 0: it is gone. */
int64_t process_parent(int64_t pid);
