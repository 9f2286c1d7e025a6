#include "store/remaining.h"

#include "api/condition.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static void count_finalizer(struct remaining *remaining, struct str name)
{
    for (size_t i = 0; i < remaining->finalizers.count; i++)
        if (str_eq(remaining->finalizers.items[i].name, name)) {
            remaining->finalizers.items[i].objects++;
            return;
        }
    if (remaining->finalizers.count == REMAINING_READ_MAX)
        return;
    struct remaining_finalizer first = {.name = str_dup(remaining->arena, name), .objects = 1};
    VEC_PUSH(remaining->arena, &remaining->finalizers, first);
}

void remaining_object(struct remaining *remaining, const struct object *object)
{
    remaining->objects++;
    if (remaining->read == REMAINING_READ_MAX || remaining->read_bytes >= REMAINING_BYTES_MAX ||
        !str_contains(object->raw, STR("\"finalizers\":[\"")))
        return;
    remaining->read++;
    remaining->read_bytes += object->raw.len;
    JSON_FOREACH(json_at(object_tree(object, remaining->arena), "metadata.finalizers"), name)
        count_finalizer(remaining, json_str(name));
}

void remaining_kind(struct remaining *remaining, const struct kind *kind, size_t count)
{
    struct str text = str_printf(remaining->arena, "%s.%s has %zu resource instances", kind->plural,
                                 kind->group, count);

    if (count)
        VEC_PUSH(remaining->arena, &remaining->kinds, text);
}

static int by_text(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

/* In the order of the alphabet, so that it is written again only when it has changed. */
static struct str joined(struct arena *arena, const char *head, struct str *items, size_t count)
{
    struct str text = str_from(head);

    if (count)
        qsort(items, count, sizeof(*items), by_text);
    for (size_t i = 0; i < count; i++)
        text = str_printf(arena, STR_FMT "%s" STR_FMT, STR_ARG(text), i ? ", " : "",
                          STR_ARG(items[i]));
    return text;
}

static struct str finalizers_text(struct remaining *remaining)
{
    VEC(struct str) texts = {0};

    for (size_t i = 0; i < remaining->finalizers.count; i++) {
        const struct remaining_finalizer *each = &remaining->finalizers.items[i];
        struct str text = str_printf(remaining->arena, STR_FMT " in %zu resource instances",
                                     STR_ARG(each->name), each->objects);

        VEC_PUSH(remaining->arena, &texts, text);
    }
    return joined(remaining->arena,
                  "Some content in the namespace has finalizers remaining: ", texts.items,
                  texts.count);
}

void remaining_tell(struct remaining *remaining, struct json *status)
{
    struct condition found[] = {
        {"NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered",
         STR("All resources successfully discovered")},
        {"NamespaceDeletionGroupVersionParsingFailure", "False", "ParsedGroupVersions",
         STR("All legacy kube types successfully parsed")},
        {"NamespaceDeletionContentFailure", "False", "ContentDeleted",
         STR("All content successfully deleted, may be waiting on finalization")},
        {"NamespaceContentRemaining", "False", "ContentRemoved",
         STR("All content successfully removed")},
        {"NamespaceFinalizersRemaining", "False", "ContentHasNoFinalizers",
         STR("All content-preserving finalizers finished")},
    };

    if (remaining->kinds.count)
        found[3] = (struct condition){"NamespaceContentRemaining", "True", "SomeResourcesRemain",
                                      joined(remaining->arena, "Some resources are remaining: ",
                                             remaining->kinds.items, remaining->kinds.count)};
    if (remaining->finalizers.count)
        found[4] = (struct condition){"NamespaceFinalizersRemaining", "True",
                                      "SomeFinalizersRemain", finalizers_text(remaining)};
    for (size_t i = 0; i < COUNT_OF(found); i++)
        condition_set(remaining->arena, status, &found[i], remaining->now_ms);
}
