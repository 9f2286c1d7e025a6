#pragma once

#include "stacks/lines.h"

#include <stdint.h>

struct err;
struct memory;

/* layout: where a CPython keeps what, in bytes from the beginning of each object. It is the same
 * within a minor version, on 64-bit machines. From 3.13 on the interpreter tells it itself, in the
 * table at the beginning of _PyRuntime; before, it is known here. */
#define LAYOUT_NONE UINT16_MAX

struct layout {
    uint32_t version;        /* PY_VERSION_HEX: 0x030b07f0 is 3.11.7 */
    uint16_t runtime_interp; /* the first interpreter */
    uint16_t interp_next;
    uint16_t interp_thread; /* the first thread */
    uint16_t thread_next;
    uint16_t thread_interp;
    uint16_t thread_pthread;
    uint16_t thread_tid;    /* LAYOUT_NONE before 3.11 */
    uint16_t thread_cframe; /* 3.11 and 3.12: its frame is one pointer further; else LAYOUT_NONE */
    uint16_t thread_frame;  /* in the thread, or in what thread_cframe points to */
    uint16_t frame_back;
    uint16_t frame_code;
    uint16_t frame_at;    /* the instruction: a number before 3.11, an address since */
    uint16_t frame_owner; /* LAYOUT_NONE before 3.11 */
    uint16_t code_file;
    uint16_t code_name;
    uint16_t code_qualname; /* LAYOUT_NONE before 3.11 */
    uint16_t code_first_line;
    uint16_t code_lines;
    uint16_t code_bytes; /* where the instructions begin; LAYOUT_NONE before 3.11 */
    uint16_t str_length;
    uint16_t str_state;
    uint16_t str_ascii; /* the text of one that is ASCII */
    uint16_t str_wide;  /* of any other */
    uint16_t bytes_size;
    uint16_t bytes_data;
    enum lines_form lines;
};

/* Of the interpreter whose _PyRuntime is at `runtime`. `version` is PY_VERSION_HEX, or only its
 * first two bytes, or 0 where nobody knows. A version that is not known and a build without the
 * interpreter's lock are refused in words. */
int layout_of(struct memory *memory,
              uint64_t runtime,
              uint32_t version,
              struct layout *ret,
              struct err *err);
