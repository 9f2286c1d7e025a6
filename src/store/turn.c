#include "store/turn.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "store/batch.h"
#include "store/collect.h"
#include "store/db.h"
#include "store/expire.h"
#include "store/history.h"
#include "store/host.h"
#include "store/reply.h"
#include "store/reserve.h"
#include "store/shelf.h"
#include "store/space.h"
#include "store/state.h"
#include "store/sums.h"
#include "store/watch.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <uv.h>

/* The turn: what the store does once in every round of the loop, and the writer thread.
 *
 * Batches are strictly one behind the other: at most one is with the writer, and the next one fills
 * meanwhile, so the slower the disk, the larger the batches. A batch that failed takes the open one
 * with it, because that was checked against a state that will never be. */

/* The file forgets its log in steps, not with every commit. */
#define COMPACT_STEP       1000
#define COMPACT_STEP_BYTES ((size_t)8 << 20)

static int batch_commit(struct store *store,
                        const struct batch *batch,
                        uint64_t compact,
                        struct err *err)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct db_write *writes = ARENA_ARRAY(&arena, struct db_write, batch->changes.count);

    for (size_t i = 0; i < batch->changes.count; i++) {
        const struct change *change = &batch->changes.items[i];
        const struct kind *kind = change->object->kind;

        writes[i] = (struct db_write){.group = str_from(kind->group),
                                      .plural = str_from(kind->plural),
                                      .ns = change->object->ns,
                                      .name = change->object->name,
                                      .revision = change->revision,
                                      .event = (int)change->event,
                                      .value = change->object->raw};
        if (change->previous) {
            writes[i].previous_revision = change->previous->revision;
            writes[i].previous_value = change->previous->raw;
        }
    }
    return db_commit(store->db,
                     &(struct db_commit){.writes = writes,
                                         .count = batch->changes.count,
                                         .at_ms = store_now(store),
                                         .compact = compact},
                     err);
}

static void writer_main(void *user)
{
    struct store *store = user;

    uv_mutex_lock(&store->mutex);
    for (;;) {
        while (!store->handed && !store->quit)
            uv_cond_wait(&store->cond, &store->mutex);
        if (!store->handed)
            break;
        struct batch *batch = TAKE_PTR(store->handed);
        uint64_t compact = store->handed_compact;
        uv_mutex_unlock(&store->mutex);

        struct err err = {0};
        int r = batch_commit(store, batch, compact, &err);

        uv_mutex_lock(&store->mutex);
        store->finished = batch;
        store->finished_code = r;
        store->finished_err = err;
        uv_cond_broadcast(&store->cond);
        (void)uv_async_send(&store->committed);
        uv_mutex_unlock(&store->mutex);

        db_rest(store->db);
        uv_mutex_lock(&store->mutex);
    }
    uv_mutex_unlock(&store->mutex);
}

int turn_start(struct store *store, struct err *err)
{
    if (!store->db)
        return 0;
    int r = uv_thread_create(&store->writer, writer_main, store);
    if (r < 0)
        return err_set(err, r, "cannot start the store's writer thread: %s", uv_strerror(r));
    store->writer_running = true;
    return 0;
}

void turn_stop(struct store *store)
{
    if (!store->writer_running)
        return;
    uv_mutex_lock(&store->mutex);
    store->quit = true;
    uv_cond_broadcast(&store->cond);
    uv_mutex_unlock(&store->mutex);
    (void)uv_thread_join(&store->writer);
    store->writer_running = false;
}

static void hand_over(struct store *store)
{
    if (!store->open || store->writing)
        return;
    store->writing = TAKE_PTR(store->open);
    if (!store->db) {
        store->finished = store->writing;
        return;
    }
    uint64_t compact = 0;
    if (store->history.compacted >= store->compact_due + COMPACT_STEP ||
        store->history.dropped >= COMPACT_STEP_BYTES) {
        compact = store->compact_due = store->history.compacted;
        store->history.dropped = 0;
    }
    uv_mutex_lock(&store->mutex);
    store->handed = store->writing;
    store->handed_compact = compact;
    uv_cond_broadcast(&store->cond);
    uv_mutex_unlock(&store->mutex);
}

static void replies_append(struct replies *to, struct replies *from)
{
    if (!from->first)
        return;
    if (to->last)
        to->last->next = from->first;
    else
        to->first = from->first;
    to->last = from->last;
    *from = (struct replies){0};
}

