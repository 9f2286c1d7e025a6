#include "sim/version.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

/* All annotations and labels of ours came later. Of these one is the simulator's own, and by the other
 * the code of today knows pods that it has made; the older one knew them by their names. */
#define OURS      "muster.dev/"
#define SIMULATED "muster.dev/sim"
#define STAND_IN  "muster.dev/stand-in"

const char *const version_without[] = {"gangstatus", "nodehealth", "notify", "unused", NULL};

struct field {
    const struct kind *kind;
    const char *path;
    const char *name;
};

static const struct field fields[] = {
    {&kind_torchrunjob, "spec", "after"},
    {&kind_torchrunjob, "spec", "array"},
    {&kind_torchrunjob, "spec", "keepWhileSuspended"},
    {&kind_torchrunjob, "spec", "maxRunTime"},
    {&kind_torchrunjob, "spec", "notify"},
    {&kind_torchrunjob, "spec", "requeueAfterMaxRunTime"},
    {&kind_torchrunjob, "spec.reliability", "onHang"},
    {&kind_torchrunjob, "spec.reliability", "preflightFrom"},
    {&kind_torchrunjob, "spec.reliability", "restartMode"},
    {&kind_torchrunjob, "spec.reliability", "spares"},
    {&kind_torchrunjob, "spec.reliability", "warmProcesses"},
    {&kind_torchrunjob, "status", "after"},
    {&kind_torchrunjob, "status", "array"},
    {&kind_torchrunjob, "status", "notify"},
    {&kind_torchrunjob, "status", "restartsInPlace"},
    {&kind_torchrunjob, "status", "round"},
    {&kind_torchrunqueue, "spec", "maxRunTime"},
    {&kind_torchrunqueue, "spec", "namespaceSelector"},
    {&kind_torchrunqueue, "spec", "namespaces"},
    {&kind_torchrunqueue, "spec", "suspendUnusedAfter"},
    {&kind_queue, "spec", "maxRunTime"},
    {&kind_queue, "spec", "namespaceSelector"},
    {&kind_queue, "spec", "namespaces"},
    {&kind_queue, "spec", "order"},
    {&kind_podgroup, "spec", "maxRunTime"},
    {&kind_podgroup, "spec", "preemptionDelay"},
    {&kind_podgroup, "spec", "requeueAfterMaxRunTime"},
    {&kind_podgroup, "spec", "stalenessGracePeriod"},
};

static bool is_later(struct str key)
{
    return str_starts(key, STR(OURS)) && !str_is(key, SIMULATED) && !str_is(key, STAND_IN);
}

static bool forget_keys(struct json *map)
{
    bool any = false;

    for (struct json *member = json_first(map), *next; member; member = next) {
        next = json_next(member);
        if (is_later(json_key(member)))
            any = json_remove(map, json_key(member)) || any;
    }
    return any;
}

/* True: there was something that it does not know. */
static bool forget(const struct kind *kind, struct json *root)
{
    bool any = forget_keys(json_at(root, "metadata.annotations"));

    any = forget_keys(json_at(root, "metadata.labels")) || any;
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        struct json *parent = fields[i].kind == kind ? json_at(root, fields[i].path) : NULL;

        any = (parent && json_remove(parent, str_from(fields[i].name))) || any;
    }
    return any;
}

struct object *version_see(const struct object *object)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *root = object_json(object, &arena);
    struct object *masked = NULL;
    struct err err = {0};

    if (!forget(object->kind, root))
        return object_ref(object);
    int r = object_written(object->kind, json_text(&arena, root), &masked, &err);
    assert(r == 0);
    (void)r;
    return masked;
}

struct str version_write(struct arena *arena, const struct kind *kind, struct str body)
{
    struct json *root = NULL;
    struct err err = {0};

    if (!body.len || json_parse(arena, body, &root, &err) < 0 || !forget(kind, root))
        return str_dup(arena, body);
    return str_dup(arena, json_text(arena, root));
}

struct str version_notes(struct arena *arena, struct str annotations)
{
    struct json *root = NULL;
    struct err err = {0};

    if (!annotations.len || json_parse(arena, annotations, &root, &err) < 0 || !forget_keys(root))
        return str_dup(arena, annotations);
    return str_dup(arena, json_text(arena, root));
}
