#include "stacks/layout.h"

#include "base/count.h"
#include "base/err.h"
#include "stacks/lines.h"
#include "stacks/memory.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define NONE         LAYOUT_NONE
#define TABLE_COOKIE "xdebugpy"
#define TABLE_MINOR  13 /* the first that has the table */
#define TABLE_WORDS  81 /* as far as the longest one is read */
#define OFFSET_MAX   0xfff0

static const struct {
    unsigned minor;
    struct layout layout;
} known[] = {
    {9,
     {.runtime_interp = 32,
      .interp_next = 0,
      .interp_thread = 8,
      .thread_next = 8,
      .thread_interp = 16,
      .thread_pthread = 176,
      .thread_tid = NONE,
      .thread_cframe = NONE,
      .thread_frame = 24,
      .frame_back = 24,
      .frame_code = 32,
      .frame_at = 104,
      .frame_owner = NONE,
      .code_file = 104,
      .code_name = 112,
      .code_qualname = NONE,
      .code_first_line = 40,
      .code_lines = 120,
      .code_bytes = NONE,
      .str_length = 16,
      .str_state = 32,
      .str_ascii = 48,
      .str_wide = 72,
      .bytes_size = 16,
      .bytes_data = 32,
      .lines = LINES_PAIRS}},
    {10,
     {.runtime_interp = 32,
      .interp_next = 0,
      .interp_thread = 8,
      .thread_next = 8,
      .thread_interp = 16,
      .thread_pthread = 176,
      .thread_tid = NONE,
      .thread_cframe = NONE,
      .thread_frame = 24,
      .frame_back = 24,
      .frame_code = 32,
      .frame_at = 96,
      .frame_owner = NONE,
      .code_file = 104,
      .code_name = 112,
      .code_qualname = NONE,
      .code_first_line = 40,
      .code_lines = 120,
      .code_bytes = NONE,
      .str_length = 16,
      .str_state = 32,
      .str_ascii = 48,
      .str_wide = 72,
      .bytes_size = 16,
      .bytes_data = 32,
      .lines = LINES_RANGES}},
    {11,
     {.runtime_interp = 40,
      .interp_next = 0,
      .interp_thread = 16,
      .thread_next = 8,
      .thread_interp = 16,
      .thread_pthread = 152,
      .thread_tid = 160,
      .thread_cframe = 56,
      .thread_frame = 8,
      .frame_back = 48,
      .frame_code = 32,
      .frame_at = 56,
      .frame_owner = 69,
      .code_file = 112,
      .code_name = 120,
      .code_qualname = 128,
      .code_first_line = 72,
      .code_lines = 136,
      .code_bytes = 184,
      .str_length = 16,
      .str_state = 32,
      .str_ascii = 48,
      .str_wide = 72,
      .bytes_size = 16,
      .bytes_data = 32,
      .lines = LINES_ENTRIES}},
    {12,
     {.runtime_interp = 40,
      .interp_next = 0,
      .interp_thread = 72,
      .thread_next = 8,
      .thread_interp = 16,
      .thread_pthread = 136,
      .thread_tid = 144,
      .thread_cframe = 56,
      .thread_frame = 0,
      .frame_back = 8,
      .frame_code = 0,
      .frame_at = 56,
      .frame_owner = 70,
      .code_file = 112,
      .code_name = 120,
      .code_qualname = 128,
      .code_first_line = 68,
      .code_lines = 136,
      .code_bytes = 192,
      .str_length = 16,
      .str_state = 32,
      .str_ascii = 40,
      .str_wide = 56,
      .bytes_size = 16,
      .bytes_data = 32,
      .lines = LINES_ENTRIES}},
};

/* One member of a layout as the table of 3.13 and 3.14 has it: the number of its word, and of the
 * word with the size of what it lies in. */
