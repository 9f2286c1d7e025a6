#include "api/kind.h"

#include "api/crd_builtin.h"
#include "base/count.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define KIND_DEFINE(symbol_, group_, version_, name_, plural_, singular_, short_, categories_, \
                    namespaced_, status_, custom_)                                             \
    const struct kind kind_##symbol_ = {                                                       \
        .group = (group_),                                                                     \
        .version = (version_),                                                                 \
        .name = (name_),                                                                       \
        .plural = (plural_),                                                                   \
        .singular = (singular_),                                                               \
        .short_names = (short_),                                                               \
        .categories = (categories_),                                                           \
        .namespaced = (namespaced_),                                                           \
        .status = (status_),                                                                   \
        .strategic = !(custom_),                                                               \
        .custom = (custom_),                                                                   \
    };
KINDS(KIND_DEFINE)
KINDS_EMBEDDED(KIND_DEFINE)
#undef KIND_DEFINE

#define KIND_ADDRESS(symbol, ...) &kind_##symbol,
static const struct kind *const known[] = {KINDS(KIND_ADDRESS)};
static const struct kind *const embedded[] = {KINDS_EMBEDDED(KIND_ADDRESS)};
#undef KIND_ADDRESS

struct kinds_item {
    const struct kind *kind;
    const struct kind_crd *crd;
};

struct kinds {
    VEC(struct kinds_item) list;
};

const struct kind_column *kind_columns(const struct kind *kind, size_t *ret_count)
{
    if (!kind->columns && kind->custom)
        return crd_builtin_columns(kind, ret_count);
    *ret_count = kind->column_count;
    return kind->columns;
}

bool kind_has_part(const struct kind *kind, struct str subresource)
{
    return (kind->status && str_is(subresource, "status")) ||
           (kind == &kind_csr && str_is(subresource, "approval")) ||
           (kind == &kind_pod && str_is(subresource, "ephemeralcontainers"));
}

struct str kind_api_version(const struct kind *kind, char out[static KIND_API_VERSION_BYTES])
{
    int len = kind->group[0]
                  ? snprintf(out, KIND_API_VERSION_BYTES, "%s/%s", kind->group, kind->version)
                  : snprintf(out, KIND_API_VERSION_BYTES, "%s", kind->version);

    return (struct str){out,
                        len < KIND_API_VERSION_BYTES ? (size_t)len : KIND_API_VERSION_BYTES - 1};
}

bool kind_is_known(struct str group, struct str plural)
{
    for (size_t i = 0; i < COUNT_OF(known); i++)
        if (str_is(plural, known[i]->plural) && str_is(group, known[i]->group))
            return true;
    return false;
}

struct kinds *kinds_new_cluster(void)
{
    struct kinds *kinds = MEM_NEW(struct kinds);

    for (size_t i = 0; i < COUNT_OF(known); i++)
        kinds_add(kinds, known[i]);
    return kinds;
}

struct kinds *kinds_new(void)
{
    struct kinds *kinds = kinds_new_cluster();

    for (size_t i = 0; i < COUNT_OF(embedded); i++)
        kinds_add(kinds, embedded[i]);
    return kinds;
}

void kinds_free(struct kinds *kinds)
{
    if (!kinds)
        return;
    VEC_DONE(&kinds->list);
    mem_free(kinds);
}

const struct kind *kinds_by_plural(const struct kinds *kinds,
                                   struct str group,
                                   struct str version,
                                   struct str plural)
{
    for (size_t i = 0; i < kinds->list.count; i++) {
        const struct kind *kind = kinds->list.items[i].kind;

        if (str_is(plural, kind->plural) && str_is(group, kind->group) &&
            str_is(version, kind->version))
            return kind;
    }
    return NULL;
}

const struct kind *kinds_by_name(const struct kinds *kinds, struct str api_version, struct str kind)
{
    for (size_t i = 0; i < kinds->list.count; i++) {
        char text[KIND_API_VERSION_BYTES];

        if (str_is(kind, kinds->list.items[i].kind->name) &&
            str_eq(api_version, kind_api_version(kinds->list.items[i].kind, text)))
            return kinds->list.items[i].kind;
    }
    return NULL;
}

void kinds_add(struct kinds *kinds, const struct kind *kind)
{
    for (size_t i = 0; i < kinds->list.count; i++) {
        const struct kind *old = kinds->list.items[i].kind;

        if (strcmp(old->group, kind->group) == 0 && strcmp(old->version, kind->version) == 0 &&
            strcmp(old->plural, kind->plural) == 0) {
            kinds->list.items[i].kind = kind;
            return;
        }
    }
    VEC_PUSH(NULL, &kinds->list, (struct kinds_item){.kind = kind});
}

size_t kinds_count(const struct kinds *kinds)
{
    return kinds->list.count;
}

const struct kind *kinds_at(const struct kinds *kinds, size_t index)
{
    return kinds->list.items[index].kind;
}

static size_t find(const struct kinds *kinds, const struct kind *kind)
{
    size_t i = 0;

    while (i < kinds->list.count && kinds->list.items[i].kind != kind)
        i++;
    return i;
}

void kinds_remove(struct kinds *kinds, const struct kind *kind)
{
    size_t at = find(kinds, kind);

    if (at == kinds->list.count)
        return;
    kinds->list.count--;
    memmove(&kinds->list.items[at], &kinds->list.items[at + 1],
            (kinds->list.count - at) * sizeof(kinds->list.items[0]));
}

const struct kind_crd *kinds_crd(const struct kinds *kinds, const struct kind *kind)
{
    size_t at = find(kinds, kind);

    return at < kinds->list.count ? kinds->list.items[at].crd : NULL;
}

/* Of the built-in kinds that have a number of replicas; their selector is spec.selector itself. */
static const struct kind *const scaled[] = {&kind_deployment, &kind_replicaset, &kind_statefulset,
                                            &kind_replicationcontroller};
static const struct kind_crd builtin_scale = {.scale_spec = ".spec.replicas",
                                              .scale_status = ".status.replicas"};

const struct kind_crd *kinds_scale(const struct kinds *kinds, const struct kind *kind)
{
    const struct kind_crd *crd = kinds_crd(kinds, kind);

    for (size_t i = 0; i < COUNT_OF(scaled); i++)
        if (scaled[i] == kind)
            return &builtin_scale;
    return crd && crd->scale_spec ? crd : NULL;
}

void kinds_set_crd(struct kinds *kinds, const struct kind *kind, const struct kind_crd *crd)
{
    size_t at = find(kinds, kind);

    if (at < kinds->list.count)
        kinds->list.items[at].crd = crd;
}
