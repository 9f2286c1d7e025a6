#include "server/page_lines.h"

#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "page/slim.h"

#include <stddef.h>
#include <stdint.h>

static void line_make(struct page_lines *lines, const struct object *object, struct buf *out)
{
    _cleanup_(arena_done) struct arena arena = {0};

    lines->made++;
    json_write(out, slim(object_json(object, &arena)));
}

/* Objects are blocks of some hundred bytes at least: the low bits of their addresses say nothing. */
static size_t line_slot(const struct object *object)
{
    return (size_t)(((uint64_t)(uintptr_t)object >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 32) %
           PAGE_LINES_MAX;
}

void page_lines_add(struct page_lines *lines, const struct object *object, struct buf *out)
{
    struct page_line *line = &lines->items[line_slot(object)];

    if (object->raw.len > PAGE_LINE_KEPT_MAX) {
        line_make(lines, object, out);
        return;
    }
    if (line->object != object) {
        object_unref(line->object);
        line->object = object_ref(object);
        buf_clear(&line->text);
        line_make(lines, object, &line->text);
    }
    buf_add(out, buf_str(&line->text));
}

void page_lines_done(struct page_lines *lines)
{
    for (size_t i = 0; i < PAGE_LINES_MAX; i++) {
        object_unref(lines->items[i].object);
        buf_done(&lines->items[i].text);
    }
    *lines = (struct page_lines){0};
}
