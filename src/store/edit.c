#include "store/edit.h"

#include "api/api.h"
#include "api/object.h"
#include "base/json.h"
#include "base/str.h"
#include "store/delete.h"
#include "store/reply.h"
#include "store/shelf.h"
#include "store/state.h"
#include "store/write.h"

#include <stddef.h>

/* Ordinary writes made by the store itself; nobody waits for them. */

static struct api_request request_for(const struct entry *entry, enum api_verb verb)
{
    const struct shelf *shelf = entry->shelf;
    const struct object *object = entry_latest(entry);

    /* What a webhook would have to convert stays in the version that it has. */
    return (struct api_request){.verb = verb,
                                .kind = shelf->webhook && object ? object->kind : shelf->kind,
                                .ns = entry->ns,
                                .name = entry->name};
}

void collect_delete(struct store *store, const struct entry *entry, struct str propagation)
{
    struct reply *reply = reply_new(store, NULL, NULL);
    struct api_request request = request_for(entry, API_DELETE);
    struct write write;

    if (write_open(&write, store, reply, &request) == 0 &&
        delete_object(
            &write, &(struct delete_options){.grace_seconds = -1, .propagation = propagation}) < 0)
        store->collect_refused = true;
    reply_queue(store, reply);
}

static void edit_as(struct store *store,
                    const struct entry *entry,
                    struct str subresource,
                    void (*edit)(struct json *root, const void *what),
                    const void *what)
{
    struct reply *reply = reply_new(store, NULL, NULL);
    struct api_request request = request_for(entry, API_UPDATE);
    struct write write;

    request.subresource = subresource;
    if (write_open(&write, store, reply, &request) == 0 && write.old) {
        struct json *root = write_tree(&write);

        edit(root, what);
        (void)write_replace(&write, root);
    }
    reply_queue(store, reply);
}

void collect_edit(struct store *store,
                  const struct entry *entry,
                  void (*edit)(struct json *root, const void *what),
                  const void *what)
{
    edit_as(store, entry, STR(""), edit, what);
}

void collect_edit_status(struct store *store,
                         const struct entry *entry,
                         void (*edit)(struct json *root, const void *what),
                         const void *what)
{
    edit_as(store, entry, STR("status"), edit, what);
}
