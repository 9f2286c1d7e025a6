#include "keys/signer.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/certificate.h"
#include "tool/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLIENT_SIGNER "kubernetes.io/kube-apiserver-client"

struct signer {
    struct signer_options options;
    struct api_watch *watch;
};

static bool has_condition(const struct json *root, const char *type)
{
    JSON_FOREACH(json_at(root, "status.conditions"), condition)
        if (str_is(json_str(json_get(condition, "type")), type))
            return true;
    return false;
}

static void add_failure(struct arena *arena,
                        struct json *root,
                        const char *reason,
                        const char *words)
{
    struct json *status = json_make_path(arena, root, "status");
    struct json *list = json_get(status, "conditions");
    struct json *condition = json_push(list ? list : json_add_array(arena, status, "conditions"),
                                       json_new_object(arena));

    json_add_c(arena, condition, "type", "Failed");
    json_add_c(arena, condition, "status", "True");
    json_add_c(arena, condition, "reason", reason);
    json_add_str(arena, condition, "message", str_dup(arena, str_from(words)));
}

/* Its usages are those that this signer gives, and client auth is among them. */
static bool usages_suit(const struct json *root)
{
    bool client = false;

    JSON_FOREACH(json_at(root, "spec.usages"), usage) {
        struct str word = json_str(usage);

        client |= str_is(word, "client auth");
        if (!str_is(word, "client auth") && !str_is(word, "digital signature") &&
            !str_is(word, "key encipherment"))
            return false;
    }
    return client;
}

static void sign(struct signer *signer, struct arena *arena, struct json *root)
{
    _cleanup_(buf_done) struct buf certificate = {0};
    struct str request = STR("");
    struct err err = {0};
    int64_t seconds = json_i64_or(json_at(root, "spec.expirationSeconds"), SIGNER_SECONDS_DEFAULT);

    if (seconds > SIGNER_SECONDS_DEFAULT)
        seconds = SIGNER_SECONDS_DEFAULT;
    if (!usages_suit(root)) {
        add_failure(arena, root, "SignerValidationFailure",
                    "spec.usages: " CLIENT_SIGNER
                    " signs for \"client auth\", with \"digital signature\" and \"key "
                    "encipherment\" and nothing else");
        return;
    }
    (void)base64_decode(arena, json_str_at(root, "spec.request"), &request);
    if (certificate_sign_client(&(struct certificate_request){.ca = signer->options.ca,
                                                              .ca_key = signer->options.ca_key,
                                                              .request = request,
                                                              .now_ms = clock_now_ms(),
                                                              .lifetime_ms = seconds * 1000},
                                &certificate, &err) < 0) {
        add_failure(arena, root, "SignerValidationFailure", err.text);
        return;
    }
    json_add_str(arena, json_make_path(arena, root, "status"), "certificate",
                 base64_encode(arena, buf_str(&certificate)));
}

/* What there is to do with one; false: nothing. */
static bool settle(struct signer *signer, struct arena *arena, struct json *root)
{
    struct str name = json_str_at(root, "spec.signerName");

    if (!has_condition(root, "Approved") || has_condition(root, "Failed") ||
        has_condition(root, "Denied") || json_str_at(root, "status.certificate").len)
        return false;
    if (str_is(name, CLIENT_SIGNER)) {
        sign(signer, arena, root);
        return true;
    }
    if (!str_starts(name, STR("kubernetes.io/")))
        return false;
    add_failure(arena, root, "SignerNotServed",
                "this server signs for " CLIENT_SIGNER
                " only; certificates of nodes and servers have to come from elsewhere");
    return true;
}

static void on_change(void *user, const struct api_change *change)
{
    struct signer *signer = user;
    _cleanup_(arena_done) struct arena arena = {0};

    if (!change->object || change->event == API_DELETED)
        return;
    struct json *root = json_clone(&arena, object_json(change->object, &arena));
    if (!settle(signer, &arena, root))
        return;
    /* With the resourceVersion that it was decided on: a conflict is told by the next change. */
    api_call(signer->options.api,
             &(struct api_request){.verb = API_UPDATE,
                                   .kind = &kind_csr,
                                   .name = change->object->name,
                                   .subresource = STR("status"),
                                   .body = json_text(&arena, root)},
             api_ignore, NULL);
}

struct signer *signer_start(const struct signer_options *options)
{
    struct signer *signer = MEM_NEW(struct signer);

    signer->options = *options;
    signer->watch =
        api_watch(options->api, &(struct api_watch_request){.kind = &kind_csr}, on_change, signer);
    return signer;
}

void signer_stop(struct signer *signer)
{
    if (!signer)
        return;
    api_watch_stop(signer->options.api, signer->watch);
    mem_free(signer);
}
