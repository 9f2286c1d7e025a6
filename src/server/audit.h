#pragma once

#include "base/str.h"

#include <stdint.h>

struct audit;
struct err;
struct log;
struct request;

/* audit: who wrote what, and when: one line of JSON for each write that came over HTTP, as events
 * of audit.k8s.io/v1 at level Metadata (no bodies, so no secrets). A stream into a pod has a line
 * when it begins, too. What Muster's own controllers write is not in it.
 *
 * The file is appended to. When it passes AUDIT_BYTES_MAX it becomes FILE.1, FILE.1 becomes FILE.2,
 * and so on; AUDIT_FILES of them are kept. A line that cannot be written is counted and logged; the
 * request goes on. */
#define AUDIT_BYTES_MAX ((int64_t)64 << 20)
#define AUDIT_FILES     4
/* Of what one user is refused (401, 403, 429) only so much has a line (server/refused.h); the first
 * line of the next minute has this annotation with the number of the others. */
#define AUDIT_LEFT_OUT "torchrun.ai/refusals-left-out"

/* `bytes_max` 0: AUDIT_BYTES_MAX. */
int audit_open(const char *path,
               int64_t bytes_max,
               const struct log *log,
               struct audit **ret,
               struct err *err);
void audit_close(struct audit *audit);

/* A request that has a line, when it comes; and when it is over. */
void audit_begin(struct audit *audit, const struct request *request);
void audit_end(struct audit *audit, const struct request *request, int64_t now_ms);
/* Appends a line that is complete. */
void audit_line(struct audit *audit, struct str line);
