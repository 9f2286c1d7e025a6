#pragma once

struct api;
struct converter;
struct hook_asker;
struct uv_loop_s;

/* convert: CRDs whose versions a webhook converts (spec.conversion.strategy Webhook).
 *
 * converter_api() is the store's struct api, which gives such objects as they are stored, with one
 * difference: they come in the version that was asked for. For other kinds a call goes straight
 * through.
 *
 *   get, list, watch   what is stored in another version is converted; fields are selected by then
 *   create, update,    1. the object that is there is converted
 *   patch              2. the write is made until it would be stored     -> converted
 *                      3. the write is made, and stored as what that was
 *                      and what it became is converted for the answer
 *   delete             needs no version: it goes also when no webhook answers
 *   delete collection  by fields: what the list gives, one by one (hook/sweep.h)
 *
 * If another object is there in step 3 than in step 1 all begins anew, a few times, and then the
 * writer hears of a conflict. A write in the version that is stored needs one call, as all do. */
#define CONVERT_TRIES_MAX \
    8 /* 10, 20, 40 ... ms apart: what is being written has to be on the disk */

struct converter *converter_new(struct uv_loop_s *loop,
                                struct api *below,
                                const struct hook_asker *asker);
struct api *converter_api(struct converter *converter);
/* Before the store is closed: what waits for a webhook is refused. NULL is fine. */
void converter_stop(struct converter *converter);
/* When the store has given its last answers. NULL is fine. */
void converter_free(struct converter *converter);
