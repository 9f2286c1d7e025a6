#include "image/tar_stream.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#define INPUT_BYTES 65536
#define SHA_BYTES   32
#define GZIP_BITS   (15 + 16) /* zlib: a window of 32 KiB, with gzip's header */

enum packing {
    PACKING_NONE,
    PACKING_GZIP,
    PACKING_ZSTD,
};

struct tar_stream {
    int fd;
    enum packing packing;
    gnutls_hash_hd_t hash;
    z_stream gzip;
    ZSTD_DStream *zstd;
    bool ended; /* of the file */
    size_t at;
    size_t len;
    unsigned char input[INPUT_BYTES];
};

static int fill(struct tar_stream *stream, struct err *err)
{
    if (stream->at < stream->len || stream->ended)
        return 0;
    ssize_t n;
    do
        n = read(stream->fd, stream->input, sizeof(stream->input));
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_set(err, -errno, "cannot read the archive: %s", strerrordesc_np(errno));
    stream->at = 0;
    stream->len = (size_t)n;
    stream->ended = n == 0;
    if (n > 0)
        (void)gnutls_hash(stream->hash, stream->input, (size_t)n);
    return 0;
}

int tar_stream_open(int fd, struct tar_stream **ret, struct err *err)
{
    static const unsigned char gzip[] = {0x1f, 0x8b}, zstd[] = {0x28, 0xb5, 0x2f, 0xfd};
    struct tar_stream *stream = MEM_NEW(struct tar_stream);
    stream->fd = fd;
    if (gnutls_hash_init(&stream->hash, GNUTLS_DIG_SHA256) < 0) {
        mem_free(stream);
        return err_set(err, -ENOTSUP, "SHA-256 is not available");
    }
    int r = fill(stream, err);
    if (r == 0 && stream->len >= sizeof(zstd) && memcmp(stream->input, zstd, sizeof(zstd)) == 0) {
        stream->packing = PACKING_ZSTD;
        stream->zstd = ZSTD_createDStream();
        r = stream->zstd ? 0 : err_set(err, -ENOMEM, "zstd: no memory");
    } else if (r == 0 && stream->len >= 2 && memcmp(stream->input, gzip, sizeof(gzip)) == 0) {
        stream->packing = PACKING_GZIP;
        r = inflateInit2(&stream->gzip, GZIP_BITS) == Z_OK ? 0 : err_set(err, -ENOMEM, "gzip");
    }
    if (r) {
        tar_stream_close(stream);
        return r;
    }
    *ret = stream;
    return 0;
}

void tar_stream_close(struct tar_stream *stream)
{
    if (!stream)
        return;
    if (stream->packing == PACKING_GZIP)
        (void)inflateEnd(&stream->gzip);
    ZSTD_freeDStream(stream->zstd);
    gnutls_hash_deinit(stream->hash, NULL);
    mem_free(stream);
}

static ssize_t read_plain(struct tar_stream *stream, void *out, size_t size)
{
    size_t left = stream->len - stream->at;
    size_t n = left < size ? left : size;
    memcpy(out, stream->input + stream->at, n);
    stream->at += n;
    return (ssize_t)n;
}

static ssize_t read_gzip(struct tar_stream *stream, void *out, size_t size, struct err *err)
{
    z_stream *gzip = &stream->gzip;
    gzip->next_in = stream->input + stream->at;
    gzip->avail_in = (unsigned)(stream->len - stream->at);
    gzip->next_out = out;
    gzip->avail_out = (unsigned)size;
    int r = inflate(gzip, Z_NO_FLUSH);
    stream->at = stream->len - gzip->avail_in;
    if (r == Z_STREAM_END && (stream->at < stream->len || !stream->ended))
        r = inflateReset(gzip); /* members may follow each other */
    if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
        return err_set(err, -EBADMSG, "the archive is damaged (gzip)");
    return (ssize_t)(size - gzip->avail_out);
}

static ssize_t read_zstd(struct tar_stream *stream, void *out, size_t size, struct err *err)
{
    ZSTD_inBuffer in = {stream->input + stream->at, stream->len - stream->at, 0};
    ZSTD_outBuffer to = {out, size, 0};
    size_t r = ZSTD_decompressStream(stream->zstd, &to, &in);
    stream->at += in.pos;
    if (ZSTD_isError(r))
        return err_set(err, -EBADMSG, "the archive is damaged (zstd)");
    return (ssize_t)to.pos;
}

ssize_t tar_stream_read(struct tar_stream *stream, void *out, size_t size, struct err *err)
{
    size_t done = 0;
    while (done < size) {
        char *to = (char *)out + done;
        int r = fill(stream, err);
        if (r)
            return r;
        ssize_t n = stream->packing == PACKING_GZIP   ? read_gzip(stream, to, size - done, err)
                    : stream->packing == PACKING_ZSTD ? read_zstd(stream, to, size - done, err)
                                                      : read_plain(stream, to, size - done);
        if (n < 0)
            return n;
        if (n == 0 && stream->ended)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

static void digest_text(const unsigned char sum[static SHA_BYTES],
                        char out[static TAR_DIGEST_BYTES])
{
    size_t at = (size_t)snprintf(out, TAR_DIGEST_BYTES, "sha256:");
    for (size_t i = 0; i < SHA_BYTES; i++)
        at += (size_t)snprintf(out + at, TAR_DIGEST_BYTES - at, "%02x", sum[i]);
}

void tar_digest(struct str bytes, char out[static TAR_DIGEST_BYTES])
{
    unsigned char sum[SHA_BYTES] = {0};
    (void)gnutls_hash_fast(GNUTLS_DIG_SHA256, bytes.p, bytes.len, sum);
    digest_text(sum, out);
}

int tar_stream_check(struct tar_stream *stream, struct str digest, struct err *err)
{
    unsigned char sum[SHA_BYTES];
    char text[TAR_DIGEST_BYTES];
    if (!digest.len)
        return 0;
    while (!stream->ended) {
        stream->at = stream->len;
        int r = fill(stream, err);
        if (r)
            return r;
    }
    gnutls_hash_output(stream->hash, sum);
    digest_text(sum, text);
    if (!str_is(digest, text))
        return err_set(err, -EBADMSG, "its content is %s, not " STR_FMT ": fetch it again", text,
                       STR_ARG(digest));
    return 0;
}
