#include "stacks/native.h"

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "base/vec.h"
#include "stacks/image.h"
#include "stacks/memory.h"
#include "stacks/proc.h"
#include "stacks/process.h"
#include "stacks/regions.h"
#include "stacks/unwind.h"

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define READS_MAX   300000 /* as for Python's frames: a second of reading */
#define PIECE       512    /* symbols that are read at a time: 12 KiB */
#define NAME_PARTS  16
#define PLAIN_BYTES 512

/* ---- names ---- */

/* A part of a mangled name: its length, and so many characters. */
static bool take_part(struct str *rest, struct str *ret)
{
    size_t len = 0;
    size_t digits = 0;

    while (digits < rest->len && digits < 4 && rest->p[digits] >= '0' && rest->p[digits] <= '9')
        len = len * 10 + (size_t)(rest->p[digits++] - '0');
    if (!digits || !len || digits + len > rest->len)
        return false;
    *ret = str_sub(*rest, digits, len);
    *rest = str_sub(*rest, digits + len, rest->len);
    return true;
}

struct str native_plain(struct arena *arena, struct str name)
{
    struct str rest = str_sub(name, 2, name.len), part;
    char text[PLAIN_BYTES];
    size_t len = 0;
    bool nested = false;

    if (!str_starts(name, STR("_Z")))
        return name;
    if (rest.len && rest.p[0] == 'N') {
        nested = true;
        rest = str_sub(rest, 1, rest.len);
        while (rest.len && (rest.p[0] == 'K' || rest.p[0] == 'V'))
            rest = str_sub(rest, 1, rest.len);
    }
    if (str_starts(rest, STR("St"))) {
        memcpy(text, "std", 3);
        len = 3;
        rest = str_sub(rest, 2, rest.len);
    }
    for (size_t i = 0; i < NAME_PARTS && take_part(&rest, &part); i++) {
        if (len + part.len + 2 > sizeof(text))
            return name;
        if (len) {
            memcpy(text + len, "::", 2);
            len += 2;
        }
        memcpy(text + len, part.p, part.len);
        len += part.len;
        if (!nested)
            break;
    }
    /* Operators and templates are left as they are: half a name would be another's. */
    if (!len || (nested && !str_starts(rest, STR("E"))))
        return name;
    return str_dup(arena, (struct str){text, len});
}

static struct str name_at(struct memory *memory,
                          const struct image *image,
                          uint32_t at,
                          struct arena *arena)
{
    char text[NATIVE_NAME_MAX + 1];
    size_t size = image->names_size > at ? image->names_size - at : 0;

    size = size < NATIVE_NAME_MAX ? size : NATIVE_NAME_MAX;
    if (!size || !memory_read(memory, image->names + at, text, size))
        return STR_NONE;
    text[size] = '\0';
    return native_plain(arena, str_utf8(arena, str_dup(arena, str_from(text))));
}

/* The table of names follows that of symbols in every file that a linker for Linux makes. */
static size_t symbol_count(const struct image *image)
{
    uint64_t bytes = image->names > image->symbols ? image->names - image->symbols : 0;
    uint64_t count = bytes / sizeof(Elf64_Sym);

    return image->symbols && count < NATIVE_SYMBOLS_MAX ? (size_t)count : 0;
}

static int by_address(const void *a, const void *b)
{
    const struct native_frame *x = *(struct native_frame *const *)a;
    const struct native_frame *y = *(struct native_frame *const *)b;

    return x->address < y->address ? -1 : x->address > y->address;
}

