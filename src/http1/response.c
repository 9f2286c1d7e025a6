#include "http1/response.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "http1/parse.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

static int parse_header(struct http_response *response, struct str line, struct err *err)
{
    size_t colon = str_find(line, ':');

    if (colon == line.len || !colon || response->header_count == HTTP_HEADERS_MAX)
        return err_set(err, -EBADMSG, "malformed header in the answer");
    struct http_header header = {.name = str_sub(line, 0, colon),
                                 .value = str_trim(str_sub(line, colon + 1, line.len))};
    if (http_equal_nocase(header.name, STR("Transfer-Encoding")))
        response->chunked = http_token_in(header.value, "chunked");
    if (http_equal_nocase(header.name, STR("Content-Length"))) {
        int64_t length = -1;

        if (!str_to_i64(header.value, &length) || length < 0)
            return err_set(err, -EBADMSG, "malformed Content-Length in the answer");
        if (response->left >= 0 && response->left != length)
            return err_set(err, -EBADMSG, "two different Content-Length headers in the answer");
        response->left = length;
    }
    response->headers[response->header_count++] = header;
    return 0;
}

static int parse_head(struct http_response *response, struct str head, struct err *err)
{
    struct str line;
    int64_t status = 0;

    (void)str_cut(&head, '\n', &line);
    line = str_trim(line);
    if (!str_starts(line, STR("HTTP/1.")) || !str_to_i64(str_sub(line, 9, 3), &status) ||
        status < 100 || status > 599)
        return err_set(err, -EBADMSG, "malformed status line in the answer");
    response->status = (int)status;
    response->left = -1;
    while (str_cut(&head, '\n', &line)) {
        line = str_trim(line);
        if (!line.len)
            break;
        int r = parse_header(response, line, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* One head, if all of it is there. */
static int take_head(struct http_response *response,
                     struct arena *arena,
                     struct buf *in,
                     struct err *err)
{
    struct str bytes = buf_str(in);
    const char *end = bytes.len ? memmem(bytes.p, bytes.len, "\r\n\r\n", 4) : NULL;

    if (!end) {
        if (response->eof || bytes.len > HTTP_HEAD_BYTES_MAX)
            return err_set(err, -EBADMSG,
                           response->eof ? "connection closed before the answer"
                                         : "answer head too large");
        return 0;
    }
    size_t size = (size_t)(end - bytes.p) + 4;
    *response = (struct http_response){.no_body = response->no_body,
                                       .upgrades = response->upgrades,
                                       .eof = response->eof,
                                       .interim_count = response->interim_count};
    int r = parse_head(response, str_dup(arena, str_sub(bytes, 0, size)), err);
    if (r < 0)
        return r;
    buf_consume(in, size);
    response->head_done = response->status >= 200;
    if (response->upgrades && response->status == 101) {
        response->head_done = true;
        response->chunked = false; /* its bytes are of another protocol, up to the end */
        response->left = -1;
    }
    return 1;
}

/* 1xx announce the real answer, which follows. A server that announces without end would have us
 * keep all of it, and wait. */
static int read_head(struct http_response *response,
                     struct arena *arena,
                     struct buf *in,
                     struct err *err)
{
    int r;

    while ((r = take_head(response, arena, in, err)) > 0 && !response->head_done)
        if (++response->interim_count > HTTP_INTERIM_MAX)
            return err_set(err, -EBADMSG, "the answer was announced more than %d times",
                           HTTP_INTERIM_MAX);
    return r < 0 ? r : 0;
}

int http_response_read(struct http_response *response,
                       struct arena *arena,
                       struct buf *in,
                       struct buf *body,
                       struct err *err)
{
    if (!response->head_done) {
        int r = read_head(response, arena, in, err);
        if (r < 0 || !response->head_done)
            return r;
    }
    if (response->no_body || response->status == 204 || response->status == 304) {
        response->done = true;
        return 0;
    }
    if (response->chunked) {
        ssize_t used = http_chunked_read(&response->chunks, buf_str(in), body, &response->done);
        if (used < 0)
            return err_set(err, -EBADMSG, "malformed chunk in the answer");
        buf_consume(in, (size_t)used);
    } else {
        struct str bytes = buf_str(in);
        if (response->left >= 0)
            bytes = str_sub(bytes, 0, (size_t)response->left);
        buf_add(body, bytes);
        buf_consume(in, bytes.len);
        if (response->left >= 0)
            response->left -= (int64_t)bytes.len;
        response->done = response->left == 0 || (response->left < 0 && response->eof);
    }
    if (response->eof && !response->done)
        return err_set(err, -EBADMSG, "connection closed in the middle of the answer");
    return 0;
}
