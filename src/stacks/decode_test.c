#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/rng.h"
#include "base/str.h"
#include "stacks/decode.h"
#include "stacks/image.h"
#include "stacks/memory.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A process of 16 KiB that begins at BASE. */
#define BASE 0x10000ULL
#define SIZE 16384ULL

struct fake {
    unsigned char bytes[SIZE];
};

static bool fake_read(void *user, uint64_t address, void *out, size_t size)
{
    const struct fake *fake = user;

    if (address < BASE || size > SIZE || address - BASE > SIZE - size)
        return false;
    memcpy(out, fake->bytes + (address - BASE), size);
    return true;
}

static void fake_put(struct fake *fake, uint64_t at, uint64_t value)
{
    memcpy(fake->bytes + (at - BASE), &value, sizeof(value));
}

static void fake_text(struct fake *fake, uint64_t at, const char *text)
{
    fake_put(fake, at + 16, strlen(text));
    fake_put(fake, at + 32, 1U << 2 | 1U << 5 | 1U << 6);
    memcpy(fake->bytes + (at - BASE) + 40, text, strlen(text));
}

enum {
    RUNTIME = BASE,
    INTERP = BASE + 0x1000,
    THREAD = BASE + 0x1400,
    SHIM = BASE + 0x1800,
    FRAME = BASE + 0x1900,
    OUTER = BASE + 0x1a00,
    CODE = BASE + 0x2000,
    CODE_TYPE = BASE + 0x2400,
    FILE_NAME = BASE + 0x2800,
    FUNCTION = BASE + 0x2900,
    LINES = BASE + 0x2a00,
};

/* The table of offsets of 3.14: groups of the size of an object and of what lies where in it. */
#define RUNTIME_WORDS 4096, 0, 1000
#define INTERP_WORDS  1024, 0, 8, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
#define THREAD_WORDS  512, 0, 8, 16, 24, 32, 40, 0, 0
#define FRAME_WORDS   88, 8, 0, 56, 80, 70, 64, 0
#define CODE_WORDS    232, 112, 120, 128, 136, 68, 0, 0, 0, 208, 0
#define OTHER_WORDS \
    16, 8, 400, 24, 88, 168, 32, 24, 16, 40, 24, 16, 200, 24, 40, 32, 48, 32, 40, 24, 16, 32, 16, 24
#define BYTES_WORDS 40, 16, 32
#define STR_WORDS   64, 32, 16, 40

static const uint64_t table_words[] = {
    0,           0x030e00f0, 0,           RUNTIME_WORDS, INTERP_WORDS, THREAD_WORDS,
    FRAME_WORDS, CODE_WORDS, OTHER_WORDS, BYTES_WORDS,   STR_WORDS};

/* What a 3.14 with one thread looks like: train() in train.py, line 303, called by itself. */
static void fake_python(struct fake *fake)
{
    static const unsigned char lines[] = {0x80, 0x00, 0xd8, 0x08, 0x09, 0x80, 0x41,
                                          0xf0, 0x5a, 0x09, 0x00, 0x09, 0x0a, 0x80,
                                          0x41, 0xd8, 0x0b, 0x0c, 0x80, 0x48};

    memset(fake, 0, sizeof(*fake));
    memcpy(fake->bytes, table_words, sizeof(table_words));
    memcpy(fake->bytes, "xdebugpy", 8);
    fake_put(fake, RUNTIME + 1000, INTERP);
    fake_put(fake, INTERP + 16, THREAD);
    fake_put(fake, THREAD + 16, INTERP);
    fake_put(fake, THREAD + 24, SHIM);
    fake_put(fake, THREAD + 40, 4711);
    fake_put(fake, SHIM + 8, FRAME);
    fake->bytes[SHIM + 70 - BASE] = 3;
    fake_put(fake, FRAME + 8, OUTER);
    fake_put(fake, FRAME, CODE | 1); /* with the bit of a borrowed reference */
    fake_put(fake, FRAME + 56, CODE + 208 + 6);
    fake_put(fake, OUTER, CODE);
    fake_put(fake, OUTER + 56, CODE + 208 + 10);
    fake_put(fake, CODE + 8, CODE_TYPE);
    fake_put(fake, CODE + 112, FILE_NAME);
    fake_put(fake, CODE + 128, FUNCTION);
    fake_put(fake, CODE + 136, LINES);
    fake->bytes[CODE + 68 - BASE] = 1;
    fake_text(fake, FILE_NAME, "train.py");
    fake_text(fake, FUNCTION, "train");
    fake_put(fake, LINES + 16, sizeof(lines));
    memcpy(fake->bytes + (LINES + 32 - BASE), lines, sizeof(lines));
}

static int fake_decode(struct fake *fake,
                       struct arena *arena,
                       struct stack_threads *ret,
                       struct err *err)
{
    struct memory memory = {.read = fake_read, .user = fake, .reads_left = 100000};
    uint32_t version = 0;

    return decode_threads(&memory,
                          &(struct decode_where){.runtime = RUNTIME, .code_type = CODE_TYPE}, arena,
                          ret, &version, err);
}

