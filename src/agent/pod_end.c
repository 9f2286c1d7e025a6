#include "agent/pod_end.h"

#include "agent/core.h"
#include "agent/gpu_health.h"
#include "agent/lifecycle.h"
#include "agent/logs.h"
#include "agent/pod.h"
#include "agent/probe.h"
#include "agent/ranks.h"
#include "agent/stream.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "shim/message.h"
#include "tool/files.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* pod_end: how containers ended, from what the shim says and from the files it left. */
#define MESSAGE_BYTES  4096 /* of a termination message, as in Kubernetes */
#define FALLBACK_LINES 80   /* of the log, for FallbackToLogsOnError */

static struct str tail_lines(struct str text, size_t lines)
{
    size_t seen = 0;
    for (size_t i = text.len; i > 0; i--)
        if (text.p[i - 1] == '\n' && i != text.len && ++seen == lines)
            return str_sub(text, i, text.len);
    return text;
}

/* What the container wrote to its termination log, or the end of its output where it asked for
 * that. */
static struct str end_message(struct pod *pod, const struct run_container *c, int code)
{
    char path[PATH_MAX];
    _cleanup_(buf_done) struct buf text = {0};
    (void)snprintf(path, sizeof(path), "%s/c/" STR_FMT "/%u.message", pod->folder, STR_ARG(c->name),
                   c->instance);
    if (files_read(path, MESSAGE_BYTES, &text) && text.len)
        return str_dup(&pod->arena, buf_str(&text));
    size_t index = (size_t)(c - pod->run.containers);
    struct str policy =
        json_str(json_get(pod_container_spec(pod, index), "terminationMessagePolicy"));
    if (code == 0 || !str_is(policy, "FallbackToLogsOnError"))
        return STR("");
    _cleanup_(buf_done) struct buf log = {0};
    logs_tail(pod, c, MESSAGE_BYTES, &log);
    struct str tail = tail_lines(buf_str(&log), FALLBACK_LINES);
    if (str_ends(tail, STR("\n"))) /* whether it wrote the last one is not in the log */
        tail = str_sub(tail, 0, tail.len - 1);
    return str_dup(&pod->arena, tail);
}

void pod_take_end(struct pod *pod,
                  const struct run_container *c,
                  const struct shim_exit *said,
                  struct run_end *ret)
{
    struct run_end end = {.set = true,
                          .code = said->code,
                          .signal = said->signal,
                          /* it may have waited before it was the container (agent/standby.h) */
                          .started_ms =
                              c->started_ms > said->started_ms && c->started_ms <= said->ended_ms
                                  ? c->started_ms
                                  : said->started_ms,
                          .ended_ms = said->ended_ms,
                          .oom = said->oom,
                          .never_started = said->never_started,
                          .lost = said->lost};
    end.message = end.never_started || end.lost ? str_dup(&pod->arena, str_from(said->words))
                                                : end_message(pod, c, end.code);
    *ret = end;
}

/* Read <n>.exit; false when it is not there. */
bool pod_read_exit(struct pod *pod, const struct run_container *c, struct run_end *ret)
{
    char path[PATH_MAX];
    _cleanup_(buf_done) struct buf text = {0};
    (void)snprintf(path, sizeof(path), "%s/c/" STR_FMT "/%u.exit", pod->folder, STR_ARG(c->name),
                   c->instance);
    struct shim_exit said;
    if (!files_read(path, MESSAGE_BYTES, &text) || !text.len)
        return false;
    buf_addc(&text, '\0');
    if (!shim_exit_parse(text.p, &said))
        return false;
    pod_take_end(pod, c, &said, ret);
    return true;
}

void pod_container_ended(struct pod *pod, struct run_container *c, const struct run_end *end)
{
    c->end = *end;
    c->state = RUN_ENDED;
    if (end->never_started)
        pod_event(pod, true, "Failed", end->message);
    gpu_health_tested(pod, end);
    ranks_end(pod, (size_t)(c - pod->run.containers));
    probe_end(pod, (size_t)(c - pod->run.containers));
    streams_container_ended(pod, c);
    pod_mark(pod);
}

void pod_container_lost(struct pod *pod, struct run_container *c)
{
    struct run_end end;
    if (!pod_read_exit(pod, c, &end))
        end = (struct run_end){.set = true,
                               .code = 137,
                               .lost = true,
                               .started_ms = c->started_ms,
                               .ended_ms = agent_now_ms(),
                               .message = STR("the container was gone when the node agent looked "
                                              "for it: the machine or its shim was restarted")};
    pod_container_ended(pod, c, &end);
}

void pod_lost(struct pod *pod)
{
    for (size_t i = 0; i < pod->run.count; i++) {
        struct run_container *c = &pod->run.containers[i];
        if (c->state == RUN_STARTING || c->state == RUN_RUNNING)
            pod_container_lost(pod, c);
    }
    pod_mark(pod);
}
