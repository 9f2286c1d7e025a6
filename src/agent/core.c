#include "agent/core.h"

#include "agent/node.h"
#include "agent/trash.h"
#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "net/hosts.h"
#include "tool/clock.h"
#include "tool/timer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <uv.h>

/* core: what every part of the agent may call; it calls none of them. */

int64_t agent_now_ms(void)
{
    return clock_now_ms();
}

int64_t agent_namespace_ms(const struct agent *agent, struct str name)
{
    const struct object *ns = cache_get(agent->cache, &kind_namespace, STR(""), name);
    return ns ? ns->created_ms : 0;
}

bool agent_is_since(const char *path, int64_t since_ms)
{
    struct stat st;
    return stat(path, &st) == 0 && (int64_t)st.st_mtim.tv_sec >= since_ms / 1000;
}

int agent_node(const struct agent *agent, struct str name)
{
    for (uint32_t i = 0; i < agent->options.node_count; i++)
        if (str_is(name, agent->nodes[i].name))
            return (int)i;
    return -1;
}

bool agent_node_departed(const struct agent *agent, struct str name)
{
    for (size_t i = 0; i < agent->departed.count; i++)
        if (str_eq(name, agent->departed.items[i]))
            return true;
    return false;
}

void agent_turn_soon(struct agent *agent)
{
    if (!agent->stopping)
        timer_in(agent->turn, 0, agent->on_turn);
}

/* ---- calls: the agent's memory outlives every call under way ---- */

struct call {
    struct agent *agent;
    api_done_fn *done;
    void *user;
};

static void call_done(void *user, const struct api_result *result)
{
    struct call *call = user;
    struct agent *agent = call->agent;
    call->done(call->user, result);
    mem_free(call);
    agent->calls_open--;
    agent_maybe_free(agent);
}

void agent_call(struct agent *agent,
                const struct api_request *request,
                api_done_fn *done,
                void *user)
{
    struct call *call = MEM_NEW(struct call);
    *call = (struct call){agent, done, user};
    agent->calls_open++;
    api_call(agent->api, request, call_done, call);
}

static void run_work(uv_work_t *work)
{
    struct agent_work *own = work->data;
    own->run(own);
}

static void work_done(uv_work_t *work, int status)
{
    (void)status;
    struct agent_work *own = work->data;
    struct agent *agent = own->agent;
    if (own->done)
        own->done(own);
    mem_free(own);
    agent->calls_open--;
    agent_maybe_free(agent);
}

void agent_work(struct agent *agent, struct agent_work *work)
{
    work->work.data = work;
    work->agent = agent;
    work->trash = &agent->trash;
    if (uv_queue_work(agent->loop, &work->work, run_work, work_done) < 0) {
        if (work->done)
            work->done(work);
        mem_free(work);
    } else {
        agent->calls_open++;
    }
}

static void empty_trash(struct agent_work *work)
{
    (void)trash_empty(work->trash);
}

void agent_empty_trash(struct agent *agent)
{
    struct agent_work *work = MEM_NEW(struct agent_work);
    work->run = empty_trash;
    agent_work(agent, work);
}

void agent_discard(struct agent *agent, const char *path)
{
    trash_put(&agent->trash, path);
    agent_empty_trash(agent);
}

/* ---- the end ---- */

void agent_maybe_free(struct agent *agent)
{
    if (!agent->stopping || agent->handles_open || agent->calls_open || agent->pods_open ||
        agent->streams_open)
        return;
    cache_free(agent->cache);
    hosts_free(agent->hosts);
    map_done(&agent->pods);
    map_done(&agent->by_key);
    arena_done(&agent->arena);
    mem_free(agent);
}
