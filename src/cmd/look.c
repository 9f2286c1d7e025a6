#include "cmd/look.h"

#include "api/api.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "cmd/connect.h"
#include "kube/kube.h"
#include "tool/term.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>
#include <uv.h>

const char *const look_tables[] = {"table", "json", NULL};

struct question {
    struct look *look;
    struct look_list *list;
    const struct json *one;
    struct str continue_token;
    int code;
    struct err err;
    bool answered;
};

int look_open(struct look *look,
              struct arena *arena,
              const struct look_values *values,
              struct err *err)
{
    *look = (struct look){.arena = arena};
    if (uv_loop_init(&look->loop) < 0)
        return err_set(err, -ENOMEM, "cannot create an event loop");
    int r = connect_kube(
        arena, &look->loop,
        &(struct connect_options){.kubeconfig = values->kubeconfig, .context = values->context},
        &look->kube, err);
    if (r < 0) {
        (void)uv_loop_close(&look->loop);
        return r;
    }
    look->api = kube_api(look->kube);
    return 0;
}

void look_close(struct look *look)
{
    kube_close(look->kube);
    (void)uv_run(&look->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&look->loop);
}

void look_print(const struct look_values *values,
                const struct table *table,
                const struct json *json)
{
    _cleanup_(buf_done) struct buf out = {0};

    if (values->output == LOOK_JSON) {
        json_write_pretty(&out, json);
        buf_addc(&out, '\n');
    } else if (table) {
        struct table fitting = *table;

        fitting.wraps_at = term_open(STDOUT_FILENO, NULL).wraps_at;
        table_write(&out, &fitting, true);
    }
    (void)fwrite(out.p, 1, out.len, stdout);
}

static const struct json *keep(struct look *look, const struct object *object)
{
    arena_defer(look->arena, object_release, object_ref(object));
    return object_json(object, look->arena);
}

static void on_answer(void *user, const struct api_result *result)
{
    struct question *question = user;

    question->answered = true;
    question->code = result->code;
    if (result->err)
        question->err = *result->err;
    if (result->code)
        return;
    if (!question->list) {
        question->one = result->object ? keep(question->look, result->object) : NULL;
        return;
    }
    for (size_t i = 0; i < result->item_count; i++)
        VEC_PUSH(question->look->arena, question->list, keep(question->look, result->items[i]));
    question->continue_token = str_dup(question->look->arena, result->continue_token);
}

static int ask(struct look *look,
               const struct api_request *request,
               struct question *question,
               struct err *err)
{
    question->look = look;
    question->answered = false;
    api_call(look->api, request, on_answer, question);
    while (!question->answered)
        (void)uv_run(&look->loop, UV_RUN_ONCE);
    if (question->code && err)
        *err = question->err;
    return question->code;
}

int look_call(struct look *look,
              const struct api_request *request,
              const struct json **ret,
              struct err *err)
{
    struct question question = {0};
    int r = ask(look, request, &question, err);

    if (r == 0 && ret)
        *ret = question.one;
    return r;
}

int look_all(struct look *look,
             const struct kind *kind,
             struct str ns,
             struct look_list *ret,
             struct err *err)
{
    struct question question = {.list = ret};
    int r;

    do {
        r = ask(look,
                &(struct api_request){.verb = API_LIST,
                                      .kind = kind,
                                      .ns = ns,
                                      .limit = KUBE_PAGE,
                                      .continue_token = question.continue_token},
                &question, err);
    } while (r == 0 && question.continue_token.len);
    return r;
}
