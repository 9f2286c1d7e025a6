#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/control.h"
#include "exec/event.h"
#include "exec/executor.h"
#include "exec/runner_internal.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What the API server does not take. The controller reads it the next time it looks at its key, and
 * the object that the key names gets an event, once, whoever the controller is. */

#define ADVICE \
    "; it is tried again: change what refuses it, or what this asks for" /* of a create */

/* The words of another action's refusal, which asking again will not change; NULL: it was none. */
static const char *refusal_of(const struct executor_result *result)
{
    int status = result->err ? result->err->http_status : 0;

    if (status == 400 || status == 403 || status == 422 || (!status && result->code == -EINVAL))
        return result->err ? result->err->text : NULL;
    return NULL;
}

static void keep(struct str *to, struct str words)
{
    mem_free((void *)(uintptr_t)to->p);
    *to = words.len ? (struct str){memcpy(mem_alloc(words.len), words.p, words.len), words.len}
                    : STR_NONE;
}

/* Without the name of what was refused, which differs from one try to the next. */
static struct str but_name(struct str words)
{
    size_t begin = str_find(words, '"');
    struct str tail = str_sub(words, begin + 1, SIZE_MAX);
    size_t end = str_find(tail, '"');

    return begin < words.len && end < tail.len ? str_sub(tail, end, SIZE_MAX) : words;
}

static void tell(struct work *work, struct str words, struct arena *arena)
{
    struct runner *runner = work->unit->runner;
    const struct controller *controller = work->unit->controller;
    struct str ns = {work->text, work->ns_len};
    struct str name = str_sub((struct str){work->text, work->text_len}, work->ns_len + 1, SIZE_MAX);
    const struct object *subject =
        controller->kind ? cache_get(runner->cache, controller->kind, ns, name) : NULL;

    if (!subject || str_eq(but_name(work->told), but_name(words)))
        return;
    keep(&work->told, words);
    event_send(runner->api,
               &(struct event){
                   .kind = subject->kind,
                   .ns = subject->ns,
                   .name = subject->name,
                   .uid = subject->uid,
                   .reason = str_from(controller->refused ? controller->refused : "FailedCreate"),
                   .message = str_printf(arena, "Error creating: " STR_FMT, STR_ARG(words)),
                   .warning = true,
                   .component = "muster",
                   .now_ms = runner_clock(runner)});
}

void runner_hear_refusal(struct work *work, const struct executor_result *result)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const char *other = result->code ? refusal_of(result) : NULL;
    struct str words = other ? str_from(other) : STR_NONE;

    if (result->refused.len)
        words = str_printf(&arena, STR_FMT ADVICE, STR_ARG(result->refused));
    /* In the same words, so that what is written down of it does not change with each try. */
    if (!words.len || !str_eq(but_name(work->refusal), but_name(words)))
        keep(&work->refusal, words);
    if (result->refused.len)
        tell(work, words, &arena);
    else if (!result->code)
        keep(&work->told, STR_NONE);
}
