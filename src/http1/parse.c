#include "http1/parse.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#define STATUS_BAD_REQUEST     400
#define STATUS_URI_TOO_LONG    414
#define STATUS_HEADERS_LARGE   431
#define STATUS_NOT_IMPLEMENTED 501
#define STATUS_HTTP_VERSION    505

#define CHUNK_LINE_BYTES_MAX 256 /* a size line or one trailer field */

static int refuse(struct err *err, int status, const char *why)
{
    (void)err_set(err, -EBADMSG, "%s", why);
    if (err)
        err->http_status = status;
    return -EBADMSG;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

bool http_equal_nocase(struct str a, struct str b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (lower(a.p[i]) != lower(b.p[i]))
            return false;
    return true;
}

/* RFC 9110 section 5.6.2. */
static bool is_token_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!is_token_char(s.p[i]))
            return false;
    return s.len > 0;
}

static bool is_text(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (((unsigned char)s.p[i] < ' ' && s.p[i] != '\t') || s.p[i] == 0x7f)
            return false;
    return true;
}

static struct str trim_blanks(struct str s)
{
    while (s.len && (s.p[0] == ' ' || s.p[0] == '\t'))
        s = str_sub(s, 1, s.len);
    while (s.len && (s.p[s.len - 1] == ' ' || s.p[s.len - 1] == '\t'))
        s.len--;
    return s;
}

bool http_token_in(struct str list, const char *token)
{
    struct str part;

    while (str_cut(&list, ',', &part))
        if (http_equal_nocase(trim_blanks(part), str_from(token)))
            return true;
    return false;
}

struct str http_head_get(const struct http_head *head, const char *name)
{
    struct str wanted = str_from(name);

    for (size_t i = 0; i < head->header_count; i++)
        if (http_equal_nocase(head->headers[i].name, wanted))
            return head->headers[i].value;
    return STR_NONE;
}

/* One line without its CRLF taken off *rest. False when none is complete. */
static bool take_line(struct str *rest, struct str *ret)
{
    size_t end = str_find(*rest, '\n');

    if (end == rest->len)
        return false;
    *ret = str_sub(*rest, 0, end);
    *rest = str_sub(*rest, end + 1, rest->len);
    return true;
}

static int parse_request_line(struct str line, struct http_head *head, struct err *err)
{
    struct str target;

    if (!str_cut(&line, ' ', &head->method) || !is_token(head->method))
        return refuse(err, STATUS_BAD_REQUEST, "malformed request line");
    if (!str_cut(&line, ' ', &target) || !target.len || target.p[0] != '/')
        return refuse(err, STATUS_BAD_REQUEST, "malformed request target");
    if (target.len > HTTP_TARGET_BYTES_MAX)
        return refuse(err, STATUS_URI_TOO_LONG, "request target is too long");
    for (size_t i = 0; i < target.len; i++)
        if ((unsigned char)target.p[i] <= ' ' || (unsigned char)target.p[i] >= 0x7f)
            return refuse(err, STATUS_BAD_REQUEST,
                          "request target holds a byte that must be "
                          "percent-encoded");
    if (str_is(line, "HTTP/1.1"))
        head->keep_alive = true;
    else if (!str_is(line, "HTTP/1.0"))
        return refuse(err,
                      str_starts(line, STR("HTTP/")) ? STATUS_HTTP_VERSION : STATUS_BAD_REQUEST,
                      "only HTTP/1.1 and HTTP/1.0 are supported");
    size_t mark = str_find(target, '?');
    head->path = str_sub(target, 0, mark);
    head->query = mark < target.len ? str_sub(target, mark + 1, target.len) : STR("");
    return 0;
}

static int parse_header(struct str line, struct http_head *head, struct err *err)
{
    size_t colon = str_find(line, ':');

    if (head->header_count == HTTP_HEADERS_MAX)
        return refuse(err, STATUS_HEADERS_LARGE, "too many headers");
    if (colon == line.len || !is_token(str_sub(line, 0, colon)))
        return refuse(err, STATUS_BAD_REQUEST, "malformed header line");
    struct http_header header = {.name = str_sub(line, 0, colon),
                                 .value = trim_blanks(str_sub(line, colon + 1, line.len))};
    if (!is_text(header.value))
        return refuse(err, STATUS_BAD_REQUEST, "control character in a header");
    head->headers[head->header_count++] = header;
    return 0;
}

