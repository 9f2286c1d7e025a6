#include "agent/stream.h"

#include "agent/lifecycle.h"
#include "agent/pod.h"

#include <stddef.h>

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
