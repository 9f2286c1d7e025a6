#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "workspace/curves.h"
#include "workspace/disk.h"
#include "workspace/frame.h"
#include "workspace/manifest.h"
#include "workspace/results.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FILE_PREFIX "events.out.tfevents."

struct curves_walk {
    struct arena arena;
    int root_fd;
    struct results *results; /* of the list, then of one file after the other; NULL: the next one */
    struct buf frames;
    struct curves *curves;
    struct str names[CURVES_NAMES_MAX];
    size_t name_count;
    size_t next; /* of the names */
    uint64_t file_bytes;
    bool listed;
    bool cut;
};

struct curves_walk *curves_walk_new(int root_fd)
{
    struct curves_walk *walk = MEM_NEW(struct curves_walk);

    walk->root_fd = root_fd;
    walk->curves = curves_new();
    return walk;
}

void curves_walk_free(struct curves_walk *walk)
{
    if (!walk)
        return;
    results_free(walk->results);
    curves_free(walk->curves);
    buf_done(&walk->frames);
    arena_done(&walk->arena);
    disk_closep(&walk->root_fd);
    mem_free(walk);
}

static struct str path_base(struct str path)
{
    struct str parent = manifest_parent(path);

    return str_sub(path, parent.len + (parent.len ? 1 : 0), path.len);
}

/* By the time in their names, which come first after the prefix. */
static int name_compare(const void *a, const void *b)
{
    const struct str *x = a;
    const struct str *y = b;
    int r = strcmp(path_base(*x).p, path_base(*y).p);

    return r ? r : strcmp(x->p, y->p);
}

static int walk_take(void *user, const struct frame *frame, struct err *err)
{
    struct curves_walk *walk = user;

    (void)err;
    if (frame->type == FRAME_ENTRY && str_starts(path_base(frame->entry.path), STR(FILE_PREFIX))) {
        if (walk->name_count < CURVES_NAMES_MAX)
            walk->names[walk->name_count++] = str_dup(&walk->arena, frame->entry.path);
        else
            walk->cut = true;
    } else if (frame->type == FRAME_BLOB) {
        walk->file_bytes += frame->blob.bytes.len;
        curves_add(walk->curves, frame->blob.bytes);
    }
    return 0;
}

/* False: that was the last one. */
static bool walk_next(struct curves_walk *walk)
{
    struct results_request request = {.list = !walk->listed};

    if (walk->listed && walk->next == walk->name_count)
        return false;
    if (walk->listed) {
        request.path = walk->names[walk->next++];
        curves_begin(walk->curves, manifest_parent(request.path));
        walk->file_bytes = 0;
    }
    buf_clear(&walk->frames);
    walk->results = results_new(results_folder(walk->root_fd, STR("")), &request);
    return true;
}

static void walk_listed(struct curves_walk *walk)
{
    walk->listed = true;
    qsort(walk->names, walk->name_count, sizeof(walk->names[0]), name_compare);
    if (walk->name_count > CURVES_FILES_MAX) {
        walk->next = walk->name_count - CURVES_FILES_MAX;
        walk->cut = true;
    }
}

int curves_walk_turn(struct curves_walk *walk, struct buf *out, struct err *err)
{
    if (!walk->results && !walk_next(walk)) {
        curves_write(walk->curves, walk->cut, out);
        return 0;
    }
    int r = results_turn(walk->results, &walk->frames, err);
    if (r < 0 && !walk->listed)
        return r;
    (void)frame_read(&walk->frames, walk_take, walk, NULL);
    if (walk->file_bytes > CURVES_FILE_BYTES_MAX) {
        walk->cut = true;
        r = 0;
    }
    if (r > 0)
        return 1;
    /* A file that went meanwhile is no reason to say nothing of the others. */
    results_free(walk->results);
    walk->results = NULL;
    if (!walk->listed)
        walk_listed(walk);
    return 1;
}