/* What the headers say about framing and the connection. */
static int interpret(struct http_head *head, bool http11, struct err *err)
{
    int hosts = 0;

    for (size_t i = 0; i < head->header_count; i++) {
        struct str name = head->headers[i].name;
        struct str value = head->headers[i].value;

        if (http_equal_nocase(name, STR("Host"))) {
            hosts++;
        } else if (http_equal_nocase(name, STR("Content-Length"))) {
            int64_t length = -1;
            if (!value.len || value.p[0] == '+' || value.p[0] == '-' ||
                !str_to_i64(value, &length) || length < 0)
                return refuse(err, STATUS_BAD_REQUEST, "malformed Content-Length");
            if (head->content_length >= 0 && head->content_length != length)
                return refuse(err, STATUS_BAD_REQUEST, "two different Content-Length headers");
            head->content_length = length;
        } else if (http_equal_nocase(name, STR("Transfer-Encoding"))) {
            if (!http_equal_nocase(value, STR("chunked")) || head->chunked || !http11)
                return refuse(err, STATUS_NOT_IMPLEMENTED,
                              "the only supported transfer coding is chunked");
            head->chunked = true;
        } else if (http_equal_nocase(name, STR("Connection"))) {
            if (http_token_in(value, "close"))
                head->keep_alive = false;
            else if (http_token_in(value, "keep-alive"))
                head->keep_alive = true;
            head->upgrade |= http_token_in(value, "upgrade");
        } else if (http_equal_nocase(name, STR("Expect"))) {
            head->expect_continue = http_equal_nocase(value, STR("100-continue"));
        }
    }
    if (head->chunked && head->content_length >= 0)
        return refuse(err, STATUS_BAD_REQUEST, "both Content-Length and Transfer-Encoding");
    if (hosts > 1 || (http11 && hosts == 0))
        return refuse(err, STATUS_BAD_REQUEST, "exactly one Host header is required");
    return 0;
}

ssize_t http_head_parse(struct str bytes, struct http_head *ret, struct err *err)
{
    struct str rest = bytes;
    struct str line;
    struct http_head head = {.content_length = -1};
    bool first = true;

    while (take_line(&rest, &line)) {
        if ((size_t)(rest.p - bytes.p) > HTTP_HEAD_BYTES_MAX)
            break;
        if (!line.len || line.p[line.len - 1] != '\r')
            return refuse(err, STATUS_BAD_REQUEST, "lines must end in CR LF");
        line.len--;
        if (first && !line.len)
            return refuse(err, STATUS_BAD_REQUEST, "malformed request line");
        if (!line.len) {
            int r = interpret(&head, head.keep_alive, err);
            if (r < 0)
                return r;
            *ret = head;
            return rest.p - bytes.p;
        }
        int r = first ? parse_request_line(line, &head, err) : parse_header(line, &head, err);
        if (r < 0)
            return r;
        first = false;
    }
    if (bytes.len > HTTP_HEAD_BYTES_MAX)
        return refuse(err, first ? STATUS_URI_TOO_LONG : STATUS_HEADERS_LARGE,
                      "request head is too large");
    return 0;
}

/* ---- chunked bodies ---- */
enum {
    CHUNK_SIZE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_TRAILER,
    CHUNK_TRAILER_LF,
    CHUNK_DONE,
};

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int chunk_size_char(struct http_chunked *chunked, char c)
{
    int digit = hex_value(c);

    if (digit >= 0) {
        if (chunked->left >> 58)
            return -EBADMSG;
        chunked->left = chunked->left * 16 + (uint64_t)digit;
        chunked->line_bytes++;
        return 0;
    }
    if (!chunked->line_bytes)
        return -EBADMSG;
    if (c == '\r')
        chunked->state = CHUNK_SIZE_LF;
    else if (c == ';' || c == ' ' || c == '\t')
        chunked->state = CHUNK_EXTENSION;
    else
        return -EBADMSG;
    return 0;
}

