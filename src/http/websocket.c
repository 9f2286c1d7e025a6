#include "http/websocket.h"

#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "http/tls.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FIN               0x80
#define RESERVED          0x70
#define OPCODE            0x0f
#define MASKED            0x80
#define MASK_BYTES        4
#define CONTROL_BYTES_MAX 125
#define SHA1_BYTES        20

void websocket_done(struct websocket *ws)
{
    buf_done(&ws->message);
    buf_done(&ws->control);
}

struct frame {
    unsigned char first;
    size_t head_size;
    uint64_t size;
    const unsigned char *mask;
};

/* 1 when the head is there, 0 when not yet, -EPROTO. */
static int parse_head(struct str in, struct frame *ret)
{
    const unsigned char *p = (const unsigned char *)in.p;
    struct frame frame = {.head_size = 2 + MASK_BYTES};

    if (in.len < 2)
        return 0;
    frame.first = p[0];
    frame.size = p[1] & 0x7f;
    if ((p[0] & RESERVED) || !(p[1] & MASKED))
        return -EPROTO;
    size_t extra = frame.size == 126 ? 2 : frame.size == 127 ? 8 : 0;
    frame.head_size += extra;
    if (in.len < frame.head_size)
        return 0;
    if (extra) {
        frame.size = 0;
        for (size_t i = 0; i < extra; i++)
            frame.size = frame.size << 8 | p[2 + i];
    }
    frame.mask = p + 2 + extra;
    bool control = p[0] & 8;
    if (frame.size > WEBSOCKET_MESSAGE_BYTES_MAX ||
        (control && (frame.size > CONTROL_BYTES_MAX || !(p[0] & FIN))))
        return -EPROTO;
    *ret = frame;
    return 1;
}

static void unmask(struct buf *out, struct str data, const unsigned char *mask)
{
    char *to = buf_room(out, data.len);

    if (!to)
        return;
    for (size_t i = 0; i < data.len; i++)
        to[i] = (char)((unsigned char)data.p[i] ^ mask[i % MASK_BYTES]);
    out->len += data.len;
}

/* A whole frame is in `data`. 1 when it completes a message. */
static int take_frame(struct websocket *ws,
                      const struct frame *frame,
                      struct str data,
                      struct websocket_message *ret)
{
    enum websocket_opcode opcode = (enum websocket_opcode)(frame->first & OPCODE);

    if (opcode >= WEBSOCKET_CLOSE) {
        buf_clear(&ws->control);
        unmask(&ws->control, data, frame->mask);
        *ret = (struct websocket_message){opcode, buf_str(&ws->control)};
        return opcode <= WEBSOCKET_PONG ? 1 : -EPROTO;
    }
    if (opcode > WEBSOCKET_BINARY || (opcode == WEBSOCKET_CONTINUATION) != ws->open)
        return -EPROTO;
    if (opcode != WEBSOCKET_CONTINUATION)
        ws->opcode = opcode;
    ws->message.bytes_max = WEBSOCKET_MESSAGE_BYTES_MAX;
    unmask(&ws->message, data, frame->mask);
    if (ws->message.overflow)
        return -EPROTO;
    ws->open = !(frame->first & FIN);
    if (ws->open)
        return 0;
    ws->deliver = true;
    *ret = (struct websocket_message){ws->opcode, buf_str(&ws->message)};
    return 1;
}

int websocket_next(struct websocket *ws, struct buf *in, struct websocket_message *ret)
{
    struct frame frame;

    if (ws->deliver) {
        buf_clear(&ws->message);
        ws->deliver = false;
    }
    for (;;) {
        int r = parse_head(buf_str(in), &frame);
        if (r <= 0)
            return r;
        if (in->len - frame.head_size < frame.size)
            return 0;
        r = take_frame(ws, &frame, str_sub(buf_str(in), frame.head_size, (size_t)frame.size), ret);
        buf_consume(in, frame.head_size + (size_t)frame.size);
        if (r)
            return r;
    }
}

void websocket_write(struct buf *out, enum websocket_opcode opcode, int prefix, struct str data)
{
    uint64_t size = data.len + (prefix >= 0);

    buf_addc(out, (char)(FIN | opcode));
    if (size < 126) {
        buf_addc(out, (char)size);
    } else {
        int bytes = size <= UINT16_MAX ? 2 : 8;
        buf_addc(out, (char)(bytes == 2 ? 126 : 127));
        for (int i = bytes - 1; i >= 0; i--)
            buf_addc(out, (char)(size >> (8 * i) & 0xff));
    }
    if (prefix >= 0)
        buf_addc(out, (char)prefix);
    buf_add(out, data);
}

void websocket_write_channel(struct buf *out, bool base64, unsigned channel, struct str data)
{
    _cleanup_(buf_done) struct buf text = {0};

    if (!base64) {
        websocket_write(out, WEBSOCKET_BINARY, (int)channel, data);
        return;
    }
    tls_base64(&text, data);
    websocket_write(out, WEBSOCKET_TEXT, (int)('0' + channel), buf_str(&text));
}

bool websocket_take_channel(struct arena *arena,
                            bool base64,
                            struct str message,
                            unsigned *ret_channel,
                            struct str *ret_data)
{
    struct str data = str_sub(message, 1, message.len);

    if (!message.len || (base64 && !base64_decode(arena, data, &data)))
        return false;
    *ret_channel = (unsigned char)message.p[0] - (base64 ? (unsigned)'0' : 0U);
    *ret_data = data;
    return true;
}

void websocket_write_close(struct buf *out, uint16_t code)
{
    char text[2] = {(char)(code >> 8), (char)(code & 0xff)};

    websocket_write(out, WEBSOCKET_CLOSE, -1, (struct str){text, sizeof(text)});
}

void websocket_accept_key(struct str key, char out[static WEBSOCKET_ACCEPT_BYTES])
{
    _cleanup_(buf_done) struct buf text = {0};
    _cleanup_(buf_done) struct buf encoded = {0};
    unsigned char digest[SHA1_BYTES] = {0};

    buf_add(&text, key);
    buf_add(&text, STR("258EAFA5-E914-47DA-95CA-C5AB0DC85B11"));
    (void)gnutls_hash_fast(GNUTLS_DIG_SHA1, text.p, text.len, digest);
    tls_base64(&encoded, (struct str){(const char *)digest, sizeof(digest)});
    size_t len = encoded.len < WEBSOCKET_ACCEPT_BYTES ? encoded.len : WEBSOCKET_ACCEPT_BYTES - 1;
    if (len)
        memcpy(out, encoded.p, len);
    out[len] = '\0';
}
