#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "http1/response.h"
#include "test.h"

#include <errno.h>
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
