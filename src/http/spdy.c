#include "http/spdy.h"

#include "base/buf.h"
#include "base/count.h"
#include "base/mem.h"
#include "base/str.h"
#include "http1/parse.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <zlib.h>

#define HEAD_BYTES         8
#define VERSION            3
#define STREAM_MASK        0x7fffffffu
#define FLAG_FIN           1
#define HEADER_BLOCK_MAX   ((size_t)16 << 10) /* inflated */
#define DATA_BYTES_A_FRAME ((size_t)1 << 20)  /* a length has 24 bits; smaller is kinder */
#define DICTIONARY_SIZE    1423

enum control {
    CONTROL_SYN_STREAM = 1,
    CONTROL_SYN_REPLY = 2,
    CONTROL_RST_STREAM = 3,
    CONTROL_PING = 6,
    CONTROL_GOAWAY = 7,
};

struct spdy {
    z_stream inflate;
    z_stream deflate;
    bool inflate_ready;
    char dictionary[DICTIONARY_SIZE];
    char block[HEADER_BLOCK_MAX];
    struct buf frame;
};

/* Section 2.6.10.1 of the SPDY/3 draft: words with their lengths, then a text. */
static const char *const dictionary_words[] = {"options",
                                               "head",
                                               "post",
                                               "put",
                                               "delete",
                                               "trace",
                                               "accept",
                                               "accept-charset",
                                               "accept-encoding",
                                               "accept-language",
                                               "accept-ranges",
                                               "age",
                                               "allow",
                                               "authorization",
                                               "cache-control",
                                               "connection",
                                               "content-base",
                                               "content-encoding",
                                               "content-language",
                                               "content-length",
                                               "content-location",
                                               "content-md5",
                                               "content-range",
                                               "content-type",
                                               "date",
                                               "etag",
                                               "expect",
                                               "expires",
                                               "from",
                                               "host",
                                               "if-match",
                                               "if-modified-since",
                                               "if-none-match",
                                               "if-range",
                                               "if-unmodified-since",
                                               "last-modified",
                                               "location",
                                               "max-forwards",
                                               "pragma",
                                               "proxy-authenticate",
                                               "proxy-authorization",
                                               "range",
                                               "referer",
                                               "retry-after",
                                               "server",
                                               "te",
                                               "trailer",
                                               "transfer-encoding",
                                               "upgrade",
                                               "user-agent",
                                               "vary",
                                               "via",
                                               "warning",
                                               "www-authenticate",
                                               "method",
                                               "get",
                                               "status",
                                               "200 OK",
                                               "version",
                                               "HTTP/1.1",
                                               "url",
                                               "public",
                                               "set-cookie",
                                               "keep-alive",
                                               "origin"};
static const char dictionary_text[] =
    "1001012012022052063003023033043053063074024054064074084094104114124134144154164175025045052"
    "03 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 "
    "Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service "
    "UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, "
    "Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,application/"
    "xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8"
    "charset=iso-8859-1,utf-,*,enq=0.";

static void put32(char *out, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (char)(value >> (24 - 8 * i) & 0xff);
}

