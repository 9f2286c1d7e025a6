#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "test.h"
#include "workspace/frame.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct seen {
    size_t count;
    struct frame last;
    char path[64];
    uint64_t blob_bytes;
};

static int see(void *user, const struct frame *frame, struct err *err)
{
    struct seen *seen = user;

    (void)err;
    seen->count++;
    seen->last = *frame;
    if (frame->type == FRAME_ENTRY) {
        memcpy(seen->path, frame->entry.path.p, frame->entry.path.len);
        seen->path[frame->entry.path.len] = '\0';
    }
    if (frame->type == FRAME_BLOB)
        seen->blob_bytes += frame->blob.bytes.len;
    return 0;
}

static void add_some(struct buf *out)
{
    struct ws_entry entry = {
        .type = WS_LINK, .path = STR("a/b"), .target = STR("../c"), .size = 7, .hash = {1, 2}};

    frame_add_begin(out, &(struct frame_begin){.target = {3, 4}, .base = {5, 6}, .full = true});
    frame_add_blob(out, &(struct frame_blob){.hash = {7, 8}, .size = 5, .bytes = STR("hello")});
    frame_add_gone(out, STR("old"));
    frame_add_content(out, (struct hash){9, 10}, 11);
    frame_add_number(out, FRAME_STOP, 12);
    frame_add_empty(out, FRAME_COMMIT);
    frame_add_entry(out, &entry);
}

TEST(frames_survive_any_cut_of_the_stream)
{
    _cleanup_(buf_done) struct buf whole = {0};

    add_some(&whole);
    for (size_t step = 1; step <= whole.len; step++) {
        _cleanup_(buf_done) struct buf in = {0};
        struct seen seen = {0};

        for (size_t at = 0; at < whole.len; at += step) {
            buf_add(&in, str_sub(buf_str(&whole), at, step));
            EXPECT(frame_read(&in, see, &seen, NULL) == 0);
        }
        EXPECT(seen.count == 7 && in.len == 0);
        EXPECT(seen.last.type == FRAME_ENTRY && seen.last.entry.type == WS_LINK);
        EXPECT(seen.last.entry.size == 7 && strcmp(seen.path, "a/b") == 0);
    }
}

TEST(frame_that_begins_says_from_what_to_what_and_whether_all_comes)
{
    for (int full = 0; full < 2; full++) {
        _cleanup_(buf_done) struct buf out = {0};
        struct frame_begin begin = {.target = {3, 4}, .base = {5, 6}, .full = full};
        struct seen seen = {0};

        frame_add_begin(&out, &begin);
        EXPECT(frame_read_all(buf_str(&out), see, &seen, NULL) == 0);
        EXPECT(seen.count == 1 && seen.last.type == FRAME_BEGIN);
        EXPECT(hash_eq(seen.last.begin.target, begin.target));
        EXPECT(hash_eq(seen.last.begin.base, begin.base));
        EXPECT(seen.last.begin.full == begin.full);
    }
}

TEST(frames_that_end_early_are_an_error_when_complete)
{
    _cleanup_(buf_done) struct buf whole = {0};
    struct seen seen = {0};

    add_some(&whole);
    EXPECT(frame_read_all(buf_str(&whole), see, &seen, NULL) == 0);
    EXPECT(frame_read_all(str_sub(buf_str(&whole), 0, whole.len - 1), see, &seen, NULL) == -EPROTO);
}

TEST(frames_of_unknown_type_or_size_are_refused)
{
    static const struct {
        const char *why;
        struct str bytes;
    } cases[] = {
        {"unknown type", STR("?\0\0\0\0")},
        {"larger than any frame", STR("B\x7f\xff\xff\xff")},
        {"a blob without its head", STR("B\0\0\0\x01x")},
        {"an entry without its head", STR("E\0\0\0\x02xx")},
        {"a device node", STR("E\0\0\0\x1e"
                              "c\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01x")},
        {"a path longer than the frame",
         STR("E\0\0\0\x1d"
             "f\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xff\xff")},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct err err = {0};
        struct seen seen = {0};

        test_case(cases[i].why);
        EXPECT(frame_read_all(cases[i].bytes, see, &seen, &err) == -EPROTO);
        EXPECT(seen.count == 0 && err.text[0]);
    }
}

TEST(packed_frames_unpack_to_the_same_and_cannot_be_bombs)
{
    _cleanup_(buf_done) struct buf plain = {0};
    _cleanup_(buf_done) struct buf packed = {0};
    _cleanup_(buf_done) struct buf nested = {0};
    static const char zeroes[100000];
    struct seen seen = {0};
    struct err err = {0};

    frame_add_blob(&plain,
                   &(struct frame_blob){.size = sizeof(zeroes), .bytes = {zeroes, sizeof(zeroes)}});
    EXPECT(frame_pack(&packed, buf_str(&plain)));
    EXPECT(packed.len < plain.len / 10);
    EXPECT(frame_read(&(struct buf){.p = packed.p, .len = packed.len, .capacity = packed.capacity},
                      see, &seen, NULL) == 0);
    EXPECT(seen.blob_bytes == sizeof(zeroes));

    EXPECT(!frame_pack(&nested, STR("random!")));
    EXPECT(nested.len == 0);
    /* Claim more than may be unpacked. */
    packed.p[5] = (char)0x7f;
    EXPECT(frame_read(&packed, see, &seen, &err) == -EPROTO);
}

TEST(packed_frames_do_not_nest)
{
    _cleanup_(buf_done) struct buf plain = {0};
    _cleanup_(buf_done) struct buf once = {0};
    _cleanup_(buf_done) struct buf twice = {0};
    struct seen seen = {0};

    for (int i = 0; i < 200; i++)
        frame_add_gone(&plain, STR("the same path over and over"));
    EXPECT(frame_pack(&once, buf_str(&plain)));
    /* Packed bytes hardly pack again; many copies of them do. */
    struct buf copies = {0};
    for (int i = 0; i < 50; i++)
        buf_add(&copies, buf_str(&once));
    EXPECT(frame_pack(&twice, buf_str(&copies)));
    buf_done(&copies);
    EXPECT(frame_read(&twice, see, &seen, NULL) == -EPROTO);
    EXPECT(seen.count == 0);
}
