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
#include "base/yaml.h"
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

#define WATCH_PAUSE_MS 500

const char *const look_tables[] = {"table", "json", "yaml", NULL};

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
    int r = connect_kube(arena, &look->loop,
                         &(struct connect_options){.kubeconfig = values->kubeconfig,
                                                   .context = values->context,
                                                   .near = true},
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

static void look_write(struct buf *out, const struct look_values *values, struct look_found *found)
{
    bool rows = found->table.cells.count > found->table.column_count;

    if (values->output == LOOK_YAML) {
        yaml_write(out, found->list);
    } else if (values->output == LOOK_JSON) {
        json_write_pretty(out, found->list);
        buf_addc(out, '\n');
    } else if (!rows && found->nothing) {
        buf_addf(out, "%s\n", found->nothing);
    } else {
        found->table.wraps_at = term_open(STDOUT_FILENO, NULL).wraps_at;
        table_write(out, &found->table, true);
    }
}

/* Collects and prints once; *shown is what was printed last. */
static int look_turn(struct look *look,
                     const struct look_values *values,
                     look_collect *collect,
                     void *user,
                     uint64_t *shown,
                     struct err *err)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf out = {0};
    struct look_found found = {0};
    struct arena *outer = look->arena;

    look->arena = &arena;
    int r = collect(look, user, &found, err);
    look->arena = outer;
    if (r < 0)
        return r;
    look_write(&out, values, &found);
    uint64_t seen = str_hash(buf_str(&out), 0);
    if (seen != *shown) {
        if (values->watch)
            buf_addc(&out, '\n');
        (void)fwrite(out.p, 1, out.len, stdout);
        (void)fflush(stdout);
    }
    *shown = seen;
    return 0;
}

int look_show(struct look *look,
              const struct look_values *values,
              look_collect *collect,
              void *user,
              struct err *err)
{
    uint64_t shown = 0;

    if (values->watch && values->output != LOOK_TEXT)
        return err_set(err, -EINVAL, "--watch prints tables; leave --output out");
    int r = look_turn(look, values, collect, user, &shown, err);
    while (r == 0 && values->watch) {
        uv_sleep(WATCH_PAUSE_MS);
        r = look_turn(look, values, collect, user, &shown, err);
    }
    return r;
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

static int look_list(struct look *look,
                     const struct api_request *request,
                     struct look_list *ret,
                     struct err *err)
{
    struct question question = {.list = ret};
    struct api_request page = *request;
    int r;

    page.verb = API_LIST;
    page.limit = KUBE_PAGE;
    do {
        page.continue_token = question.continue_token;
        r = ask(look, &page, &question, err);
    } while (r == 0 && question.continue_token.len);
    return r;
}

int look_all(struct look *look,
             const struct kind *kind,
             struct str ns,
             struct look_list *ret,
             struct err *err)
{
    return look_list(look, &(struct api_request){.kind = kind, .ns = ns}, ret, err);
}

int look_selected(struct look *look,
                  const struct kind *kind,
                  const char *selector,
                  struct look_list *ret,
                  struct err *err)
{
    return look_list(
        look,
        &(struct api_request){.kind = kind, .label_selector = str_from(selector ? selector : "")},
        ret, err);
}