/* Where the frames from `address` on begin. */
static size_t frames_from(const struct native_frames *frames, uint64_t address)
{
    size_t low = 0;
    size_t high = frames->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (frames->items[middle]->address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Those in the function are named, and are done. */
static void name_by(struct memory *memory,
                    const struct image *image,
                    const Elf64_Sym *symbol,
                    struct native_frames *frames,
                    struct arena *arena)
{
    uint64_t begin = symbol->st_value + image->bias;
    size_t first = frames_from(frames, begin);
    size_t end = first;

    for (; end < frames->count && frames->items[end]->address - begin < symbol->st_size; end++)
        frames->items[end]->function = name_at(memory, image, symbol->st_name, arena);
    if (end == first)
        return;
    memmove(&frames->items[first], &frames->items[end],
            (frames->count - end) * sizeof(*frames->items));
    frames->count -= end - first;
}

void native_names(struct memory *memory,
                  const struct image *image,
                  struct native_frames *frames,
                  size_t *symbols_left,
                  struct arena *arena)
{
    size_t count = symbol_count(image);
    Elf64_Sym piece[PIECE];

    count = count < *symbols_left ? count : *symbols_left;
    for (size_t done = 0; done < count && frames->count; done += PIECE) {
        size_t now = count - done < PIECE ? count - done : PIECE;

        *symbols_left -= now;
        if (!memory_read(memory, image->symbols + done * sizeof(*piece), piece,
                         now * sizeof(*piece)))
            return;
        for (size_t i = 0; i < now && frames->count; i++) {
            unsigned type = piece[i].st_info & 0x0f;

            if ((type == STT_FUNC || type == STT_GNU_IFUNC) && piece[i].st_shndx != SHN_UNDEF)
                name_by(memory, image, &piece[i], frames, arena);
        }
    }
}

/* ---- all of it ---- */

static bool is_interpreter(struct str file)
{
    return str_starts(file, STR("libpython")) || str_starts(file, STR("python"));
}

static void task_unwind(struct regions *map, struct process_task *task, struct arena *arena)
{
    uint64_t found[UNWIND_FRAMES_MAX];
    const struct unwind_start start = {.pc = task->pc, .sp = task->sp};
    size_t count = regions_unwind(map, &start, found);
    struct native_frame *frames = ARENA_ARRAY(arena, struct native_frame, count + 1);

    for (size_t i = 0; i < count; i++) {
        struct region *region = regions_find(map, found[i]);
        struct native_frame frame = {.address = found[i]};

        if (region && region->base) {
            frame.file = str_utf8(arena, str_dup(arena, proc_base(region->path)));
            frame.offset = found[i] - region->base;
            region->used = true;
        }
        if (task->python && is_interpreter(frame.file))
            break;
        frames[task->native_count++] = frame;
    }
    task->native = frames;
}

/* The frames in one file, sorted. */
static struct native_frames frames_of(struct arena *arena,
                                      const struct process_look *look,
                                      uint64_t base,
                                      size_t room)
{
    struct native_frames frames = {ARENA_ARRAY(arena, struct native_frame *, room + 1), 0};

    for (size_t i = 0; i < look->tasks.count && i < NATIVE_TASKS_MAX; i++)
        for (size_t j = 0; j < look->tasks.items[i].native_count; j++) {
            struct native_frame *frame = &look->tasks.items[i].native[j];

            if (frame->file.len && !frame->function.len && frame->address - frame->offset == base &&
                frames.count < room)
                frames.items[frames.count++] = frame;
        }
    qsort(frames.items, frames.count, sizeof(struct native_frame *), by_address);
    return frames;
}

void native_look(struct proc_memory *from, struct arena *arena, struct process_look *look)
{
    _cleanup_(arena_done) struct arena scratch = {0}; /* mappings are many, and not needed again */
    struct regions map = {.memory = {.read = proc_read, .user = from, .reads_left = READS_MAX}};
    size_t symbols_left = NATIVE_SYMBOLS_ALL_MAX;
    size_t frames = 0;

    regions_read(&map, look->pid, &scratch);
    for (size_t i = 0; i < look->tasks.count && i < NATIVE_TASKS_MAX; i++) {
        struct process_task *task = &look->tasks.items[i];

        if (task->pc && task->sp)
            task_unwind(&map, task, arena);
        frames += task->native_count;
    }
    for (size_t i = 0; i < map.all.count; i++) {
        struct region *region = &map.all.items[i];
        _cleanup_(arena_done) struct arena own = {0};

        if (!region->used || !region->ok)
            continue;
        struct native_frames found = frames_of(&own, look, region->base, frames);
        native_names(&map.memory, &region->image, &found, &symbols_left, arena);
    }
}
