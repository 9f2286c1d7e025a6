#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json;
struct pod;

/* check: one run of a probe's or hook's action (exec, httpGet, tcpSocket, sleep) against a
 * container. `done` comes once, from the loop, unless check_cancel() came first. An httpGet is fine
 * with any status from 200 to 399, over HTTPS too (secure.h), where no certificate is verified. */
typedef void check_done_fn(void *user, bool ok, struct str words);

struct check_request {
    struct pod *pod;
    size_t container;
    const struct json *action; /* the object that has the member exec, httpGet, ... */
    int64_t timeout_ms;
    check_done_fn *done;
    void *user;
};

struct check;
struct check *check_start(const struct check_request *request);
void check_cancel(struct check *check); /* NULL is fine */
