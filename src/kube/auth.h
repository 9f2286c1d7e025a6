#pragma once

#include "base/str.h"

#include <stdbool.h>

struct err;
struct kube_config;
struct transport_tls;
struct uv_loop_s;

/* auth: the credential of the moment.
 *
 * Files (a token, the cluster's authority, a client certificate and its key) are read again every
 * AUTH_FILE_MS, and at once when the server refused us or could not be reached, because they are
 * rotated; what cannot be read or is cut short leaves what was there. An exec plugin is run when a
 * credential is first needed, again AUTH_EARLY_MS before the moment it named as its end, and after
 * a 401; it runs beside the loop, never longer than AUTH_EXEC_MS. Certificates and keys are held in
 * files without a name (memfd), since the TLS library reads files only. */
#define AUTH_FILE_MS        60000
#define AUTH_EARLY_MS       30000
#define AUTH_EXEC_MS        60000
#define AUTH_EXEC_RETRY_MS  5000              /* between two runs, whatever it says or does */
#define AUTH_EXEC_BYTES_MAX ((size_t)1 << 20) /* of its output */

struct auth;

/* `changed` comes from the loop when a credential that was being fetched is there (or failed), and
 * from auth_token() when files have changed. The config is copied. */
int auth_new(struct uv_loop_s *loop,
             const struct kube_config *config,
             void (*changed)(void *user),
             void *user,
             struct auth **ret,
             struct err *err);
void auth_free(struct auth *auth);

const char *auth_server(const struct auth *auth);
const char *auth_proxy(const struct auth *auth); /* or NULL */
/* Valid until `changed` is called. */
const struct transport_tls *auth_tls(const struct auth *auth);

/* The bearer token, empty when none is needed; valid until the loop turns. -EAGAIN: being fetched,
 * `changed` will be called; other codes: why there is none. */
int auth_token(struct auth *auth, struct str *ret, struct err *err);
/* The server refused the credential. True when another one may be had: ask auth_token() again. */
bool auth_expire(struct auth *auth);
/* The server could not be reached: its certificate, or ours, may be another by now. */
void auth_doubt(struct auth *auth);
