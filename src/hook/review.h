#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct err;
struct json;
struct policy_request;

/* review: AdmissionReview v1, asked and answered. Pure. */
#define REVIEW_BYTES_MAX    ((size_t)3 << 20) /* of an answer: an object of 1.5 MiB as base64 */
#define REVIEW_WARNINGS_MAX 20                /* of one answer; further ones are dropped */
#define REVIEW_WARNING_MAX  256               /* characters of one */

/* One webhook of a configuration. */
struct hook {
    bool mutating;
    struct str configuration;
    struct str name;
    const struct json *spec;  /* of the webhook */
    const struct json *rules; /* its rules as policy_matches() wants them */
    const struct json *match; /* the same with its selectors */
    bool ignore;              /* failurePolicy */
    bool again;               /* reinvocationPolicy IfNeeded */
    int timeout_seconds;
};

/* The webhooks of a configuration, in its order, the first `max` of them. */
size_t review_hooks(struct arena *arena,
                    const struct json *configuration,
                    bool mutating,
                    struct hook *ret,
                    size_t max);

struct str review_write(const struct policy_request *request, struct str uid);

struct review_answer {
    bool allowed;
    int code;          /* of a refusal, at least 400 */
    struct str reason; /* may be empty */
    struct str message;
    const struct json *patch; /* NULL: none */
    struct str warnings;      /* one a line */
};

/* -EINVAL: it is no answer to that question, and the words say why. */
int review_read(struct arena *arena,
                const struct hook *hook,
                struct str uid,
                struct str body,
                struct review_answer *ret,
                struct err *err);
