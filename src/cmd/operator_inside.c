#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "cmd/connect.h"
#include "cmd/operator.h"
#include "exec/suspender.h"
#include "kube/inside.h"
#include "kube/kubeconfig.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

/* Commands in containers (exec/suspender.h). Each has a thread of its own, since the client waits
 * (kube/inside.h); the suspender bounds how many there are at a time. */

#define OUTPUT_BYTES_MAX 4096
#define LIMIT_MS         270000 /* more than the command itself takes before it ends itself */

struct operator_inside {
    struct suspender_inside calls;
    struct operator* op;
    struct kube_config config;
    struct inside_command *commands; /* under way */
};

/* Words are copied: whoever asked may be gone. */
struct inside_command {
    struct operator_inside *owner;
    struct inside_command *next;
    struct inside_request request;
    struct arena arena;
    suspender_ended_fn *ended;
    void *ended_user;
    uv_thread_t thread;
    uv_async_t over;
    uv_timer_t limit;
    volatile sig_atomic_t stop;
    int handles; /* open */
    int result;
    struct err err;
    struct buf output;
    struct buf errors;
};

/* ---- in the thread ---- */

static bool on_output(void *user, int fd, struct str bytes)
{
    struct inside_command *command = user;
    struct buf *to = fd == 1 ? &command->output : &command->errors;

    if (to->len < OUTPUT_BYTES_MAX)
        buf_add(to, str_sub(bytes, 0, OUTPUT_BYTES_MAX - to->len));
    return true;
}

static void command_work(void *user)
{
    struct inside_command *command = user;
    uv_loop_t loop;

    if (uv_loop_init(&loop) < 0) {
        command->result = err_set(&command->err, -ENOMEM, "no loop for a connection");
    } else {
        command->result =
            inside_run(&loop, &command->owner->config, &command->request, &command->err);
        (void)uv_run(&loop, UV_RUN_DEFAULT);
        (void)uv_loop_close(&loop);
    }
    (void)uv_async_send(&command->over);
}

/* ---- in the loop ---- */

static void command_free(struct inside_command *command)
{
    struct inside_command **at = &command->owner->commands;

    while (*at != command)
        at = &(*at)->next;
    *at = command->next;
    buf_done(&command->output);
    buf_done(&command->errors);
    arena_done(&command->arena);
    mem_free(command);
}

static void on_closed(uv_handle_t *handle)
{
    struct inside_command *command = handle->data;
    bool unknown = command->result < 0;

    if (--command->handles)
        return;
    command->ended(command->ended_user, unknown ? command->result : 0,
                   unknown ? 0 : command->result, buf_str(&command->output),
                   unknown ? str_from(command->err.text) : buf_str(&command->errors));
    command_free(command);
}

static void on_over(uv_async_t *async)
{
    struct inside_command *command = async->data;

    (void)uv_thread_join(&command->thread);
    uv_close((uv_handle_t *)&command->over, on_closed);
    uv_close((uv_handle_t *)&command->limit, on_closed);
}

static void on_limit(uv_timer_t *timer)
{
    struct inside_command *command = timer->data;

    command->stop = 1;
}

static const char *const *words_copy(struct arena *arena, const struct suspender_command *from)
{
    const char **words = ARENA_ARRAY(arena, const char *, from->count + 1);

    for (size_t i = 0; i < from->count; i++)
        words[i] = str_c(arena, str_from(from->words[i]));
    return words;
}

static void inside_start(void *user,
                         const struct suspender_command *from,
                         suspender_ended_fn *ended,
                         void *ended_user)
{
    struct operator_inside *inside = user;
    struct inside_command *command = MEM_NEW(struct inside_command);
    struct arena *arena = &command->arena;

    command->owner = inside;
    command->ended = ended;
    command->ended_user = ended_user;
    command->request = (struct inside_request){.ns = str_c(arena, from->ns),
                                               .pod = str_c(arena, from->pod),
                                               .container = str_c(arena, from->container),
                                               .command = words_copy(arena, from),
                                               .command_count = from->count,
                                               .input_fd = -1,
                                               .output = on_output,
                                               .user = command,
                                               .stop = &command->stop};
    command->next = inside->commands;
    inside->commands = command;
    command->handles = 2;
    command->over.data = command->limit.data = command;
    (void)uv_async_init(&inside->op->loop, &command->over, on_over);
    (void)uv_timer_init(&inside->op->loop, &command->limit);
    (void)uv_timer_start(&command->limit, on_limit, LIMIT_MS, 0);
    if (uv_thread_create(&command->thread, command_work, command) == 0)
        return;
    command->result = err_set(&command->err, -EAGAIN, "no thread can be started for a connection");
    uv_close((uv_handle_t *)&command->over, on_closed);
    uv_close((uv_handle_t *)&command->limit, on_closed);
}

const struct suspender_inside *operator_inside_calls(const struct operator* op)
{
    return op->inside ? &op->inside->calls : NULL;
}

int operator_inside_start(struct operator* op,
                          const struct connect_options *connect,
                          struct err *err)
{
    struct operator_inside *inside = MEM_NEW(struct operator_inside);
    int r = connect_config(op->arena, connect, &inside->config, err);

    if (r < 0) {
        mem_free(inside);
        return r;
    }
    inside->op = op;
    inside->calls = (struct suspender_inside){.run = inside_start, .user = inside};
    op->inside = inside;
    return 0;
}

void operator_inside_stop(struct operator* op)
{
    for (struct inside_command *command = op->inside ? op->inside->commands : NULL; command;
         command = command->next)
        command->stop = 1;
}

void operator_inside_free(struct operator* op)
{
    mem_free(op->inside);
    op->inside = NULL;
}
