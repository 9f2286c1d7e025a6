#pragma once

#include "hook/client.h"

struct api;
struct hook;
struct hooks;
struct uv_loop_s;

/* hook: admission webhooks, between everybody who writes and the embedded store.
 *
 * hooks_api() is the store's struct api with one difference: a create, update, patch or delete that
 * a Mutating- or ValidatingWebhookConfiguration is about waits for what the webhooks say. Where
 * none is about it, the call goes straight through. Below it are the conversion webhooks of CRDs
 * (hook/convert.h).
 *
 * The store stages a write in one go and cannot wait, so a write that is asked about is made up to
 * three times (struct api_review):
 *
 *   1. without effect, until the object has its defaults   -> mutating webhooks, one after another
 *   2. without effect, with their changes, to its end      -> validating webhooks, all at once
 *   3. with effect, with their changes
 *
 * A connection to a pod (exec, attach, portforward) is asked about before the pod is looked up; its
 * options cannot be changed.
 *
 * Each time the object that it changes must be the one it was: else all is asked again, a few times,
 * and then the writer hears of a conflict. So nothing is stored that no webhook has seen. */
#define HOOK_TRIES_MAX 5

/* Who puts the questions: hook_client_ask(), or a test. */
struct hook_asker {
    void (*ask)(void *asker,
                const struct hook *hook,
                struct str body,
                hook_answer_fn *answer,
                void *user);
    void *asker;
};

/* `asker` NULL: over HTTPS. */
struct hooks *hooks_new(struct uv_loop_s *loop, struct api *below, const struct hook_asker *asker);
struct api *hooks_api(struct hooks *hooks);
/* Before the store is closed: writes that wait for a webhook are refused, and nobody is asked any
 * more. NULL is fine. */
void hooks_stop(struct hooks *hooks);
/* When the store has given its last answers. NULL is fine. */
void hooks_free(struct hooks *hooks);
