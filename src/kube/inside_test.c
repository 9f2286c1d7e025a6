#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "kube/inside.h"
#include "test.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

TEST(frames_of_a_server_are_read_whole_or_not_at_all)
{
    static const struct {
        const char *why;
        struct str bytes;
        int code;
        size_t data;
    } rows[] = {
        {"nothing yet", {"", 0}, 0, 0},
        {"half a head", {"\x82", 1}, 0, 0},
        {"half of its data", {"\x82\x03\x01z", 4}, 0, 0},
        {"one, and more behind it", {"\x82\x03\x01zy\x82", 6}, 1, 3},
        {"a longer one that has not come", {"\x82\x7e\x01", 3}, 0, 0},
        {"a server does not mask", {"\x82\x83zzzz123", 9}, -EPROTO, 0},
        {"no fragments", {"\x02\x01z", 3}, -EPROTO, 0},
        {"too large", {"\x82\x7f\x00\x00\x01\x00\x00\x00\x00\x00", 10}, -EPROTO, 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct inside_frame frame = {0};

        test_case(rows[i].why);
        EXPECT(inside_frame_next(rows[i].bytes, &frame) == rows[i].code);
        EXPECT(frame.data.len == rows[i].data);
    }
}

TEST(frames_of_a_client_are_masked_and_have_their_length_in_the_shortest_form)
{
    static const unsigned char mask[4] = {1, 2, 3, 4};
    _cleanup_(buf_done) struct buf out = {0};
    char large[70000];

    inside_frame_add(&out, 2, mask, STR("abcde"));
    EXPECT(out.len == 11 && memcmp(out.p,
                                   "\x82\x85\x01\x02\x03\x04"
                                   "``````",
                                   7) == 0);
    EXPECT(out.p[10] == ('e' ^ 1));
    memset(large, 0, sizeof(large));
    buf_clear(&out);
    inside_frame_add(&out, 2, mask, (struct str){large, 200});
    EXPECT(out.len == 208 && memcmp(out.p, "\x82\xfe\x00\xc8", 4) == 0);
    buf_clear(&out);
    inside_frame_add(&out, 2, mask, (struct str){large, sizeof(large)});
    EXPECT(out.len == sizeof(large) + 14 &&
           memcmp(out.p, "\x82\xff\0\0\0\0\0\x01\x11\x70", 10) == 0);
}

TEST(the_last_words_of_a_command_are_its_exit_status)
{
    static const struct {
        const char *text;
        int status;
    } rows[] = {
        {"{\"status\":\"Success\"}", 0},
        {"{\"status\":\"Failure\",\"reason\":\"NonZeroExitCode\",\"details\":{\"causes\":"
         "[{\"reason\":\"ExitCode\",\"message\":\"7\"}]}}",
         7},
        {"{\"status\":\"Failure\",\"message\":\"no such file\"}", -EIO},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct err err = {0};

        EXPECT(inside_status(&arena, str_from(rows[i].text), &err) == rows[i].status);
    }
}
