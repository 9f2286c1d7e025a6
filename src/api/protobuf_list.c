#include "api/protobuf.h"
#include "base/err.h"
#include "base/str.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lists and watch events around the messages of single objects. */

#define LIST_META  1u
#define LIST_ITEMS 2u

static bool read_list_meta(struct str message, struct protobuf_list *list)
{
    struct protobuf_value value;
    bool bad = false;

    while (protobuf_next(&message, &value, &bad)) {
        if (value.number == 2)
            (void)str_to_u64(value.bytes, &list->revision);
        else if (value.number == 3)
            list->continue_token = value.bytes;
    }
    return !bad;
}

int protobuf_list_open(struct str bytes, struct protobuf_list *ret, struct err *err)
{
    struct protobuf_envelope envelope;
    struct protobuf_list list = {.continue_token = STR("")};
    struct protobuf_value value;
    bool bad = false;
    int r = protobuf_open(bytes, &envelope, err);

    if (r < 0)
        return r;
    if (!str_ends(envelope.kind, STR("List")))
        return err_set(err, -EINVAL, "protobuf body: expected a list, not a " STR_FMT,
                       STR_ARG(envelope.kind));
    list.rest = envelope.raw;
    /* All of it once, so that a list that is cut short is refused before its first item is used. */
    while (protobuf_next(&envelope.raw, &value, &bad))
        if (value.number == LIST_META && value.wire == WIRE_BYTES)
            bad = !read_list_meta(value.bytes, &list) || bad;
    if (bad)
        return err_set(err, -EINVAL, "protobuf body: cut short or broken list");
    *ret = list;
    return 0;
}

bool protobuf_list_next(struct protobuf_list *list, struct str *ret_item)
{
    struct protobuf_value value;
    bool bad = false;

    while (protobuf_next(&list->rest, &value, &bad))
        if (value.number == LIST_ITEMS && value.wire == WIRE_BYTES) {
            *ret_item = value.bytes;
            return true;
        }
    return false;
}

size_t protobuf_frame_size(const char head[static PROTOBUF_FRAME_HEAD])
{
    size_t size = 0;

    for (size_t i = 0; i < PROTOBUF_FRAME_HEAD; i++)
        size = size << 8 | (unsigned char)head[i];
    return size;
}

int protobuf_event_read(struct str message, struct protobuf_event *ret, struct err *err)
{
    struct protobuf_event event = {.type = STR("")};
    struct str object = STR("");
    struct str raw = STR("");
    struct protobuf_value value;
    bool bad = false;
    int r;

    while (protobuf_next(&message, &value, &bad)) {
        if (value.number == 1)
            event.type = value.bytes;
        else if (value.number == 2)
            object = value.bytes;
    }
    while (!bad && protobuf_next(&object, &value, &bad))
        if (value.number == 1)
            raw = value.bytes;
    if (bad)
        return err_set(err, -EINVAL, "event of the watch: cut short or broken");
    r = protobuf_open(raw, &event.object, err);
    if (r < 0)
        return err_wrap(err, r, "event of the watch");
    *ret = event;
    return 0;
}
