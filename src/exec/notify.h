#pragma once

#include "base/str.h"
#include "exec/executor.h"

#include <stdbool.h>

struct log;
struct sockaddr;
struct uv_loop_s;

/* notify: carries out ACTION_POST: a document goes to an address that a person wrote into a job.
 *
 * The request is made by this program, which may reach more than that person: the cluster's own
 * services, the machine's, a cloud's metadata. So the address that a name leads to is looked at when
 * it is connected to, after which it cannot change, and unless `anywhere` only public ones are;
 * redirections are not followed, proxies are not used, only http and https are spoken, and of the
 * answer nothing but its status is looked at. At most NOTIFY_UNDER_WAY_MAX requests run at a time, one of
 * a namespace, in threads of the loop's pool; more fail at once, and the controller tries again. */
#define NOTIFY_UNDER_WAY_MAX 2
#define NOTIFY_TIMEOUT_MS    5000

struct notifier;

struct notifier *notifier_new(struct uv_loop_s *loop, bool anywhere);
/* For runner_options; lives as long as the notifier. */
const struct executor_post *notifier_post(const struct notifier *notifier);
/* What is under way fails with -ECANCELED at once; its thread ends within about a second. NULL is
 * fine. */
void notifier_free(struct notifier *notifier);

/* Whether an address is one of the public internet. */
bool notify_is_public(const struct sockaddr *address);