static void batch_apply(struct store *store, struct batch *batch)
{
    int64_t now_ms = store_now(store);

    object_trees_clear(&store->trees);
    for (size_t i = 0; i < batch->changes.count; i++) {
        const struct change *change = &batch->changes.items[i];
        struct entry *entry = change->entry;
        struct shelf *shelf = entry->shelf;
        const struct object *previous = shelf_commit(store, change);

        store->revision = change->revision;
        history_add(store, &(struct history_item){.revision = change->revision,
                                                  .at_ms = now_ms,
                                                  .event = change->event,
                                                  .shelf = shelf,
                                                  .object = change->object,
                                                  .previous = previous});
        object_trees_add(&store->trees, change->object);
        object_trees_add(&store->trees, previous);
        collect_committed(store, change, previous);
        object_unref(previous);
        shelf_tidy(entry);
    }
    history_compact(store);
    store->watches_due = true;
    replies_append(&store->ready, &batch->replies);
}

/* Nothing of this batch happened: take it back out of the staged state and say so. */
static void batch_undo(struct store *store, struct batch *batch)
{
    if (!batch)
        return;
    sums_forget(store);
    space_forget(store);
    for (size_t i = batch->changes.count; i-- > 0;) {
        struct entry *entry = batch->changes.items[i].entry;

        if (entry->staged_revision != batch->changes.items[i].revision)
            continue;
        /* Entries stay, empty: the other batch may name them too. */
        object_unref(entry->staged);
        entry->staged = NULL;
        entry->staged_revision = 0;
    }
    for (struct reply *reply = batch->replies.first; reply; reply = reply->next) {
        reply->result = (struct api_result){0};
        (void)reply_fail(reply, 503, "ServiceUnavailable", "%s", store->read_only);
    }
    replies_append(&store->ready, &batch->replies);
}

static void tell_trouble(const struct store *store)
{
    if (store->trouble)
        store->trouble(store->trouble_user, store->read_only[0] ? store->read_only : NULL);
}

void turn_read_only(struct store *store, int code, const struct err *err)
{
    bool was_full = store->full;

    store->full = code == -ENOSPC;
    (void)snprintf(store->read_only, sizeof(store->read_only),
                   store->full ? "%s; the store is read-only, but for deletes, until there is "
                                 "space: free some, then try again"
                               : "%s; the store is read-only: repair the disk, then restart",
                   err->text);
    if (store->full)
        reserve_give_up(&store->reserve);
    if (!was_full || !store->full)
        tell_trouble(store);
}

/* A write went through. What garbage collection could not do meanwhile is looked at again. */
static void become_writable(struct store *store)
{
    if (!store->full || !reserve_has_room(&store->reserve))
        return;
    store->full = false;
    store->read_only[0] = '\0';
    reserve_take(&store->reserve);
    collect_all(store);
    tell_trouble(store);
}

static void batch_finish(struct store *store)
{
    struct batch *batch = NULL;
    struct err err = {0};
    int code = 0;

    if (!store->writing)
        return;
    uv_mutex_lock(&store->mutex);
    batch = TAKE_PTR(store->finished);
    code = store->finished_code;
    err = store->finished_err;
    uv_mutex_unlock(&store->mutex);
    if (!batch)
        return;
    store->writing = NULL;
    if (code == 0) {
        batch_apply(store, batch);
        become_writable(store);
    } else {
        turn_read_only(store, code, &err);
        struct batch *open = TAKE_PTR(store->open);
        batch_undo(store, open);
        batch_free(open);
        batch_undo(store, batch);
        store->staged_revision = store->revision;
    }
    batch_free(batch);
}

/* Replies that arrive while these are called wait for the next turn. */
static void call_ready(struct store *store)
{
    struct replies ready = TAKE(store->ready, (struct replies){0});

    while (ready.first) {
        struct reply *reply = ready.first;

        ready.first = reply->next;
        if (reply->done)
            reply->done(reply->user, &reply->result);
        reply_free(reply);
    }
}

void turn_run(struct store *store)
{
    batch_finish(store);
    hand_over(store); /* the disk works while the answers to the last batch are written */
    call_ready(store);
    if (store->watches_due)
        watches_tell(store);
    /* On a full disk too: what goes with what was deleted is what makes room. */
    bool more = (!store->read_only[0] || store->full) && collect_run(store);
    more = (!store->read_only[0] && expire_run(store)) || more;
    hand_over(store);
    if (more || store->ready.first || store->watches_due || (!store->db && store->writing))
        return;
    (void)uv_idle_stop(&store->idle);
}
