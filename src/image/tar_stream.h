#pragma once

#include "base/str.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

/* tar_stream: the plain bytes of a file that may be compressed, and the SHA-256 of what is stored.
 */
struct tar_stream;

int tar_stream_open(int fd, struct tar_stream **ret, struct err *err);
/* As many bytes as asked for, fewer only at the end; negative: damaged or unreadable. */
ssize_t tar_stream_read(struct tar_stream *stream, void *out, size_t size, struct err *err);
/* Reads the rest and compares; "sha256:<64 digits>". Empty: nothing to compare with. */
int tar_stream_check(struct tar_stream *stream, struct str digest, struct err *err);
void tar_stream_close(struct tar_stream *stream);

/* The digest of bytes in memory, as "sha256:...". */
#define TAR_DIGEST_BYTES 72
void tar_digest(struct str bytes, char out[static TAR_DIGEST_BYTES]);
