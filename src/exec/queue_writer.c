#include "exec/queue_writer.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct queue_writer {
    struct queue_writer_options options;
    struct map under_way; /* struct patch by the name of its queue */
    bool stopped;         /* freed with the last answer */
};

struct patch {
    struct queue_writer *writer;
    bool left_out; /* another one wanted to be written meanwhile */
    size_t len;
    char name[];
};

struct queue_writer *queue_writer_new(const struct queue_writer_options *options)
{
    struct queue_writer *writer = MEM_NEW(struct queue_writer);

    writer->options = *options;
    writer->under_way.seed = options->seed;
    return writer;
}

static void free_if_idle(struct queue_writer *writer)
{
    if (!writer->stopped || writer->under_way.count)
        return;
    map_done(&writer->under_way);
    mem_free(writer);
}

void queue_writer_free(struct queue_writer *writer)
{
    if (!writer)
        return;
    writer->stopped = true;
    free_if_idle(writer);
}

static void on_written(void *user, const struct api_result *result)
{
    struct patch *patch = user;
    struct queue_writer *writer = patch->writer;
    bool left_out = patch->left_out;
    bool gone = result->err && result->err->http_status == 404;
    bool failed = result->code && !gone;

    map_remove(&writer->under_way, (struct str){patch->name, patch->len});
    mem_free(patch);
    if (!writer->stopped && (left_out || failed))
        writer->options.again(writer->options.user, failed);
    free_if_idle(writer);
}

void queue_writer_patch(struct queue_writer *writer, const struct object *queue, struct str body)
{
    struct patch *patch = map_get(&writer->under_way, queue->name);

    if (patch) {
        patch->left_out = true;
        return;
    }
    patch = mem_alloc(sizeof(*patch) + queue->name.len);
    *patch = (struct patch){.writer = writer, .len = queue->name.len};
    memcpy(patch->name, queue->name.p, queue->name.len);
    map_set(&writer->under_way, (struct str){patch->name, patch->len}, patch);
    api_call(writer->options.api,
             &(struct api_request){.verb = API_PATCH,
                                   .kind = &kind_queue,
                                   .name = queue->name,
                                   .subresource = STR("status"),
                                   .patch = API_PATCH_MERGE,
                                   .uid = queue->uid,
                                   .body = body},
             on_written, patch);
}
