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
        {"a byte in the target that cannot be seen", "GET /\x7f HTTP/1.1\r\nHost: x\r\n\r\n", 400},
        {"an empty first line", "\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", 400},
        {"an empty line without its CR", "GET / HTTP/1.1\r\n\nHost: x\r\n\r\n", 400},
        {"a method alone", "GET\r\n\r\n", 400},
        {"no target", "GET  HTTP/1.1\r\nHost: x\r\n\r\n", 400},
        {"no version", "GET /\r\n\r\n", 400},
        {"another protocol", "GET / FTP/1.1\r\nHost: x\r\n\r\n", 400},
        {"a method that is no token", "G(T / HTTP/1.1\r\nHost: x\r\n\r\n", 400},
        {"every kind of byte of a token", "Ab9!~ / HTTP/1.1\r\nX-z_9: 1\r\nHost: x\r\n\r\n", 0},
        {"a header without a colon", "GET / HTTP/1.1\r\nHost\r\n\r\n", 400},
        {"a header without a name", "GET / HTTP/1.1\r\n: x\r\n\r\n", 400},
        {"a tab in a value", "GET / HTTP/1.1\r\nHost: \tx\ty \t\r\n\r\n", 0},
        {"a control character in a value", "GET / HTTP/1.1\r\nHost: x\x01\r\n\r\n", 400},
        {"the last control character", "GET / HTTP/1.1\r\nHost: x\x7f\r\n\r\n", 400},
        {"a length of nothing", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n\r\n", 400},
        {"a length with a sign", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\n", 400},
        {"a length in words", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: one\r\n\r\n", 400},
        {"a length of more than there are numbers",
         "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n", 400},
        {"the same length twice",
         "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\ncontent-length: 1\r\n\r\n", 0},
        {"chunked twice",
         "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
         "Transfer-Encoding: chunked\r\n\r\n",
         501},
        {"chunks of an older version", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
         501},
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

TEST(http_head_says_how_the_connection_goes_on)
{
    static const struct {
        const char *why;
        const char *text;
        bool keep_alive;
        bool upgrade;
        bool expects;
    } rows[] = {
        {"it stays", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", true, false, false},
        {"an older one does not", "GET / HTTP/1.0\r\n\r\n", false, false, false},
        {"it is to close", "GET / HTTP/1.1\r\nHost: x\r\nConnection: a, Close\r\n\r\n", false,
         false, false},
        {"an older one is to stay", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true, false,
         false},
        {"it becomes something else",
         "GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\n\r\n", true, true, false},
        {"the client waits for a word",
         "PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n", true,
         false, true},
        {"and for one that nobody knows", "PUT / HTTP/1.1\r\nHost: x\r\nExpect: 200\r\n\r\n", true,
         false, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct http_head head;

        test_case(rows[i].why);
        EXPECT(http_head_parse(str_from(rows[i].text), &head, NULL) > 0);
        EXPECT(head.keep_alive == rows[i].keep_alive && head.upgrade == rows[i].upgrade &&
               head.expect_continue == rows[i].expects);
        EXPECT(!str_is_set(http_head_get(&head, "Nobody")));
        EXPECT(head.query.len == 0);
    }
}

TEST(http_head_of_too_many_parts_is_refused)
{
    static const struct {
        const char *why;
        const char *begin;
        const char *again;
        size_t times;
        const char *end;
        int status; /* 0: it is as much as there may be */
    } rows[] = {
        {"as many headers as there may be", "GET / HTTP/1.1\r\nHost: x\r\n", "a: b\r\n",
         HTTP_HEADERS_MAX - 1, "\r\n", 0},
        {"one more", "GET / HTTP/1.1\r\nHost: x\r\n", "a: b\r\n", HTTP_HEADERS_MAX, "\r\n", 431},
        {"as long a target as there may be", "GET /", "a", HTTP_TARGET_BYTES_MAX - 1,
         " HTTP/1.1\r\nHost: x\r\n\r\n", 0},
        {"a longer one", "GET /", "a", HTTP_TARGET_BYTES_MAX, " HTTP/1.1\r\nHost: x\r\n\r\n", 414},
        {"a line without an end", "GET /", "a", HTTP_HEAD_BYTES_MAX, "", 414},
        {"a header without an end", "GET / HTTP/1.1\r\nHost: x", "x", HTTP_HEAD_BYTES_MAX, "", 431},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(buf_done) struct buf text = {0};
        struct http_head head;
        struct err err = {0};

        test_case(rows[i].why);
        buf_add(&text, str_from(rows[i].begin));
        for (size_t j = 0; j < rows[i].times; j++)
            buf_add(&text, str_from(rows[i].again));
        buf_add(&text, str_from(rows[i].end));
        ssize_t r = http_head_parse(buf_str(&text), &head, &err);
        EXPECT(rows[i].status ? r < 0 && err.http_status == rows[i].status
                              : r == (ssize_t)text.len);
        EXPECT((http_head_parse(buf_str(&text), &head, NULL) < 0) == (r < 0));
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
    static const char *const rows[] = {
        "\r\n",  "g\r\n", "1\r\nab\r\n", "1\nb",     "-1\r\n",   "ffffffffffffffffff\r\n",
        "1;x\n", "1\rx",  "1\r\na\rx",   "0\r\nT\n", "0\r\n\rx", "1:\r\n"};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(buf_done) struct buf out = {0};
        struct http_chunked chunked = {0};
        bool done = false;

        test_case(rows[i]);
        EXPECT(http_chunked_read(&chunked, str_from(rows[i]), &out, &done) == -EBADMSG);
    }
}

TEST(http_chunks_have_bounded_lines_and_a_bounded_body)
{
    _cleanup_(buf_done) struct buf line = {0};
    _cleanup_(buf_done) struct buf out = {.bytes_max = 3};
    struct http_chunked chunked = {0};
    bool done = false;

    buf_add(&line, STR("1;"));
    for (int i = 0; i < 1000; i++)
        buf_addc(&line, 'x');
    EXPECT(http_chunked_read(&chunked, buf_str(&line), &out, &done) == -EBADMSG);
    chunked = (struct http_chunked){0};
    EXPECT(http_chunked_read(&chunked, STR("A \r\n0123456789\r\n"), &out, &done) == -EMSGSIZE);
    chunked = (struct http_chunked){0};
    buf_done(&out);
    out = (struct buf){.bytes_max = 11};
    EXPECT(http_chunked_read(&chunked, STR("a\tb\r\n0123456789\r\n0\r\n\r\n"), &out, &done) > 0);
    EXPECT(done && str_is(buf_str(&out), "0123456789"));
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
    EXPECT(http_query_all(&arena, query, "a", all, 1) == 2);
    EXPECT(str_is(http_query(&arena, STR("alone&a=b"), "alone"), ""));
    EXPECT(http_query_bool(STR("a=1"), "a") && http_query_bool(STR("b&a=true"), "a"));
    EXPECT(!http_query_bool(STR("a=0"), "a") && !http_query_bool(STR("a=False"), "a"));
    EXPECT(http_query_bool(STR("a"), "a") && http_query_bool(STR("a=yes"), "a"));
}

TEST(http_percent_signs_are_decoded_or_the_text_is_refused)
{
    static const struct {
        const char *why;
        const char *text;
        bool plus;
        const char *want; /* NULL: refused */
    } rows[] = {
        {"nothing to do", "a b", true, "a b"},
        {"no text", "", true, ""},
        {"a plus of a form", "a+b", true, "a b"},
        {"a plus of a path", "a+b", false, "a+b"},
        {"both", "a+%2b%2B", true, "a ++"},
        {"a plus beside percent signs of a path", "a+%41", false, "a+A"},
        {"cut", "a%2", true, NULL},
        {"cut sooner", "a%", true, NULL},
        {"first digit", "%g1", true, NULL},
        {"second digit", "%1g", true, NULL},
        {"NUL", "%00", true, NULL},
    };
    _cleanup_(arena_done) struct arena arena = {0};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct str got = http_percent_decode(&arena, str_from(rows[i].text), rows[i].plus);

        test_case(rows[i].why);
        EXPECT(rows[i].want ? str_is(got, rows[i].want) : !str_is_set(got));
    }
    EXPECT(str_is_set(http_percent_decode(&arena, STR_NONE, true)));
}
