#pragma once

#include "api/service.h"

#include <stdbool.h>
#include <stdint.h>

struct api;
struct arena;
struct err;
struct json;
struct object;
struct store;
struct uv_loop_s;

/* store: the embedded backend of struct api: Kubernetes' objects in one SQLite file.
 *
 * All committed objects are in memory; the file makes them last. Writes are checked at once against
 * the staged state, collected, and committed together: one transaction and one fsync for all writes
 * that arrived while the last one was under way. Then they become the committed state, their
 * `done`s are called, and watchers are notified. Reads and watches see committed state only.
 *
 * A commit that fails fails every write that is under way, and the store becomes read-only: reads
 * and watches work, writes answer 503 with the reason. After an I/O error that lasts until the
 * process is started again, since nobody knows what is on the disk. When the disk is full, it lasts
 * until there is room; meanwhile a reserve (store/reserve.h) takes deletes, writes to objects that
 * are being deleted, and how pods ended. What was acknowledged before is in the file.
 *
 * Below this interface also live the loops that keep the objects consistent: owner-reference
 * garbage collection, namespace deletion, and CustomResourceDefinitions becoming kinds. */
struct store_options {
    struct uv_loop_s *loop;
    const char *path; /* the SQLite file, made when missing; NULL: in memory only */
    /* Start although writes that were acknowledged are not there any more (store/mark.h). */
    bool accept_loss;
    /* Of uids, generated names and hashes. 0: from the system's random source. */
    uint64_t seed;
    /* Milliseconds since 1970; NULL: the system's clock. For virtual time. */
    int64_t (*now_ms)(void *user);
    void *now_user;
    /* How long events stay after they were last told; 0: for ever. */
    int64_t event_ttl_ms;
    /* Told when the store becomes read-only, and (NULL) when it is no more. NULL: nobody. */
    void (*trouble)(void *user, const char *why);
    void *trouble_user;
};

/* -EUCLEAN: acknowledged writes are lost; -EBUSY: another process has the file open; -EPROTO: the file is of a newer version; -EIO and
 * others: what SQLite said. Nothing is changed in those cases. */
int store_open(const struct store_options *options, struct store **ret, struct err *err);

/* Lives as long as the store. */
struct api *store_api(struct store *store);

/* Where Services get their addresses from; until then api/service.h's loopback network. */
void store_set_services(struct store *store, struct service_network network);

/* Of the API server, which pods of others than the owner do not listen on; empty: it has all. Lives as
 * long as the store. */
void store_set_api_address(struct store *store, struct str address);

/* Has a say in every pod that is created, before it is validated: `pod` is as it would be stored,
 * with its uid, and what is added lives in `arena`. Called while the write is staged: it reads what
 * it knows and calls nothing of the store. NULL: nobody. */
typedef void store_admit_fn(void *user, struct json *pod, struct arena *arena);
void store_set_admit_pod(struct store *store, store_admit_fn *admit, void *user);

/* Pods that are created from now on get the token of their ServiceAccount as a volume
 * (api/account_volume.h): there is a node that can fill it. */
void store_set_pod_tokens(struct store *store);
/* Where the files of time zones come from (api/zone.h), for the rules of all stores. */
void store_set_zones(bool (*read)(struct arena *arena, struct str name, struct str *ret_bytes));

/* Hears of every pod as soon as its creation is staged: what it asks the store for then is in the
 * same commit. NULL: nobody. */
typedef void store_made_fn(void *user, const struct object *pod);
void store_set_made_pod(struct store *store, store_made_fn *made, void *user);

struct store_stats {
    uint64_t objects;
    uint64_t revision;
};
void store_stats(const struct store *store, struct store_stats *ret);

/* NULL, or why writes are refused. */
const char *store_read_only(const struct store *store);

/* Nothing is staged, no answer or event is due: running the loop would do nothing. */
bool store_is_idle(const struct store *store);

/* Commits what is staged, drops watches, and frees everything; replies that are still due are
 * called from here. The loop must still run once (uv_run) for the handles to close. NULL is fine.
 */
void store_close(struct store *store);
