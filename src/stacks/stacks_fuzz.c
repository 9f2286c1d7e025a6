#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "fuzz/fuzz.h"
#include "stacks/decode.h"
#include "stacks/flight.h"
#include "stacks/image.h"
#include "stacks/memory.h"
#include "stacks/native.h"
#include "stacks/unwind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Any bytes as the memory of a process: its Python, the symbols of its libraries, the tables of its
 * frames, and as what a flight recorder wrote. Reading ends within what it may cost, and finds no more
 * than there is room for. */
#define BASE      0x10000ULL
#define READS_MAX 20000
#define FRAMES    64

struct image_of {
    struct str bytes;
    size_t read_bytes;
};

static bool input_read(void *user, uint64_t address, void *out, size_t size)
{
    struct image_of *from = user;

    from->read_bytes += size;
    if (address < BASE || size > from->bytes.len || address - BASE > from->bytes.len - size)
        return false;
    memcpy(out, from->bytes.p + (address - BASE), size);
    return true;
}

static bool find_here(void *user, uint64_t pc, uint64_t *ret_table)
{
    const uint64_t *table = user;

    (void)pc;
    *ret_table = *table;
    return true;
}

static void check_python(struct memory *memory, uint32_t version)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct decode_where where = {.runtime = BASE, .version = version};
    struct stack_threads threads = {0};
    struct err err = {0};

    if (decode_threads(memory, &where, &arena, &threads, &version, &err) < 0) {
        FUZZ_HOLDS(err.text[0]);
        return;
    }
    FUZZ_HOLDS(threads.count <= DECODE_THREADS_MAX);
    for (size_t i = 0; i < threads.count; i++)
        FUZZ_HOLDS(threads.items[i].frames.count <= DECODE_FRAMES_MAX);
}

static void check_library(struct memory *memory)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct native_frame frames[FRAMES] = {0};
    struct native_frame *items[FRAMES];
    uint64_t found[UNWIND_FRAMES_MAX];
    size_t left = NATIVE_SYMBOLS_ALL_MAX;
    struct image image;

    if (!image_open(memory, BASE, &image))
        return;
    (void)image_symbol(memory, &image, "_PyRuntime");
    for (size_t i = 0; i < FRAMES; i++) {
        frames[i].address = image.bias + i * 16;
        items[i] = &frames[i];
    }
    struct native_frames list = {items, FRAMES};
    native_names(memory, &image, &list, &left, &arena);
    FUZZ_HOLDS(left <= NATIVE_SYMBOLS_ALL_MAX && list.count <= FRAMES);
    for (size_t i = 0; i < FRAMES; i++)
        FUZZ_HOLDS(frames[i].function.len <= 3 * NATIVE_NAME_MAX);
    for (size_t i = 1; i < list.count; i++)
        FUZZ_HOLDS(list.items[i - 1]->address <= list.items[i]->address);
    size_t count =
        unwind_stack(memory, &(struct unwind_start){.pc = image.bias + 16, .sp = BASE + 64},
                     find_here, &image.frames, found);
    FUZZ_HOLDS(count >= 1 && count <= UNWIND_FRAMES_MAX);
}

FUZZ(stacks)
{
    static const uint32_t versions[] = {0, 0x03090000, 0x030b0000, 0x030c0000};
    _cleanup_(arena_done) struct arena arena = {0};
    struct image_of from = {.bytes = input};
    struct err err = {0};

    for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++) {
        struct memory memory = {.read = input_read, .user = &from, .reads_left = READS_MAX};

        check_python(&memory, versions[i]);
    }
    struct memory memory = {.read = input_read, .user = &from, .reads_left = READS_MAX};
    check_library(&memory);
    FUZZ_HOLDS(from.read_bytes <= (size_t)READS_MAX * 5 * (64 << 10));
    FUZZ_HOLDS(flight_decode(&arena, input, &err) || err.text[0]);
}
