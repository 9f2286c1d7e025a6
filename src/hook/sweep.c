#include "hook/sweep.h"

#include "api/api.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "hook/carry.h"

#include <stddef.h>

struct run {
    struct sweep sweep;
    struct arena arena;
    struct api_request request;
    struct api_user user;
    VEC(struct object *) items;
    size_t at;
    struct err err;
    struct str reason;
    api_done_fn *done;
    void *done_user;
};

static void run_next(struct run *run);

static void run_end(struct run *run)
{
    run->done(run->done_user, &(struct api_result){.code = run->err.code,
                                                   .err = run->err.code ? &run->err : NULL,
                                                   .reason = run->reason});
    arena_done(&run->arena);
    mem_free(run);
}

static void on_deleted(void *user, const struct api_result *result)
{
    struct run *run = user;

    if (result->code < 0 && !run->err.code && result->err && result->err->http_status != 404) {
        run->err = *result->err;
        run->reason = str_dup(&run->arena, result->reason);
    }
    run_next(run);
}

static void run_next(struct run *run)
{
    if (run->at == run->items.count) {
        run_end(run);
        return;
    }
    const struct object *object = run->items.items[run->at++];
    struct api_request request = run->request;
    request.verb = API_DELETE;
    request.ns = object->ns;
    request.name = object->name;
    request.label_selector = request.field_selector = STR("");
    run->sweep.delete(run->sweep.deleter, &request, on_deleted, run);
}

static void on_listed(void *user, const struct api_result *result)
{
    struct run *run = user;

    if (result->code < 0 && result->err) {
        run->err = *result->err;
        run->reason = str_dup(&run->arena, result->reason);
    }
    for (size_t i = 0; i < result->item_count; i++) {
        struct object *object = object_ref(result->items[i]);

        arena_defer(&run->arena, object_release, object);
        VEC_PUSH(&run->arena, &run->items, object);
    }
    run_next(run);
}

void sweep(const struct sweep *sweep,
           const struct api_request *request,
           api_done_fn *done,
           void *user)
{
    struct run *run = MEM_NEW(struct run);

    run->sweep = *sweep;
    run->done = done ? done : api_ignore;
    run->done_user = user;
    carry_request(&run->arena, request, &run->request, &run->user);
    api_call(sweep->list,
             &(struct api_request){.verb = API_LIST,
                                   .kind = request->kind,
                                   .ns = request->ns,
                                   .label_selector = request->label_selector,
                                   .field_selector = request->field_selector},
             on_listed, run);
}
