#pragma once

#include "base/str.h"

#include <stdbool.h>

struct object;
struct session;
struct spent;

/* report: what jobs spent their time on: of muster up the accounts that it keeps (GET /accounts), of
 * any other cluster, and for who may not read those, the status of the jobs that exist. */

/* What the server keeps at `path`, "/accounts" or "/history", with a query behind it: of all namespaces, or of the one that is
 * chosen where that is all one may see. Its lines; empty: nothing. */
struct str report_ask(struct session *session, const char *path, const char *query);
/* The lines of plugin/spent.h that the server keeps, of all jobs or of one; empty: it keeps none, or not for us. */
struct str report_kept(struct session *session, struct str uid);
/* Of one job. False: nothing is known. On the session's arena. */
bool report_of_job(struct session *session, const struct object *job, struct spent *ret);