static int chunk_char(struct http_chunked *chunked, char c)
{
    if (++chunked->line_bytes > CHUNK_LINE_BYTES_MAX)
        return -EBADMSG;
    switch (chunked->state) {
    case CHUNK_SIZE: chunked->line_bytes--; return chunk_size_char(chunked, c);
    case CHUNK_EXTENSION:
        if (c == '\r')
            chunked->state = CHUNK_SIZE_LF;
        return c == '\n' ? -EBADMSG : 0;
    case CHUNK_SIZE_LF:
        chunked->state = chunked->left ? CHUNK_DATA : CHUNK_TRAILER;
        chunked->line_bytes = 0;
        return c == '\n' ? 0 : -EBADMSG;
    case CHUNK_DATA_CR: chunked->state = CHUNK_DATA_LF; return c == '\r' ? 0 : -EBADMSG;
    case CHUNK_DATA_LF:
        chunked->state = CHUNK_SIZE;
        chunked->line_bytes = 0;
        return c == '\n' ? 0 : -EBADMSG;
    case CHUNK_TRAILER:
        if (c == '\r')
            chunked->state = CHUNK_TRAILER_LF;
        return c == '\n' ? -EBADMSG : 0;
    default: /* CHUNK_TRAILER_LF: an empty line ends the body, another one was a trailer field */
        chunked->state = chunked->line_bytes == 2 ? CHUNK_DONE : CHUNK_TRAILER;
        chunked->line_bytes = 0;
        return c == '\n' ? 0 : -EBADMSG;
    }
}

ssize_t http_chunked_read(struct http_chunked *chunked,
                          struct str bytes,
                          struct buf *out,
                          bool *ret_done)
{
    size_t at = 0;

    while (at < bytes.len && chunked->state != CHUNK_DONE) {
        if (chunked->state != CHUNK_DATA) {
            if (chunk_char(chunked, bytes.p[at++]) < 0)
                return -EBADMSG;
            continue;
        }
        size_t count = bytes.len - at;
        if (count > chunked->left)
            count = (size_t)chunked->left;
        buf_add(out, str_sub(bytes, at, count));
        if (out->overflow)
            return -EMSGSIZE;
        at += count;
        chunked->left -= count;
        if (!chunked->left)
            chunked->state = CHUNK_DATA_CR;
    }
    *ret_done = chunked->state == CHUNK_DONE;
    return (ssize_t)at;
}

/* ---- queries ---- */
struct str http_percent_decode(struct arena *arena, struct str text, bool plus_is_blank)
{
    if (str_find(text, '%') == text.len && (!plus_is_blank || str_find(text, '+') == text.len))
        return str_is_set(text) ? text : STR("");
    char *out = arena_alloc(arena, text.len + 1, 1, 1);
    size_t len = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.p[i];

        if (c == '+' && plus_is_blank) {
            c = ' ';
        } else if (c == '%') {
            if (text.len - i < 3 || hex_value(text.p[i + 1]) < 0 || hex_value(text.p[i + 2]) < 0)
                return STR_NONE;
            c = (char)(hex_value(text.p[i + 1]) * 16 + hex_value(text.p[i + 2]));
            i += 2;
            if (!c)
                return STR_NONE;
        }
        out[len++] = c;
    }
    return (struct str){out, len};
}

size_t http_query_all(struct arena *arena,
                      struct str query,
                      const char *key,
                      struct str *out,
                      size_t max)
{
    struct str wanted = str_from(key);
    struct str part;
    size_t count = 0;

    while (str_cut(&query, '&', &part)) {
        size_t equal = str_find(part, '=');

        if (!str_eq(str_sub(part, 0, equal), wanted))
            continue;
        struct str value = equal < part.len ? str_sub(part, equal + 1, part.len) : STR("");
        if (count < max)
            out[count] = http_percent_decode(arena, value, true);
        count++;
    }
    return count;
}

struct str http_query(struct arena *arena, struct str query, const char *key)
{
    struct str value = STR_NONE;

    (void)http_query_all(arena, query, key, &value, 1);
    return value;
}

bool http_query_bool(struct str query, const char *key)
{
    struct str wanted = str_from(key);
    struct str part;

    while (str_cut(&query, '&', &part)) {
        size_t equal = str_find(part, '=');

        if (!str_eq(str_sub(part, 0, equal), wanted))
            continue;
        struct str value = str_sub(part, equal + 1, part.len);
        return !http_equal_nocase(value, STR("false")) && !str_is(value, "0");
    }
    return false;
}
