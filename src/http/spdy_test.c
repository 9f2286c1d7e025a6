#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "http/spdy.h"
#include "test.h"

#include <errno.h>
#include <stddef.h>

static void spdy_freep(struct spdy **spdy)
{
    spdy_free(*spdy);
}

/* SYN_STREAM of stream 1 with "streamtype: error", compressed with the dictionary of the standard
 * by another implementation of zlib. */
static const char syn_stream[] = {
    -128, 3,  0,   1,    0,   0,   0,   40,  0,   0,    0,  1,  0,   0,  0,  0,
    0,    0,  56,  -22,  -29, -58, -89, -62, 2,   -90,  35, 70, 112, 58, 43, 41,
    74,   77, -52, -123, 22,  37,  -84, -87, -96, -128, 6,  0,  0,   0,  -1, -1,
};

TEST(spdy_headers_are_inflated_with_the_standard_dictionary)
{
    _cleanup_(spdy_freep) struct spdy *spdy = spdy_new();
    _cleanup_(buf_done) struct buf in = {0};
    struct spdy_frame frame;

    for (size_t i = 0; i + 1 < sizeof(syn_stream); i++) {
        buf_addc(&in, syn_stream[i]);
        EXPECT(spdy_next(spdy, &in, &frame) == 0);
    }
    buf_addc(&in, syn_stream[sizeof(syn_stream) - 1]);
    EXPECT(spdy_next(spdy, &in, &frame) == 1);
    EXPECT(frame.type == SPDY_SYN_STREAM && frame.stream == 1);
    EXPECT(str_is(spdy_header(&frame, "streamtype"), "error"));
    EXPECT(!str_is_set(spdy_header(&frame, "port")));
}

TEST(spdy_data_and_pings_pass_both_ways)
{
    _cleanup_(spdy_freep) struct spdy *spdy = spdy_new();
    _cleanup_(buf_done) struct buf wire = {0};
    struct spdy_frame frame;

    spdy_write_data(&wire, 5, true, STR("hello"));
    spdy_write_ping(&wire, 7);
    spdy_write_goaway(&wire, 5);
    EXPECT(spdy_next(spdy, &wire, &frame) == 1 && frame.type == SPDY_DATA && frame.stream == 5 &&
           frame.fin && str_is(frame.data, "hello"));
    EXPECT(spdy_next(spdy, &wire, &frame) == 1 && frame.type == SPDY_PING && frame.ping == 7);
    EXPECT(spdy_next(spdy, &wire, &frame) == 1 && frame.type == SPDY_GOAWAY);
    EXPECT(spdy_next(spdy, &wire, &frame) == 0);
}

TEST(spdy_refuses_garbage)
{
    static const struct {
        const char *why;
        struct str bytes;
    } rows[] = {
        {"another version", {"\x80\x02\0\x06\0\0\0\x04\0\0\0\x01", 12}},
        {"frame beyond the limit", {"\0\0\0\x01\0\xff\xff\xff", 8}},
        {"stream without its ids", {"\x80\x03\0\x01\0\0\0\x02\0\0", 10}},
        {"headers that are not compressed",
         {"\x80\x03\0\x01\0\0\0\x0e\0\0\0\x01\0\0\0\0\0\0junk", 22}},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(spdy_freep) struct spdy *spdy = spdy_new();
        _cleanup_(buf_done) struct buf in = {0};
        struct spdy_frame frame;

        test_case(rows[i].why);
        buf_add(&in, rows[i].bytes);
        EXPECT(spdy_next(spdy, &in, &frame) == -EPROTO);
    }
}
