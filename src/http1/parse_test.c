#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "http1/parse.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>

TEST(http_head_is_read_whole_or_refused_with_a_status)
{
    static const struct {
        const char *why;
        const char *text;
        int status; /* 0: accepted, -1: more is needed */
    } rows[] = {
        {"plain", "GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n", 0},
        {"half", "GET / HTTP/1.1\r\nHost: x\r\n", -1},
        {"nothing yet", "GE", -1},
        {"HTTP/1.0 needs no Host", "GET / HTTP/1.0\r\n\r\n", 0},
        {"no Host", "GET / HTTP/1.1\r\n\r\n", 400},
        {"two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
        {"version of tomorrow", "GET / HTTP/3.0\r\nHost: x\r\n\r\n", 505},
        {"not HTTP at all", "\x16\x03\x01\x02 hello\r\n\r\n", 400},
        {"bare line feed", "GET / HTTP/1.1\nHost: x\n\n", 400},
        {"blank before the colon", "GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400},
        {"folded header", "GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n", 400},
        {"two lengths",
         "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
        {"negative length", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400},
        {"length and chunks",
         "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
         400},
        {"unknown coding", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
        {"target without slash", "GET example.com HTTP/1.1\r\nHost: x\r\n\r\n", 400},
        {"raw byte in the target", "GET /\xc3\xa4 HTTP/1.1\r\nHost: x\r\n\r\n", 400},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct http_head head;
        struct err err = {0};
        ssize_t r = http_head_parse(str_from(rows[i].text), &head, &err);

        test_case(rows[i].why);
        if (rows[i].status > 0)
            EXPECT(r < 0 && err.http_status == rows[i].status);
        else
            EXPECT(r == (rows[i].status < 0 ? 0 : (ssize_t)strlen(rows[i].text)));
    }
}

TEST(http_head_too_large_is_refused)
{
    _cleanup_(buf_done) struct buf text = {0};
    struct http_head head;
    struct err err = {0};

    buf_add(&text, STR("GET / HTTP/1.1\r\nHost: x\r\n"));
    for (int i = 0; i < 60; i++) {
        buf_addf(&text, "X-%d: ", i);
        for (int j = 0; j < 1000; j++)
            buf_addc(&text, 'a');
        buf_add(&text, STR("\r\n"));
    }
    buf_add(&text, STR("\r\n"));
    EXPECT(http_head_parse(buf_str(&text), &head, &err) < 0 && err.http_status == 431);
}

TEST(http_chunks_are_joined_whatever_their_cut)
{
    static const char wire[] = "4;x=y\r\nWiki\r\n6\r\npedia \r\n0\r\nTrailer: a\r\n\r\nnext";

    for (size_t cut = 1; cut < sizeof(wire) - 1; cut++) {
        _cleanup_(buf_done) struct buf out = {0};
        struct http_chunked chunked = {0};
        struct str rest = {wire, sizeof(wire) - 1};
        bool done = false;

        while (!done && rest.len) {
            ssize_t used = http_chunked_read(&chunked, str_sub(rest, 0, cut), &out, &done);
            EXPECT(used >= 0);
            if (used < 0)
                break;
            rest = str_sub(rest, (size_t)used, rest.len);
        }
        EXPECT(done && str_is(buf_str(&out), "Wikipedia ") && str_is(rest, "next"));
    }
}

TEST(http_broken_chunks_are_refused)
{
    static const char *const rows[] = {"\r\n", "g\r\n",  "1\r\nab\r\n",
                                       "1\nb", "-1\r\n", "ffffffffffffffffff\r\n"};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(buf_done) struct buf out = {0};
        struct http_chunked chunked = {0};
        bool done = false;

        test_case(rows[i]);
        EXPECT(http_chunked_read(&chunked, str_from(rows[i]), &out, &done) == -EBADMSG);
    }
}

TEST(http_query_values_are_decoded)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str query = STR("a=1&labelSelector=app+in+%28x%2Cy%29&watch=True&b=%00&c=%zz&a=2");
    struct str all[3];

    EXPECT(str_is(http_query(&arena, query, "a"), "1"));
    EXPECT(str_is(http_query(&arena, query, "labelSelector"), "app in (x,y)"));
    EXPECT(!str_is_set(http_query(&arena, query, "b")));
    EXPECT(!str_is_set(http_query(&arena, query, "c")));
    EXPECT(!str_is_set(http_query(&arena, query, "d")));
    EXPECT(http_query_bool(query, "watch") && !http_query_bool(query, "d"));
    EXPECT(http_query_all(&arena, query, "a", all, 3) == 2 && str_is(all[1], "2"));
}
