#include "sched/names.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "sched/state.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Texts that many objects name, kept once. Pods of one job have the same labels, groups the same
 * few queues; each holds eight bytes of it. */

struct name *name_get(struct sched *sched, struct str text)
{
    struct name *name = text.len ? map_get(&sched->names, text) : NULL;

    if (!text.len)
        return NULL;
    if (!name) {
        name = mem_alloc(sizeof(*name) + text.len);
        memcpy(name + 1, text.p, text.len);
        name->text = (struct str){(char *)(name + 1), text.len};
        map_set(&sched->names, name->text, name);
    }
    name->refs++;
    return name;
}

struct str name_text(const struct name *name)
{
    return name ? name->text : STR("");
}

void name_unref(struct sched *sched, struct name *name)
{
    if (!name || --name->refs)
        return;
    map_remove(&sched->names, name->text);
    mem_free(name);
}

void names_swept(struct sched *sched)
{
    MAP_FOREACH(&sched->names, entry) {
        struct name *name = entry->value;

        if (name->refs)
            continue;
        map_remove(&sched->names, name->text);
        mem_free(name);
    }
}

/* ---- texts of one owner ---- */
struct str heap_str(struct str s)
{
    char *copy = mem_alloc(s.len + 1);

    if (s.len)
        memcpy(copy, s.p, s.len);
    return (struct str){copy, s.len};
}

void heap_str_free(struct str s)
{
    mem_free((char *)(uintptr_t)s.p);
}

struct str sched_key(char *out, size_t size, struct str ns, struct str name)
{
    size_t len = ns.len + 1 + name.len;

    assert(len < size);
    if (ns.len)
        memcpy(out, ns.p, ns.len);
    out[ns.len] = '/';
    if (name.len)
        memcpy(out + ns.len + 1, name.p, name.len);
    return (struct str){out, len};
}