static uint32_t get32(const char *in)
{
    const unsigned char *p = (const unsigned char *)in;

    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void make_dictionary(char out[static DICTIONARY_SIZE])
{
    size_t at = 0;

    for (size_t i = 0; i < COUNT_OF(dictionary_words); i++) {
        size_t len = strlen(dictionary_words[i]);

        put32(out + at, (uint32_t)len);
        memcpy(out + at + 4, dictionary_words[i], len);
        at += 4 + len;
    }
    memcpy(out + at, dictionary_text, sizeof(dictionary_text) - 1);
    at += sizeof(dictionary_text) - 1;
    assert(at == DICTIONARY_SIZE);
}

struct spdy *spdy_new(void)
{
    struct spdy *spdy = MEM_NEW(struct spdy);

    make_dictionary(spdy->dictionary);
    /* Small windows: headers here are a few dozen bytes. */
    if (inflateInit(&spdy->inflate) == Z_OK)
        spdy->inflate_ready = true;
    if (deflateInit2(&spdy->deflate, Z_BEST_SPEED, Z_DEFLATED, 11, 1, Z_DEFAULT_STRATEGY) == Z_OK)
        (void)deflateSetDictionary(&spdy->deflate, (const Bytef *)spdy->dictionary,
                                   DICTIONARY_SIZE);
    return spdy;
}

void spdy_free(struct spdy *spdy)
{
    if (!spdy)
        return;
    (void)inflateEnd(&spdy->inflate);
    (void)deflateEnd(&spdy->deflate);
    buf_done(&spdy->frame);
    mem_free(spdy);
}

/* The size of the inflated block, or -EPROTO. One zlib stream for the whole connection. */
static int inflate_block(struct spdy *spdy, struct str in, size_t *ret)
{
    union {
        const char *in;
        Bytef *out;
    } pun = {.in = in.p};

    if (!spdy->inflate_ready)
        return -EPROTO;
    spdy->inflate.next_in = pun.out;
    spdy->inflate.avail_in = (uInt)in.len;
    spdy->inflate.next_out = (Bytef *)spdy->block;
    spdy->inflate.avail_out = sizeof(spdy->block);
    while (spdy->inflate.avail_in) {
        int r = inflate(&spdy->inflate, Z_SYNC_FLUSH);

        if (r == Z_NEED_DICT)
            r = inflateSetDictionary(&spdy->inflate, (const Bytef *)spdy->dictionary,
                                     DICTIONARY_SIZE);
        if (r != Z_OK || !spdy->inflate.avail_out)
            return -EPROTO;
    }
    *ret = sizeof(spdy->block) - spdy->inflate.avail_out;
    return 0;
}

static bool take_text(struct str *in, struct str *ret)
{
    if (in->len < 4)
        return false;
    uint32_t len = get32(in->p);
    if (len > in->len - 4)
        return false;
    *ret = str_sub(*in, 4, len);
    *in = str_sub(*in, 4 + (size_t)len, in->len);
    return true;
}

static int parse_headers(struct spdy *spdy, struct str in, struct spdy_frame *frame)
{
    size_t size = 0;

    if (inflate_block(spdy, in, &size) < 0 || size < 4)
        return -EPROTO;
    struct str block = {spdy->block, size};
    uint32_t count = get32(block.p);
    block = str_sub(block, 4, block.len);
    for (uint32_t i = 0; i < count; i++) {
        struct http_header header;

        if (i == SPDY_HEADERS_MAX || !take_text(&block, &header.name) ||
            !take_text(&block, &header.value))
            return -EPROTO;
        frame->headers[frame->header_count++] = header;
    }
    return 0;
}

static int parse_control(struct spdy *spdy,
                         uint16_t type,
                         struct str payload,
                         struct spdy_frame *frame)
{
    uint32_t first = payload.len >= 4 ? get32(payload.p) : 0;

    frame->type = SPDY_OTHER;
    switch (type) {
    case CONTROL_SYN_STREAM:
        if (payload.len < 10)
            return -EPROTO;
        frame->type = SPDY_SYN_STREAM;
        frame->stream = first & STREAM_MASK;
        return parse_headers(spdy, str_sub(payload, 10, payload.len), frame);
    case CONTROL_RST_STREAM:
        frame->type = SPDY_RST_STREAM;
        frame->stream = first & STREAM_MASK;
        return 0;
    case CONTROL_PING:
        frame->type = SPDY_PING;
        frame->ping = first;
        return 0;
    case CONTROL_GOAWAY: frame->type = SPDY_GOAWAY; return 0;
    default: return 0;
    }
}

int spdy_next(struct spdy *spdy, struct buf *in, struct spdy_frame *ret)
{
    struct spdy_frame frame = {0};

    if (in->len < HEAD_BYTES)
        return 0;
    uint32_t first = get32(in->p);
    uint32_t second = get32(in->p + 4);
    size_t size = second & 0xffffff;
    if (size > SPDY_FRAME_BYTES_MAX)
        return -EPROTO;
    if (in->len - HEAD_BYTES < size)
        return 0;
    /* The frame moves to a buffer of its own, so that its strings stay while `in` goes on. */
    buf_clear(&spdy->frame);
    buf_add(&spdy->frame, str_sub(buf_str(in), HEAD_BYTES, size));
    buf_consume(in, HEAD_BYTES + size);
    struct str payload = buf_str(&spdy->frame);
    frame.fin = second >> 24 & FLAG_FIN;
    if (!(first >> 31)) {
        frame.type = SPDY_DATA;
        frame.stream = first & STREAM_MASK;
        frame.data = payload;
    } else if ((first >> 16 & 0x7fff) != VERSION ||
               parse_control(spdy, (uint16_t)(first & 0xffff), payload, &frame) < 0) {
        return -EPROTO;
    }
    *ret = frame;
    return 1;
}

struct str spdy_header(const struct spdy_frame *frame, const char *name)
{
    for (size_t i = 0; i < frame->header_count; i++)
        if (http_equal_nocase(frame->headers[i].name, str_from(name)))
            return frame->headers[i].value;
    return STR_NONE;
}

static void write_control(struct buf *out, enum control type, struct str payload)
{
    char head[HEAD_BYTES];

    put32(head, 0x80000000u | VERSION << 16 | type);
    put32(head + 4, (uint32_t)payload.len);
    buf_add(out, (struct str){head, sizeof(head)});
    buf_add(out, payload);
}

void spdy_write_reply(struct spdy *spdy, struct buf *out, uint32_t stream)
{
    static const char no_headers[4] = {0};
    char payload[4 + 64];
    union {
        const char *in;
        Bytef *out;
    } pun = {.in = no_headers};

    put32(payload, stream);
    spdy->deflate.next_in = pun.out;
    spdy->deflate.avail_in = sizeof(no_headers);
    spdy->deflate.next_out = (Bytef *)payload + 4;
    spdy->deflate.avail_out = sizeof(payload) - 4;
    (void)deflate(&spdy->deflate, Z_SYNC_FLUSH);
    write_control(out, CONTROL_SYN_REPLY,
                  (struct str){payload, sizeof(payload) - spdy->deflate.avail_out});
}

void spdy_write_data(struct buf *out, uint32_t stream, bool fin, struct str data)
{
    do {
        struct str part = str_sub(data, 0, DATA_BYTES_A_FRAME);
        bool last = part.len == data.len;
        char head[HEAD_BYTES];

        put32(head, stream);
        put32(head + 4, (fin && last ? (uint32_t)FLAG_FIN << 24 : 0) | (uint32_t)part.len);
        buf_add(out, (struct str){head, sizeof(head)});
        buf_add(out, part);
        data = str_sub(data, part.len, data.len);
    } while (data.len);
}

void spdy_write_reset(struct buf *out, uint32_t stream, uint32_t status)
{
    char payload[8];

    put32(payload, stream);
    put32(payload + 4, status);
    write_control(out, CONTROL_RST_STREAM, (struct str){payload, sizeof(payload)});
}

void spdy_write_ping(struct buf *out, uint32_t id)
{
    char payload[4];

    put32(payload, id);
    write_control(out, CONTROL_PING, (struct str){payload, sizeof(payload)});
}

void spdy_write_goaway(struct buf *out, uint32_t last_stream)
{
    char payload[8];

    put32(payload, last_stream);
    put32(payload + 4, 0);
    write_control(out, CONTROL_GOAWAY, (struct str){payload, sizeof(payload)});
}
