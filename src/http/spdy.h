#pragma once

#include "base/str.h"
#include "http1/parse.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct spdy;

/* spdy: SPDY/3.1 framing, server side, without I/O: what kubectl exec, attach and port-forward
 * speak after an upgrade. Streams are opened by the client only; there is no flow control, as the
 * client's library has none. */
#define SPDY_FRAME_BYTES_MAX ((size_t)4 << 20)
#define SPDY_HEADERS_MAX     16

enum spdy_type {
    SPDY_DATA,
    SPDY_SYN_STREAM, /* answer it with spdy_write_reply() */
    SPDY_RST_STREAM,
    SPDY_PING, /* answer it with spdy_write_ping() */
    SPDY_GOAWAY,
    SPDY_OTHER,
};

struct spdy_frame {
    enum spdy_type type;
    uint32_t stream;
    uint32_t ping;
    bool fin;
    struct str data; /* until the next call, like the headers */
    struct http_header headers[SPDY_HEADERS_MAX];
    size_t header_count;
};

struct spdy *spdy_new(void);
void spdy_free(struct spdy *spdy);
/* Takes one frame off `in`. 1 and the frame, 0 when more bytes are needed, -EPROTO. */
int spdy_next(struct spdy *spdy, struct buf *in, struct spdy_frame *ret);
/* STR_NONE when absent. */
struct str spdy_header(const struct spdy_frame *frame, const char *name);

void spdy_write_reply(struct spdy *spdy, struct buf *out, uint32_t stream);
void spdy_write_data(struct buf *out, uint32_t stream, bool fin, struct str data);
void spdy_write_reset(struct buf *out, uint32_t stream, uint32_t status);
void spdy_write_ping(struct buf *out, uint32_t id);
void spdy_write_goaway(struct buf *out, uint32_t last_stream);
