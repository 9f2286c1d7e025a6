#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "sched/state.h"

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

void share_name(struct share *share, struct name *name)
{
    if (name)
        name->refs++;
    if (share->name)
        share->name->refs--;
    share->name = name;
}
