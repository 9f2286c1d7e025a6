#pragma once

#include "base/str.h"

struct server_whatif;
struct uv_loop_s;
struct whatif;

/* whatif: the page's "what if": `muster simulate --live` in a process of its own, so that it has the
 * code of the command, the rights of the viewer, and not the loop of the server. */
struct whatif *whatif_new(struct uv_loop_s *loop, struct str url, struct str ca);
/* Ends what runs; run the loop once more. NULL is fine. */
void whatif_free(struct whatif *whatif);
/* The `ask` of server_set_whatif(). */
void whatif_ask(void *user, const struct server_whatif *question);
