#pragma once

#include "base/buf.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

/* websocket: RFC 6455 framing, server side, without I/O. */
#define WEBSOCKET_MESSAGE_BYTES_MAX ((size_t)4 << 20)

enum websocket_opcode {
    WEBSOCKET_CONTINUATION = 0,
    WEBSOCKET_TEXT = 1,
    WEBSOCKET_BINARY = 2,
    WEBSOCKET_CLOSE = 8,
    WEBSOCKET_PING = 9,
    WEBSOCKET_PONG = 10,
};

struct websocket_message {
    enum websocket_opcode opcode; /* of the whole message: never a continuation */
    struct str data;              /* until the next call */
};

/* Zero-initialise; buf_done(&ws.message) at the end. */
struct websocket {
    struct buf message; /* fragments so far, unmasked */
    struct buf control;
    enum websocket_opcode opcode; /* of the message being put together */
    bool open;                    /* a fragmented message is under way */
    bool deliver;                 /* the last call handed out `message` */
};

void websocket_done(struct websocket *ws);
/* Takes frames off `in`. 1 and a message, 0 when more bytes are needed, -EPROTO when the peer
 * breaks the rules (unmasked, reserved bits, oversized): close the connection then. */
int websocket_next(struct websocket *ws, struct buf *in, struct websocket_message *ret);

/* One unfragmented message: a prefix byte (-1: none) and the data. */
void websocket_write(struct buf *out, enum websocket_opcode opcode, int prefix, struct str data);

/* Kubernetes' channels in messages: a byte that names the channel, and the data; in its base64
 * protocols the channel's digit and the data in base64, as text. */
#define WEBSOCKET_CHANNEL_CLOSE 0xffU /* version 5: the channel that the data names ends */
void websocket_write_channel(struct buf *out, bool base64, unsigned channel, struct str data);
/* False: not such a message. *ret_data is of the message, or from the arena. */
bool websocket_take_channel(struct arena *arena,
                            bool base64,
                            struct str message,
                            unsigned *ret_channel,
                            struct str *ret_data);
void websocket_write_close(struct buf *out, uint16_t code);
/* The Sec-WebSocket-Accept header for the client's key, in `out`. */
#define WEBSOCKET_ACCEPT_BYTES 29
void websocket_accept_key(struct str key, char out[static WEBSOCKET_ACCEPT_BYTES]);
