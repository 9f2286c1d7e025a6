#include "stacks/regions.h"

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "stacks/image.h"
#include "stacks/proc.h"
#include "stacks/unwind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "7f51-7f52 r-xp 00001000 fe:01 1234    /usr/lib/libc.so.6" */
static bool region_parse(struct str line, struct region *ret, bool *ret_code, uint64_t *ret_offset)
{
    struct str range, rights, offset;

    if (!str_cut(&line, ' ', &range) || !str_cut(&line, ' ', &rights) ||
        !str_cut(&line, ' ', &offset) || !proc_hex(offset, ret_offset) || rights.len < 3)
        return false;
    size_t dash = str_find(range, '-');
    *ret = (struct region){.path = str_sub(line, str_find(line, '/'), line.len)};
    if (!ret->path.len)
        ret->path = str_sub(line, str_find(line, '['), line.len);
    *ret_code = rights.p[2] == 'x';
    return proc_hex(str_sub(range, 0, dash), &ret->begin) &&
           proc_hex(str_sub(range, dash + 1, range.len), &ret->end);
}

void regions_read(struct regions *regions, int64_t pid, struct arena *arena)
{
    struct str maps = proc_file(arena, pid, "maps", PROC_MAPS_BYTES_MAX);
    struct region first = {0}; /* the last beginning of a file */
    struct region region;
    struct str line;
    uint64_t offset = 0;
    bool code = false;

    while (str_cut(&maps, '\n', &line) && regions->all.count < REGIONS_MAX) {
        if (!region_parse(line, &region, &code, &offset))
            continue;
        if (offset == 0)
            first = region;
        if (!code)
            continue;
        region.base = str_eq(first.path, region.path) && region.path.len ? first.begin : 0;
        VEC_PUSH(arena, &regions->all, region);
    }
}

struct region *regions_find(const struct regions *regions, uint64_t address)
{
    size_t low = 0;
    size_t high = regions->all.count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct region *region = &regions->all.items[middle];

        if (address >= region->begin && address < region->end)
            return region;
        if (address < region->begin)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

static bool find_table(void *user, uint64_t pc, uint64_t *ret_table)
{
    struct regions *regions = user;
    struct region *region = regions_find(regions, pc);

    if (!region || !region->base)
        return false;
    if (!region->opened)
        region->ok = image_open(&regions->memory, region->base, &region->image);
    region->opened = true;
    *ret_table = region->ok ? region->image.frames : 0;
    return region->ok;
}

size_t regions_unwind(struct regions *regions,
                      const struct unwind_start *start,
                      uint64_t ret[static UNWIND_FRAMES_MAX])
{
    return unwind_stack(&regions->memory, start, find_table, regions, ret);
}
