#pragma once

#include "base/str.h"

#include <stdbool.h>

struct httpd_conn;

/* facts: what clients of etcd ask a server about itself before they use it. */
bool facts_has(struct str path);
/* Answers such a request; false: it is none. */
bool facts_answer(struct httpd_conn *conn);
