#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct err;
struct httpd_conn;
struct keep_results;

/* keep_results: what the first pod of a job wrote into its folder, kept in the workspace volume when
 * that pod has ended: a kubelet gives nobody the folder of such a pod. The launcher sends the stream
 * of workspace/results.h at its end, and it is a file here as it came, one a generation, in
 * WS_PRIVATE_DIR/results. A stream without an end was cut, and whoever reads it is told.
 *
 *   POST /v1/results?rank=N&generation=G&offset=O   frames that go behind the first O bytes; 0
 *                                                   begins anew
 *   GET  /v1/results?rank=N&generation=G[&path=P][&list=true]   the stream, or what of it is asked for
 *
 * All generations together are bounded: the oldest go first. What is too much on its own is not
 * kept, and the stream says so instead. */
#define KEEP_RESULTS_BYTES_MAX ((uint64_t)20 << 30) /* as much as `submit` copies by itself */
#define KEEP_RESULTS_MAX       16                   /* generations */

struct keep_results_piece {
    uint64_t generation;
    uint64_t rank;
    uint64_t offset;
    struct str frames;
};
/* Pieces may be repeated. -EFBIG, -ENOSPC: it is not kept; -ESTALE: not the next piece. */
int keep_results_add(int root_fd,
                     const struct keep_results_piece *piece,
                     uint64_t bytes_max,
                     struct err *err);

struct keep_results_request {
    uint64_t generation;
    uint64_t rank;
    struct str path; /* only that file, or what is in that folder; empty: everything */
    bool list;       /* entries instead of contents */
};
/* NULL: nothing is kept. */
struct keep_results *keep_results_open(int root_fd, const struct keep_results_request *request);
struct buf;
/* Some of it, bounded. 1: there is more; 0: that was all. */
int keep_results_read(struct keep_results *kept, struct buf *out);
void keep_results_close(struct keep_results *kept);

/* Answer such a request; `body` is empty for GET. Not NULL: a stream has begun, which
 * keep_results_more() goes on with. */
struct keep_results *keep_results_answer(int root_fd, struct httpd_conn *conn, struct str body);
/* False: it is over. */
bool keep_results_more(struct keep_results *kept, struct httpd_conn *conn);
