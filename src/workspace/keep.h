#pragma once

#include "base/str.h"

#include <stdint.h>

struct err;
struct httpd_conn;

/* keep: what the ranks of a job printed, kept in the workspace volume so that it can be read when
 * the pods are gone. Workers send it while they run, so a killed pod or a lost node loses at most
 * the last second. One file a generation and pod in WS_PRIVATE_DIR/logs; each bounded, the oldest
 * generations dropped.
 *
 *   POST /v1/log?rank=N&generation=G&offset=O   text that goes behind the first O bytes
 *   GET  /v1/log?rank=N&generation=G            all of it
 *   GET  /v1/log?generation=G                   whose there is: a number a line */
#define KEEP_FILE_MAX ((uint64_t)32 << 20)
/* The last line of a file that could not take all. */
#define KEEP_CUT_TEXT        "\n[muster] the log is cut here: 32 MB are kept of each pod and generation\n"
#define KEEP_GENERATIONS_MAX 16

/* Pieces may be repeated: what is there already is not added again. */
int keep_add(int root_fd,
             uint64_t generation,
             uint64_t rank,
             uint64_t offset,
             struct str text,
             struct err *err);
/* Answer such a request; `body` is empty for GET. */
void keep_answer(int root_fd, struct httpd_conn *conn, struct str body);
