#include "store/read.h"

#include "api/api.h"
#include "api/field.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "store/fill.h"
#include "store/past.h"
#include "store/reply.h"
#include "store/scale.h"
#include "store/shelf.h"
#include "store/state.h"
#include "store/version.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads answer from the committed state. */

static int no_such_kind(struct reply *reply, const struct kind *kind)
{
    return reply_fail(reply, 404, "NotFound",
                      "the server could not find the requested resource (%s)", kind->plural);
}

void read_get(struct store *store, struct reply *reply, const struct api_request *request)
{
    const struct shelf *shelf = shelf_of(store, request->kind);

    if (!shelf) {
        (void)no_such_kind(reply, request->kind);
    } else if (str_is(request->subresource, "scale")) {
        (void)scale_get(store, reply, request);
    } else if (request->subresource.len && !request->connect &&
               !kind_has_part(request->kind, request->subresource)) {
        /* Rights are asked for by this name: it must not show an object that has no such part. */
        (void)reply_fail(reply, 404, "NotFound", "%s has no subresource " STR_FMT,
                         request->kind->plural, STR_ARG(request->subresource));
    } else {
        struct str ns = request->kind->namespaced ? request->ns : STR("");
        const struct entry *entry = shelf_find(shelf, ns, request->name);

        if (entry && entry->committed) {
            const struct kind *kind = shelf->webhook ? entry->committed->kind : request->kind;
            const struct object *filled =
                fill_defaults(kinds_crd(store->api.kinds, kind), entry->committed);

            reply_object_as(reply, shelf, filled, request->kind);
            object_unref(filled);
        } else {
            (void)reply_not_found(reply, request->kind, request->name);
        }
    }
    reply_queue(store, reply);
}

/* Where a list goes on: "revision:namespace/name", the name being the last one given. */
struct place {
    uint64_t revision;
    struct str ns;
    struct str name;
};

static bool place_parse(struct str token, struct place *ret)
{
    struct str revision;
    struct str ns;

    if (!str_cut(&token, ':', &revision) || !str_to_u64(revision, &ret->revision) ||
        !str_cut(&token, '/', &ns) || !token.len)
        return false;
    ret->ns = ns;
    ret->name = token;
    return true;
}

/* One list under way. */
struct listing {
    const struct shelf *shelf;
    const struct kinds *kinds;
    const struct kind *kind;
    const struct kind_crd *crd; /* NULL: it has none */
    struct selector labels;
    struct selector fields;
    struct str ns;
    uint64_t limit;
    VEC(const struct object *) items;
};

static bool object_is_listed(const struct listing *listing, const struct object *object)
{
    return object && selector_matches(&listing->labels, object->labels, object->label_count) &&
           selector_matches_fields(&listing->fields, object);
}

/* Drops the references of a list's items in one go. */
struct held {
    const struct object *const *items;
    size_t count;
};

static void release_items(void *user)
{
    const struct held *held = user;

    for (size_t i = 0; i < held->count; i++)
        object_unref(held->items[i]);
}

static void listing_finish(struct reply *reply, struct listing *listing)
{
    struct held *held = ARENA_NEW(&reply->arena, struct held);

    for (size_t i = 0; i < listing->items.count; i++) {
        const struct object *item = listing->items.items[i];
        const struct object *filled = fill_defaults(
            listing->shelf->webhook ? kinds_crd(listing->kinds, item->kind) : listing->crd, item);

        listing->items.items[i] = convert_object(listing->shelf, filled, listing->kind);
        object_unref(filled);
    }
    *held = (struct held){.items = listing->items.items, .count = listing->items.count};
    arena_defer(&reply->arena, release_items, held);
    reply->result.items = listing->items.items;
    reply->result.item_count = listing->items.count;
}

static void listing_collect(struct reply *reply, struct past *past, struct listing *listing)
{
    const struct object *object = NULL;
    struct str ns = STR_NONE;

    while (past_next(past, &ns, &object)) {
        if (listing->ns.len && !str_eq(ns, listing->ns))
            break;
        if (!object_is_listed(listing, object))
            continue;
        if (listing->limit && listing->items.count == listing->limit) {
            const struct object *last = listing->items.items[listing->items.count - 1];

            if (!reply->result.continue_token.p)
                reply->result.continue_token =
                    str_printf(&reply->arena, "%llu:" STR_FMT "/" STR_FMT,
                               (unsigned long long)reply->result.revision, STR_ARG(last->ns),
                               STR_ARG(last->name));
            reply->result.remaining_count++;
            continue;
        }
        VEC_PUSH(&reply->arena, &listing->items, object);
    }
    listing_finish(reply, listing);
}

/* By what objects are in one version and may not be in another. */
static bool selects_beyond_names(const struct selector *selector)
{
    for (size_t i = 0; i < selector->term_count; i++)
        if (!str_is(selector->terms[i].key, "metadata.name") &&
            !str_is(selector->terms[i].key, "metadata.namespace"))
            return true;
    return false;
}

int read_items(struct store *store, struct reply *reply, const struct api_request *request)
{
    const struct shelf *shelf = shelf_of(store, request->kind);
    struct listing listing = {.shelf = shelf,
                              .kinds = store->api.kinds,
                              .kind = request->kind,
                              .crd = kinds_crd(store->api.kinds, request->kind),
                              .limit = request->limit};
    struct place place = {.revision = store->revision};

    if (!shelf)
        return no_such_kind(reply, request->kind);
    if (selector_parse_labels(&reply->arena, str_dup(&reply->arena, request->label_selector),
                              &listing.labels, &reply->err) < 0 ||
        field_selector_parse(&reply->arena, request->kind, listing.crd,
                             str_dup(&reply->arena, request->field_selector), &listing.fields,
                             &reply->err) < 0) {
        struct err why = reply->err;

        return reply_fail(reply, 400, "BadRequest", "%s", why.text);
    }
    if (shelf->webhook && selects_beyond_names(&listing.fields))
        return reply_fail(reply, 400, "BadRequest",
                          "%s are converted by a webhook: what their fields are is not known "
                          "here; select them by labels",
                          request->kind->plural);
    if (request->continue_token.len && !place_parse(request->continue_token, &place))
        return reply_fail(reply, 400, "BadRequest",
                          "continue key is not valid: start the list again");
    if (request->kind->namespaced)
        listing.ns = request->ns;
    struct past past;
    uint64_t revision = request->exact_revision ? request->exact_revision : place.revision;
    reply->result.revision = revision > store->revision ? store->revision : revision;
    if (!past_open(&past, store, shelf, &reply->arena, reply->result.revision))
        return reply_fail(reply, 410, "Expired",
                          request->continue_token.len
                              ? "The provided continue parameter is too old to display a "
                                "consistent list result. You can start a new list without the "
                                "continue parameter."
                              : "The resourceVersion for the provided list is too old.");
    past_seek(&past, place.name.len ? place.ns : listing.ns, place.name, place.name.len > 0);
    listing_collect(reply, &past, &listing);
    return 0;
}

void read_list(struct store *store, struct reply *reply, const struct api_request *request)
{
    (void)read_items(store, reply, request);
    reply_queue(store, reply);
}
