#pragma once

#include "base/str.h"

struct api;
struct err;
struct hook;
struct hook_client;
struct uv_loop_s;

/* client: one question to one webhook over HTTPS. The event loop is never blocked; what is under way
 * is bounded, the rest waits its turn. */
#define HOOK_CALLS_MAX   64   /* under way at a time */
#define HOOK_WAITING_MAX 1024 /* behind them; a further one fails at once */
#define HOOK_SERVERS_MAX 128  /* whose connections are kept */

/* The answer's body, or why there is none; exactly once, from the loop. */
typedef void hook_answer_fn(void *user, struct str body, const struct err *err);

struct hook_client *hook_client_new(struct uv_loop_s *loop, struct api *api);
/* What is under way is never answered. */
void hook_client_free(struct hook_client *client);

/* `body` is copied; `hook` is used until the answer. */
void hook_client_ask(struct hook_client *client,
                     const struct hook *hook,
                     struct str body,
                     hook_answer_fn *answer,
                     void *user);
