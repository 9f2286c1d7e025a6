#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "http/websocket.h"
#include "test.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

TEST(websocket_accept_key_is_that_of_the_standard)
{
    char out[WEBSOCKET_ACCEPT_BYTES];

    websocket_accept_key(STR("dGhlIHNhbXBsZSBub25jZQ=="), out);
    EXPECT(strcmp(out, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") == 0);
}

/* A client's frame: masked with 01 02 03 04. */
static void add_frame(struct buf *out, unsigned first, struct str data)
{
    buf_addc(out, (char)first);
    if (data.len < 126) {
        buf_addc(out, (char)(0x80 | data.len));
    } else {
        buf_addc(out, (char)(0x80 | 126));
        buf_addc(out, (char)(data.len >> 8));
        buf_addc(out, (char)(data.len & 0xff));
    }
    buf_add(out, STR("\1\2\3\4"));
    for (size_t i = 0; i < data.len; i++)
        buf_addc(out, (char)(data.p[i] ^ (char)(i % 4 + 1)));
}

TEST(websocket_messages_arrive_whole_however_they_are_cut)
{
    _cleanup_(buf_done) struct buf wire = {0};
    _cleanup_(buf_done) struct buf text = {0};

    for (int i = 0; i < 300; i++)
        buf_addc(&text, (char)('a' + i % 26));
    add_frame(&wire, 0x02, STR("ab")); /* a fragment, */
    add_frame(&wire, 0x89, STR("hi")); /* a ping between, */
    add_frame(&wire, 0x80, STR("cd")); /* the rest */
    add_frame(&wire, 0x82, buf_str(&text));
    for (size_t step = 1; step < wire.len; step++) {
        _cleanup_(websocket_done) struct websocket ws = {0};
        _cleanup_(buf_done) struct buf in = {0};
        struct websocket_message message;
        int seen = 0;

        for (size_t at = 0; at < wire.len; at += step) {
            buf_add(&in, str_sub(buf_str(&wire), at, step));
            while (websocket_next(&ws, &in, &message) > 0) {
                EXPECT(seen != 0 || message.opcode == WEBSOCKET_PING);
                EXPECT(seen != 1 || str_is(message.data, "abcd"));
                EXPECT(seen != 2 || str_eq(message.data, buf_str(&text)));
                seen++;
            }
        }
        EXPECT(seen == 3);
    }
}

TEST(websocket_refuses_what_the_standard_forbids)
{
    static const struct {
        const char *why;
        struct str bytes;
    } rows[] = {
        {"unmasked", {"\x82\x01x", 3}},
        {"reserved bit", {"\xc2\x81\1\2\3\4x", 7}},
        {"continuation of nothing", {"\x80\x81\1\2\3\4x", 7}},
        {"fragmented ping", {"\x09\x81\1\2\3\4x", 7}},
        {"64-bit length beyond the limit",
         {"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\1\2\3\4", 14}},
        {"unknown opcode", {"\x83\x80\1\2\3\4", 6}},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(websocket_done) struct websocket ws = {0};
        _cleanup_(buf_done) struct buf in = {0};
        struct websocket_message message;

        test_case(rows[i].why);
        buf_add(&in, rows[i].bytes);
        EXPECT(websocket_next(&ws, &in, &message) == -EPROTO);
    }
}
