#include "agent/stream.h"

#include "agent/core.h"
#include "agent/lifecycle.h"
#include "agent/pod.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/share.h"
#include "base/str.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- places ---- */

static const struct {
    size_t max;
    const char *before;
    const char *behind; /* their number */
} sorts[STREAM_SORT_COUNT] = {
#define X(sort, max, before, behind) [STREAM_##sort] = {max, before, behind},
    STREAM_SORTS(X)
#undef X
};

/* The one that gives way for one of `ns`; NULL: none does. */
static struct podio_stream *loser_of(struct podio_stream *newest, size_t count, const char *ns)
{
    struct share_item *items = mem_alloc(count * sizeof(*items));
    struct podio_stream *found = newest;
    size_t at = count;

    for (struct podio_stream *stream = newest; stream && at; stream = stream->older)
        items[--at] = (struct share_item){stream->ns, stream->stalled_ms};
    size_t loser = share_loser(items, count, ns, agent_now_ms());
    for (size_t i = count - 1; loser < count && i > loser; i--)
        found = found->older;
    mem_free(items);
    return loser < count ? found : NULL;
}

bool stream_enter(struct podio_stream *stream,
                  enum stream_sort sort,
                  struct str ns,
                  struct err *err)
{
    struct agent *agent = stream->agent;
    struct stream_places *places = &agent->places[sort];
    char words[128], name[sizeof(stream->ns)];

    (void)snprintf(words, sizeof(words), "%s%s%zu %s", sorts[sort].before,
                   sorts[sort].before[0] ? " " : "", sorts[sort].max, sorts[sort].behind);
    (void)snprintf(name, sizeof(name), STR_FMT, STR_ARG(ns));
    if (places->count >= sorts[sort].max) {
        struct podio_stream *loser = loser_of(places->newest, places->count, name);
        struct err why = {0};

        if (!loser) {
            (void)err_set(err, -EBUSY, "%s; try again soon", words);
            err->http_status = 429;
            return false;
        }
        (void)err_set(&why, -EBUSY,
                      "%s, and this one made room for another's namespace; try again soon", words);
        why.http_status = 429;
        stream_leave(loser);
        loser->ops->give_way(loser, &why);
    }
    (void)snprintf(stream->ns, sizeof(stream->ns), "%s", name);
    stream->sort = sort;
    stream->older = places->newest;
    places->newest = stream;
    places->count++;
    return true;
}

void stream_leave(struct podio_stream *stream)
{
    struct stream_places *places = &stream->agent->places[stream->sort];

    if (!stream->ns[0])
        return;
    for (struct podio_stream **at = &places->newest; *at; at = &(*at)->older)
        if (*at == stream) {
            *at = stream->older;
            break;
        }
    stream->ns[0] = '\0';
    places->count--;
}

/* ---- pods ---- */

void stream_link(struct podio_stream *stream, struct pod *pod)
{
    stream->pod = pod;
    stream->next = pod->streams;
    pod->streams = stream;
}

void stream_unlink(struct podio_stream *stream)
{
    if (!stream->pod)
        return;
    for (struct podio_stream **at = &stream->pod->streams; *at; at = &(*at)->next)
        if (*at == stream) {
            *at = stream->next;
            break;
        }
    stream->pod = NULL;
}

void streams_container_ended(struct pod *pod, const struct run_container *container)
{
    for (struct podio_stream *stream = pod->streams; stream; stream = stream->next)
        if (stream->ops->container_ended)
            stream->ops->container_ended(stream, container);
}

void streams_message(struct pod *pod, const char *text, int fd)
{
    for (struct podio_stream *stream = pod->streams; stream; stream = stream->next)
        if (stream->ops->message && stream->ops->message(stream, text, fd))
            return;
}

void streams_end_pod(struct pod *pod)
{
    while (pod->streams) {
        struct podio_stream *stream = pod->streams;
        stream_unlink(stream);
        if (stream->ops->container_ended)
            stream->ops->container_ended(stream, NULL);
    }
}