TEST(stacks_of_3_14_are_read_by_its_own_table)
{
    _cleanup_(arena_done) struct arena arena = {0};
    static struct fake fake;
    struct stack_threads threads = {0};

    fake_python(&fake);
    EXPECT(fake_decode(&fake, &arena, &threads, NULL) == 0);
    EXPECT(threads.count == 1 && threads.items[0].tid == 4711);
    EXPECT(threads.items[0].frames.count == 2 && !threads.items[0].broken);
    if (threads.items[0].frames.count < 2)
        return;
    EXPECT(str_is(threads.items[0].frames.items[0].function, "train"));
    EXPECT(str_is(threads.items[0].frames.items[0].file, "train.py"));
    EXPECT(threads.items[0].frames.items[0].line == 303);
    EXPECT(threads.items[0].frames.items[1].line == 304);
}

TEST(stacks_of_builds_that_are_not_known_are_refused_in_words)
{
    _cleanup_(arena_done) struct arena arena = {0};
    static struct fake fake;
    struct stack_threads threads = {0};
    struct err err = {0};

    test_case("a build without the lock");
    fake_python(&fake);
    fake_put(&fake, RUNTIME + 16, 1);
    EXPECT(fake_decode(&fake, &arena, &threads, &err) == -ENOTSUP);
    EXPECT(strstr(err.text, "free-threaded") != NULL);
    test_case("a later version");
    fake_python(&fake);
    fake_put(&fake, RUNTIME + 8, 0x030f00f0);
    EXPECT(fake_decode(&fake, &arena, &threads, &err) == -ENOTSUP);
    EXPECT(strstr(err.text, "3.15") != NULL);
    test_case("an earlier one, which has no table");
    memset(fake.bytes, 0, sizeof(fake.bytes));
    struct memory memory = {.read = fake_read, .user = &fake, .reads_left = 100};
    uint32_t version;
    struct decode_where where = {.runtime = RUNTIME, .version = 0x03080000};
    EXPECT(decode_threads(&memory, &where, &arena, &threads, &version, &err) == -ENOTSUP);
    EXPECT(strstr(err.text, "3.8") != NULL);
    test_case("a table of another form");
    fake_python(&fake);
    fake_put(&fake, RUNTIME + 8 * 40, 60000);
    EXPECT(fake_decode(&fake, &arena, &threads, &err) == -EINVAL);
}

TEST(stacks_that_lead_in_circles_end)
{
    _cleanup_(arena_done) struct arena arena = {0};
    static struct fake fake;
    struct stack_threads threads = {0};

    test_case("a frame that is its own caller");
    fake_python(&fake);
    fake_put(&fake, OUTER + 8, FRAME);
    EXPECT(fake_decode(&fake, &arena, &threads, NULL) == 0);
    EXPECT(threads.items[0].frames.count == DECODE_FRAMES_MAX && threads.items[0].cut);
    test_case("a thread that is its own next");
    fake_python(&fake);
    fake_put(&fake, THREAD + 8, THREAD);
    threads = (struct stack_threads){0};
    EXPECT(fake_decode(&fake, &arena, &threads, NULL) == 0);
    EXPECT(threads.count == DECODE_THREADS_MAX);
    test_case("a pointer to nowhere ends one stack, not the others");
    fake_python(&fake);
    fake_put(&fake, OUTER + 8, 0xdead);
    threads = (struct stack_threads){0};
    EXPECT(fake_decode(&fake, &arena, &threads, NULL) == 0);
    EXPECT(threads.items[0].broken && threads.items[0].frames.count == 2);
}

/* Any memory: half of its words point into it, so that walks go far. */
TEST(stacks_of_any_bytes_end_without_a_crash)
{
    static const uint32_t versions[] = {0,          0x03090000, 0x030a0000,
                                        0x030b07f0, 0x030c01f0, 0x030d00f0};
    static struct fake fake;
    struct rng rng = {.state = 7};

    for (int round = 0; round < 300; round++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct stack_threads threads = {0};
        struct image image = {0};
        uint32_t version;

        if (round % 3 == 0)
            fake_python(&fake);
        for (uint64_t at = 0; at < SIZE; at += 8) {
            uint64_t value = rng_next(&rng);
            if (round % 3 == 0 && value % 16)
                continue;
            if (value % 2)
                value = BASE + (value >> 8) % SIZE / 8 * 8;
            memcpy(fake.bytes + at, &value, sizeof(value));
        }
        struct memory memory = {.read = fake_read, .user = &fake, .reads_left = 20000};
        struct decode_where where = {.runtime = RUNTIME, .version = versions[round % 6]};
        (void)decode_threads(&memory, &where, &arena, &threads, &version, NULL);
        EXPECT(threads.count <= DECODE_THREADS_MAX);
        memcpy(fake.bytes, "\177ELF\2\1\1", 7);
        fake.bytes[16] = 3;
        fake.bytes[54] = 56;
        fake.bytes[55] = 0;
        if (image_open(&memory, BASE, &image))
            (void)image_symbol(&memory, &image, "_PyRuntime");
    }
}
