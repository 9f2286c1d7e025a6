#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "http1/response.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OK "HTTP/1.1 200 OK\r\n"

TEST(an_http_answer_is_read_whatever_its_cut_or_refused)
{
    static const struct {
        const char *why;
        const char *text;
        const char *body; /* NULL: refused */
    } rows[] = {
        {"a length", OK "Content-Length: 5\r\n\r\nhello", "hello"},
        {"chunks", OK "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
         "hello"},
        {"up to the end of the connection", OK "\r\nhello", "hello"},
        {"announced first", "HTTP/1.1 100 Continue\r\n\r\n" OK "Content-Length: 5\r\n\r\nhello",
         "hello"},
        {"the same length twice", OK "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
         "hello"},
        {"two lengths", OK "Content-Length: 5\r\nContent-Length: 2\r\n\r\nhello", NULL},
        {"a negative length", OK "Content-Length: -1\r\n\r\nhello", NULL},
        {"a chunk whose size is no number", OK "Transfer-Encoding: chunked\r\n\r\nxy\r\n", NULL},
        {"a chunk longer than it says", OK "Transfer-Encoding: chunked\r\n\r\n1\r\nhe\r\n0\r\n\r\n",
         NULL},
        {"cut in the body", OK "Content-Length: 5\r\n\r\nhell", NULL},
        {"cut in a chunk", OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhel", NULL},
        {"cut in the head", OK "Content-Le", NULL},
        {"not HTTP", "SSH-2.0-OpenSSH\r\n\r\n", NULL},
        {"a status that is no number", "HTTP/1.1 abc\r\n\r\n", NULL},
        {"a status below all", "HTTP/1.1 099 x\r\n\r\n", NULL},
        {"a status above all", "HTTP/1.1 600 x\r\n\r\n", NULL},
        {"a header without a colon", OK "Content\r\n\r\n", NULL},
        {"a header without a name", OK ": x\r\n\r\n", NULL},
        {"a length in words", OK "Content-Length: five\r\n\r\nhello", NULL},
        {"another coding", OK "Transfer-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello", "hello"},
        {"nothing", OK "Content-Length: 0\r\n\r\n", ""},
    };
    static const size_t cuts[] = {1, 9, SIZE_MAX};

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t j = 0; j < COUNT_OF(cuts); j++) {
            _cleanup_(arena_done) struct arena arena = {0};
            _cleanup_(buf_done) struct buf in = {0};
            _cleanup_(buf_done) struct buf body = {0};
            struct http_response response = {0};
            struct str rest = str_from(rows[i].text);
            int r = 0;

            test_case(rows[i].why);
            while (r == 0 && !response.done && !response.eof) {
                struct str piece = str_sub(rest, 0, cuts[j]);

                buf_add(&in, piece);
                rest = str_sub(rest, piece.len, rest.len);
                response.eof = piece.len == 0;
                r = http_response_read(&response, &arena, &in, &body, NULL);
            }
            EXPECT(r == (rows[i].body ? 0 : -EBADMSG));
            if (rows[i].body)
                EXPECT(response.done && response.status == 200 &&
                       str_is(buf_str(&body), rows[i].body));
        }
}

TEST(an_http_answer_may_have_no_body)
{
    static const struct {
        const char *why;
        const char *text;
        bool head;
        int status;
    } rows[] = {
        {"to HEAD", OK "Content-Length: 5\r\n\r\n", true, 200},
        {"there is none", "HTTP/1.1 204 No Content\r\n\r\n", false, 204},
        {"the client has it", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", false, 304},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        _cleanup_(buf_done) struct buf in = {0};
        _cleanup_(buf_done) struct buf body = {0};
        struct http_response response = {.no_body = rows[i].head};

        test_case(rows[i].why);
        buf_add(&in, str_from(rows[i].text));
        EXPECT(http_response_read(&response, &arena, &in, &body, NULL) == 0);
        EXPECT(response.done && response.status == rows[i].status && !body.len);
    }
}

TEST(an_http_answer_has_bounded_parts)
{
    static const struct {
        const char *why;
        const char *begin;
        const char *again;
        size_t times;
        const char *end;
        bool taken;
    } rows[] = {
        {"as many headers as there may be", OK, "a: b\r\n", HTTP_HEADERS_MAX, "\r\nhello", true},
        {"one more", OK, "a: b\r\n", HTTP_HEADERS_MAX + 1, "\r\nhello", false},
        {"a head without an end", OK, "a", HTTP_HEAD_BYTES_MAX, "", false},
        {"announced as often as may be", "", "HTTP/1.1 103 x\r\n\r\n", HTTP_INTERIM_MAX,
         OK "\r\nhello", true},
        {"announced without end", "", "HTTP/1.1 103 x\r\n\r\n", 100000, OK "\r\nhello", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        _cleanup_(buf_done) struct buf in = {0};
        _cleanup_(buf_done) struct buf body = {0};
        struct http_response response = {0};

        test_case(rows[i].why);
        buf_add(&in, str_from(rows[i].begin));
        for (size_t j = 0; j < rows[i].times; j++)
            buf_add(&in, str_from(rows[i].again));
        buf_add(&in, str_from(rows[i].end));
        EXPECT(http_response_read(&response, &arena, &in, &body, NULL) ==
               (rows[i].taken ? 0 : -EBADMSG));
        EXPECT(str_is(buf_str(&body), "hello") == rows[i].taken);
    }
}

TEST(an_answer_that_changes_the_protocol_has_all_that_follows)
{
    static const char text[] = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                               "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\nabc";
    static const bool asked[] = {true, false};

    for (size_t i = 0; i < COUNT_OF(asked); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        _cleanup_(buf_done) struct buf in = {0};
        _cleanup_(buf_done) struct buf body = {0};
        struct http_response response = {.upgrades = asked[i]};

        test_case(asked[i] ? "asked for" : "not asked for: it only announces an answer");
        buf_add(&in, str_from(text));
        int r = http_response_read(&response, &arena, &in, &body, NULL);
        EXPECT(r == 0 && response.head_done == asked[i] && !response.done);
        EXPECT(str_is(buf_str(&body), asked[i] ? "abc" : ""));
        response.eof = true;
        r = http_response_read(&response, &arena, &in, &body, NULL);
        EXPECT((r == 0) == asked[i] && response.done == asked[i]);
    }
}