static const struct {
    size_t member;
    uint8_t word_13, size_13;
    uint8_t word_14, size_14;
} told[] = {
    {offsetof(struct layout, runtime_interp), 5, 3, 5, 3},
    {offsetof(struct layout, interp_next), 8, 6, 8, 6},
    {offsetof(struct layout, interp_thread), 9, 6, 9, 6},
    {offsetof(struct layout, thread_next), 21, 19, 24, 22},
    {offsetof(struct layout, thread_interp), 22, 19, 25, 22},
    {offsetof(struct layout, thread_frame), 23, 19, 26, 22},
    {offsetof(struct layout, thread_pthread), 24, 19, 27, 22},
    {offsetof(struct layout, thread_tid), 25, 19, 28, 22},
    {offsetof(struct layout, frame_back), 29, 28, 32, 31},
    {offsetof(struct layout, frame_code), 30, 28, 33, 31},
    {offsetof(struct layout, frame_at), 31, 28, 34, 31},
    {offsetof(struct layout, frame_owner), 33, 28, 36, 31},
    {offsetof(struct layout, code_file), 35, 34, 40, 39},
    {offsetof(struct layout, code_name), 36, 34, 41, 39},
    {offsetof(struct layout, code_qualname), 37, 34, 42, 39},
    {offsetof(struct layout, code_lines), 38, 34, 43, 39},
    {offsetof(struct layout, code_first_line), 39, 34, 44, 39},
    {offsetof(struct layout, code_bytes), 43, 34, 48, 39},
    {offsetof(struct layout, bytes_size), 65, 64, 75, 74},
    {offsetof(struct layout, bytes_data), 66, 64, 76, 74},
    {offsetof(struct layout, str_state), 68, 67, 78, 77},
    {offsetof(struct layout, str_length), 69, 67, 79, 77},
    {offsetof(struct layout, str_ascii), 70, 67, 80, 77},
};

static int layout_refuse(uint32_t version, struct err *err)
{
    return err_set(err, -ENOTSUP,
                   "the stacks of Python %u.%u cannot be read: 3.9 to 3.14 are known",
                   version >> 24, (version >> 16) & 0xff);
}

static int layout_told(struct memory *memory, uint64_t runtime, struct layout *ret, struct err *err)
{
    uint64_t words[TABLE_WORDS];

    if (!memory_read(memory, runtime, words, sizeof(words)) ||
        memcmp(words, TABLE_COOKIE, sizeof(words[0])) != 0)
        return err_set(err, -EINVAL, "_PyRuntime does not begin with its table of offsets");
    uint32_t version = (uint32_t)words[1];
    unsigned minor = (version >> 16) & 0xff;
    if (version >> 24 != 3 || (minor != TABLE_MINOR && minor != TABLE_MINOR + 1))
        return layout_refuse(version, err);
    if (words[2])
        return err_set(err, -ENOTSUP, "the stacks of a free-threaded Python (3.%ut) cannot be read",
                       minor);
    *ret = (struct layout){.version = version, .thread_cframe = NONE, .lines = LINES_ENTRIES};
    for (size_t i = 0; i < COUNT_OF(told); i++) {
        bool older = minor == TABLE_MINOR;
        uint64_t offset = words[older ? told[i].word_13 : told[i].word_14];
        uint64_t size = words[older ? told[i].size_13 : told[i].size_14];

        /* What lies behind the end of its own object was not written for this table. */
        if (offset > size || offset > OFFSET_MAX)
            return err_set(err, -EINVAL,
                           "the table of offsets of this Python 3.%u has another form", minor);
        uint16_t value = (uint16_t)offset;
        memcpy((char *)ret + told[i].member, &value, sizeof(value));
    }
    ret->str_wide = (uint16_t)(ret->str_ascii + 16);
    return 0;
}

int layout_of(struct memory *memory,
              uint64_t runtime,
              uint32_t version,
              struct layout *ret,
              struct err *err)
{
    char cookie[sizeof(uint64_t)];
    unsigned minor = (version >> 16) & 0xff;

    if (!memory_read(memory, runtime, cookie, sizeof(cookie)))
        return err_set(err, -EIO, "the memory of the interpreter cannot be read");
    if (memcmp(cookie, TABLE_COOKIE, sizeof(cookie)) == 0)
        return layout_told(memory, runtime, ret, err);
    if (!version)
        return err_set(err, -ENOTSUP, "the version of this Python cannot be told");
    for (size_t i = 0; version >> 24 == 3 && i < COUNT_OF(known); i++)
        if (known[i].minor == minor) {
            *ret = known[i].layout;
            ret->version = version;
            return 0;
        }
    return layout_refuse(version, err);
}
