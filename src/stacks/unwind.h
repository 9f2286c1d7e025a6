#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct memory;

/* unwind: the addresses that a thread of a process returns to, by the tables that compilers leave for
 * exceptions (.eh_frame, found by .eh_frame_hdr).
 *
 * It begins with what the kernel tells of a thread that waits (/proc/PID/task/TID/syscall): where it is
 * and where its stack is. Nothing is stopped, so all other registers are unknown until a frame says
 * where it has saved them; a frame that needs one that is unknown is the last. But the first one may
 * need its frame pointer, where libc is built with them, as Ubuntu's: that is looked for on its stack,
 * below an address that is behind a call of just this function. The last is one, too, that has no
 * table, or whose place is computed (signal handlers, code that was compiled at run time). Pure: the
 * memory is a function. */
#define UNWIND_FRAMES_MAX 48
#define UNWIND_BYTES_MAX  4096 /* of one entry of the table: some hundred are usual */
#define UNWIND_STATES_MAX 8    /* that it remembers at a time */

/* Where the file is mapped that `pc` is in, with the address of its .eh_frame_hdr; 0: there is none. */
typedef bool unwind_find_fn(void *user, uint64_t pc, uint64_t *ret_table);

struct unwind_start {
    uint64_t pc;
    uint64_t sp;
};

/* The addresses, the innermost first; all but the first are those of the calls. */
size_t unwind_stack(struct memory *memory,
                    const struct unwind_start *start,
                    unwind_find_fn *find,
                    void *user,
                    uint64_t ret[static UNWIND_FRAMES_MAX]);
