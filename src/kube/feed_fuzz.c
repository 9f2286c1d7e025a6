#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "fuzz/fuzz.h"
#include "kube/feed.h"

#include <stdbool.h>
#include <stddef.h>

/* What an API server may send: a page of a list, or the stream of a watch, in either form. Whatever
 * the bytes are, they are objects that can be read again or a refusal in words; and a stream cut
 * into pieces has the events of the whole. */

static bool take(void *user, const struct object *object)
{
    _cleanup_(arena_done) struct arena arena = {0};

    (void)user;
    FUZZ_HOLDS(object->name.len > 0);
    FUZZ_HOLDS(json_is(object_json(object, &arena), JSON_OBJECT));
    return true;
}

static void check_page(const struct kind *kind, struct str input)
{
    struct feed_page page = {0};
    struct err err = {0};

    FUZZ_HOLDS(feed_page_read(kind, input, &page, take, NULL, &err) == 0 || err.text[0] != '\0');
    buf_done(&page.continue_token);
}

static size_t count_events(const struct kind *kind, struct str input, size_t step, int *ret_end)
{
    struct feed_stream stream = {0};
    size_t count = 0;
    int r = 0;

    for (size_t at = 0; at < input.len && r >= 0; at += step) {
        struct str piece = str_sub(input, at, step);
        struct str message;
        struct err err = {0};

        while (r >= 0 && (r = feed_stream_next(&stream, &piece, &message, &err)) > 0) {
            struct feed_event event;

            r = feed_event_read(kind, false, message, &event, &err);
            count++;
            if (event.object)
                (void)take(NULL, event.object);
            object_unref(event.object);
        }
        FUZZ_HOLDS(r >= 0 || err.text[0] != '\0');
    }
    feed_stream_done(&stream);
    *ret_end = r;
    return count;
}

FUZZ(feed)
{
    const struct kind *const kinds[] = {&kind_pod, &kind_node, &kind_configmap};

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        int whole_end = 0;
        int pieces_end = 0;

        check_page(kinds[i], input);
        size_t whole = count_events(kinds[i], input, input.len + 1, &whole_end);
        size_t pieces = count_events(kinds[i], input, 3, &pieces_end);
        FUZZ_HOLDS(whole == pieces && whole_end == pieces_end);
    }
}
