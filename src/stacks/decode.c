#include "stacks/decode.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "stacks/layout.h"
#include "stacks/lines.h"
#include "stacks/memory.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define OWNER_INTERPRETER 3 /* this and above: a frame of the interpreter's own, without code */
#define POINTER_TAGS      7ULL

struct decoder {
    struct memory *memory;
    struct layout layout;
    const struct decode_where *where;
    struct arena *arena;
};

static bool decoder_pointer(struct decoder *d, uint64_t object, uint16_t offset, uint64_t *ret)
{
    return memory_u64(d->memory, object + offset, ret);
}

/* ---- text ---- */

/* One character as UTF-8; what is none becomes a question mark. */
static size_t utf8_put(char *out, uint32_t c)
{
    if (c < 0x20 || c == 0x7f || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff)
        c = '?';
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | (c >> 6));
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | (c >> 12));
        out[1] = (char)(0x80 | ((c >> 6) & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | (c >> 18));
    out[1] = (char)(0x80 | ((c >> 12) & 0x3f));
    out[2] = (char)(0x80 | ((c >> 6) & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* The bits of a string's state: two of interning, three for the size of a character, compact,
 * ASCII. Some builds of 3.14 give interning sixteen. */
static bool state_read(uint32_t state, size_t *ret_kind, bool *ret_ascii)
{
    for (int i = 0; i < 2; i++) {
        uint32_t bits = i == 0 ? state >> 2 : state >> 16;
        size_t kind = bits & 7;

        if ((kind == 1 || kind == 2 || kind == 4) && bits & 8) {
            *ret_kind = kind;
            *ret_ascii = (bits & 16) != 0;
            return true;
        }
    }
    return false;
}

/* A long name keeps its end: that of a path is what tells. */
static bool decoder_text(struct decoder *d, uint64_t object, struct str *ret)
{
    unsigned char bytes[DECODE_TEXT_MAX * 4];
    uint64_t length = 0;
    uint32_t state = 0;
    size_t kind = 0;
    bool ascii = false;

    if (!decoder_pointer(d, object, d->layout.str_length, &length) ||
        !memory_read(d->memory, object + d->layout.str_state, &state, sizeof(state)) ||
        !state_read(state, &kind, &ascii) || length > (1U << 20))
        return false;
    uint64_t skip = length > DECODE_TEXT_MAX ? length - DECODE_TEXT_MAX : 0;
    size_t count = (size_t)(length - skip);
    uint64_t from = object + (ascii ? d->layout.str_ascii : d->layout.str_wide) + skip * kind;
    if (count && !memory_read(d->memory, from, bytes, count * kind))
        return false;
    char *out = arena_raw(d->arena, count * 4 + 1, 1);
    size_t len = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t c = 0;
        memcpy(&c, bytes + i * kind, kind);
        len += utf8_put(out + len, c);
    }
    out[len] = '\0';
    *ret = (struct str){out, len};
    return true;
}

/* ---- code ---- */

static int64_t frame_offset(struct decoder *d, uint64_t frame, uint64_t code)
{
    const struct layout *layout = &d->layout;
    int32_t last = 0;
    uint64_t at = 0;

    if (layout->code_bytes == LAYOUT_NONE) {
        if (!memory_read(d->memory, frame + layout->frame_at, &last, sizeof(last)) || last < 0)
            return 0;
        return layout->lines == LINES_RANGES ? (int64_t)last * 2 : last;
    }
    /* Before its first instruction a frame points in front of it. */
    if (!decoder_pointer(d, frame, layout->frame_at, &at) || at < code + layout->code_bytes)
        return 0;
    return (int64_t)(at - code - layout->code_bytes);
}

static int64_t code_line(struct decoder *d, uint64_t code, int64_t at)
{
    int32_t first = 0;
    uint64_t table = 0;
    uint64_t size = 0;

    if (!memory_read(d->memory, code + d->layout.code_first_line, &first, sizeof(first)) ||
        !decoder_pointer(d, code, d->layout.code_lines, &table) ||
        !decoder_pointer(d, table, d->layout.bytes_size, &size) || size > DECODE_LINES_MAX)
        return -1;
    char *bytes = arena_raw(d->arena, (size_t)size + 1, 1);
    int64_t line = -1;
    if (memory_read(d->memory, table + d->layout.bytes_data, bytes, (size_t)size))
        line = lines_find(d->layout.lines, (struct str){bytes, (size_t)size}, first, at);
    arena_trim(d->arena, bytes, (size_t)size + 1);
    return line;
}

static bool code_read(struct decoder *d, uint64_t frame, uint64_t code, struct stack_frame *ret)
{
    uint16_t name =
        d->layout.code_qualname == LAYOUT_NONE ? d->layout.code_name : d->layout.code_qualname;
    uint64_t text = 0;

    if (!decoder_pointer(d, code, d->layout.code_file, &text) ||
        !decoder_text(d, text, &ret->file) || !decoder_pointer(d, code, name, &text) ||
        !decoder_text(d, text, &ret->function))
        return false;
    ret->line = code_line(d, code, frame_offset(d, frame, code));
    return true;
}

/* ---- frames, threads ---- */

/* False: this frame is the interpreter's own and has no code of Python. */
static bool frame_has_code(struct decoder *d, uint64_t frame, uint64_t *ret_code, bool *ret_broken)
{
    unsigned char owner = 0;
    uint64_t type = 0;

    if (d->layout.frame_owner != LAYOUT_NONE &&
        !memory_read(d->memory, frame + d->layout.frame_owner, &owner, sizeof(owner))) {
        *ret_broken = true;
        return false;
    }
    if (owner >= OWNER_INTERPRETER)
        return false;
    if (!decoder_pointer(d, frame, d->layout.frame_code, ret_code)) {
        *ret_broken = true;
        return false;
    }
    *ret_code &= ~POINTER_TAGS;
    if (!decoder_pointer(d, *ret_code, 8, &type)) {
        *ret_broken = true;
        return false;
    }
    return !d->where->code_type || type == d->where->code_type;
}

static void thread_walk(struct decoder *d, uint64_t thread, struct stack_thread *ret)
{
    const struct layout *layout = &d->layout;
    uint64_t at = thread;
    uint64_t frame = 0;

    if (layout->thread_cframe != LAYOUT_NONE && !decoder_pointer(d, at, layout->thread_cframe, &at))
        ret->broken = true;
    else if (!decoder_pointer(d, at, layout->thread_frame, &frame))
        ret->broken = true;
    for (size_t i = 0; frame && !ret->broken && i < DECODE_WALK_MAX; i++) {
        struct stack_frame item = {0};
        uint64_t code = 0;

        if (frame_has_code(d, frame, &code, &ret->broken)) {
            if (ret->frames.count == DECODE_FRAMES_MAX) {
                ret->cut = true;
                return;
            }
            if (code_read(d, frame, code, &item))
                VEC_PUSH(d->arena, &ret->frames, item);
            else
                ret->broken = true;
        }
        if (!ret->broken && !decoder_pointer(d, frame, layout->frame_back, &frame))
            ret->broken = true;
    }
}

static void thread_read(struct decoder *d, uint64_t thread, struct stack_threads *out)
{
    const struct layout *layout = &d->layout;
    struct stack_thread item = {0};
    uint64_t tid = 0;

    (void)decoder_pointer(d, thread, layout->thread_pthread, &item.pthread);
    if (layout->thread_tid != LAYOUT_NONE && decoder_pointer(d, thread, layout->thread_tid, &tid) &&
        tid <= INT32_MAX)
        item.tid = (int64_t)tid;
    thread_walk(d, thread, &item);
    VEC_PUSH(d->arena, out, item);
}

/* What a thread says of its interpreter tells a thread from anything else. */
static int interpreter_read(struct decoder *d,
                            uint64_t interp,
                            struct stack_threads *out,
                            struct err *err)
{
    uint64_t thread = 0;

    if (!decoder_pointer(d, interp, d->layout.interp_thread, &thread))
        return err_set(err, -EIO, "the interpreter's list of threads cannot be read");
    while (thread && out->count < DECODE_THREADS_MAX) {
        uint64_t owner = 0;

        if (!decoder_pointer(d, thread, d->layout.thread_interp, &owner) || owner != interp)
            return err_set(err, -EAGAIN, "the interpreter's list of threads makes no sense");
        thread_read(d, thread, out);
        if (!decoder_pointer(d, thread, d->layout.thread_next, &thread))
            return err_set(err, -EAGAIN, "the interpreter's list of threads is cut");
    }
    return 0;
}

int decode_threads(struct memory *memory,
                   const struct decode_where *where,
                   struct arena *arena,
                   struct stack_threads *ret,
                   uint32_t *ret_version,
                   struct err *err)
{
    struct decoder d = {.memory = memory, .where = where, .arena = arena};
    struct stack_threads threads = {0};
    uint64_t interp = 0;
    int r = layout_of(memory, where->runtime, where->version, &d.layout, err);

    if (r < 0)
        return r;
    if (!decoder_pointer(&d, where->runtime, d.layout.runtime_interp, &interp))
        return err_set(err, -EIO, "the memory of the interpreter cannot be read");
    if (!interp)
        return err_set(err, -EAGAIN, "the interpreter has not started yet, or has ended");
    for (size_t i = 0; interp && i < DECODE_INTERPRETERS_MAX && r == 0; i++) {
        r = interpreter_read(&d, interp, &threads, err);
        if (r == 0 && !decoder_pointer(&d, interp, d.layout.interp_next, &interp))
            interp = 0;
    }
    if (r < 0)
        return r;
    *ret = threads;
    *ret_version = d.layout.version;
    return 0;
}
