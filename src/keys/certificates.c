#include "keys/certificates.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/cluster/certificates.h"
#include "http/certificate.h"
#include "tool/clock.h"
#include "tool/log.h"
#include "tool/timer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Flow: watches tell the Secret and the configurations; each change, and a timer, brings
 * certificates_step(): it looks at what is there, lets control/cluster/certificates.c decide, and
 * makes one write at a time. The write shows up as a change. */

#define RETRY_MS     INT64_C(2000) /* after a write that failed */
#define SEEN_MS      INT64_C(100)  /* after one that did not: its change is seen by then */
#define TIMER_MAX_MS INT64_C(3600000)
#define OLD_MAX      2 /* authorities kept beside the newest */

/* Only read and patched by name, so no part of the registry: nothing here serves them. */
static const struct kind kind_mutating = {
    .group = "admissionregistration.k8s.io",
    .version = "v1",
    .name = "MutatingWebhookConfiguration",
    .plural = "mutatingwebhookconfigurations",
    .singular = "mutatingwebhookconfiguration",
    .short_names = "",
    .categories = "",
    .strategic = true,
};
static const struct kind kind_validating = {
    .group = "admissionregistration.k8s.io",
    .version = "v1",
    .name = "ValidatingWebhookConfiguration",
    .plural = "validatingwebhookconfigurations",
    .singular = "validatingwebhookconfiguration",
    .short_names = "",
    .categories = "",
    .strategic = true,
};

enum watched {
    WATCHED_SECRET,
    WATCHED_MUTATING,
    WATCHED_VALIDATING,
    WATCHED_COUNT,
};

struct watched_one {
    struct certificates *owner;
    const struct kind *kind;
    struct api_watch *watch;
    const struct object *object; /* NULL: it does not exist */
    bool synced;
};

struct certificates {
    struct certificates_options options;
    struct watched_one watched[WATCHED_COUNT];
    struct timer *timer;
    uint64_t served; /* revision of the Secret that was served last */
    bool leading;
    bool calling;
    bool stopped; /* freed when the call under way is back */
};

static void on_timer(void *user);

static void certificates_look_in(struct certificates *certificates, int64_t delay_ms)
{
    timer_in(certificates->timer, delay_ms > TIMER_MAX_MS ? TIMER_MAX_MS : delay_ms, on_timer);
}

/* ---- what is there ---- */

struct content {
    struct str ca, ca_key, certificate, key;
};

static struct str data_member(struct arena *arena, const struct json *data, const char *key)
{
    struct str bytes = STR_NONE;

    return base64_decode(arena, json_str(json_get(data, key)), &bytes) ? bytes : STR_NONE;
}

static struct content content_of(struct arena *arena, const struct object *secret)
{
    const struct json *data = secret ? json_get(object_json(secret, arena), "data") : NULL;

    return (struct content){.ca = data_member(arena, data, "ca.crt"),
                            .ca_key = data_member(arena, data, "ca.key"),
                            .certificate = data_member(arena, data, "tls.crt"),
                            .key = data_member(arena, data, "tls.key")};
}

static bool names_ca(struct arena *arena, const struct object *configuration, struct str ca)
{
    if (!configuration)
        return true;
    JSON_FOREACH(json_get(object_json(configuration, arena), "webhooks"), webhook) {
        struct str bytes = STR_NONE;
        struct str text = json_str_at(webhook, "clientConfig.caBundle");

        if (!base64_decode(arena, text, &bytes) || !str_eq(bytes, ca))
            return false;
    }
    return true;
}

static struct str host_of(const struct certificates *certificates, struct arena *arena)
{
    return str_printf(arena, "%s.%s.svc", certificates->options.service, certificates->options.ns);
}

static struct certificates_span span_of(struct str pem)
{
    struct certificate_facts facts = {0};

    return certificate_look(pem, &facts)
               ? (struct certificates_span){.start_ms = facts.start_ms, .end_ms = facts.end_ms}
               : (struct certificates_span){0};
}

static bool has_names(const struct certificates *certificates,
                      struct arena *arena,
                      struct str certificate)
{
    const char *alias = certificates->options.alias;

    return certificate_is_for(certificate, host_of(certificates, arena).p) &&
           (!alias || certificate_is_for(certificate, alias));
}

static struct certificates_facts facts_of(const struct certificates *certificates,
                                          struct arena *arena,
                                          const struct content *content)
{
    struct certificates_facts facts = {
        .now_ms = clock_now_ms(),
        .authority = span_of(content->ca),
        .certificate = span_of(content->certificate),
        .fits = certificate_is_signed_by(content->certificate, content->ca) &&
                has_names(certificates, arena, content->certificate),
        .told = names_ca(arena, certificates->watched[WATCHED_MUTATING].object, content->ca) &&
                names_ca(arena, certificates->watched[WATCHED_VALIDATING].object, content->ca),
    };

    /* Certificates are dated back for clocks that are late; what counts is when they were made. */
    if (facts.authority.start_ms)
        facts.authority.start_ms += CERTIFICATE_EARLY_MS;
    if (facts.certificate.start_ms)
        facts.certificate.start_ms += CERTIFICATE_EARLY_MS;
    if (!content->ca_key.len)
        facts.authority = (struct certificates_span){0};
    if (!content->key.len)
        facts.certificate = (struct certificates_span){0};
    return facts;
}

/* ---- writes ---- */

static void on_written(void *user, const struct api_result *result)
{
    struct certificates *certificates = user;

    certificates->calling = false;
    if (certificates->stopped) {
        mem_free(certificates);
        return;
    }
    if (result->code && result->err->http_status != 409)
        log_warn(certificates->options.log, "certificates.write", LOG_ERR(result->err));
    /* The change may have come before the answer. */
    certificates_look_in(certificates, result->code ? RETRY_MS : SEEN_MS);
}

static void add_data(struct arena *arena, struct json *data, const char *key, struct str bytes)
{
    json_add_str(arena, data, key, base64_encode(arena, bytes));
}

/* `data` becomes members of the Secret, which is made if it is not there. */
static void secret_write(struct certificates *certificates, struct arena *arena, struct json *data)
{
    const struct object *old = certificates->watched[WATCHED_SECRET].object;
    struct json *body = json_new_object(arena);
    struct json *meta = json_add_object(arena, body, "metadata");

    if (old) {
        json_add_str(arena, meta, "resourceVersion",
                     str_printf(arena, "%llu", (unsigned long long)old->revision));
    } else {
        json_fill(arena, body, "{apiVersion: 'v1', kind: 'Secret', type: 'Opaque'}");
        json_fill(arena, meta, "{name: $, namespace: $}", certificates->options.secret,
                  certificates->options.ns);
    }
    json_set(body, STR("data"), data);
    certificates->calling = true;
    api_call(certificates->options.api,
             &(struct api_request){.verb = old ? API_PATCH : API_CREATE,
                                   .kind = &kind_secret,
                                   .ns = str_from(certificates->options.ns),
                                   .name = old ? old->name : STR_NONE,
                                   .patch = API_PATCH_MERGE,
                                   .body = json_text(arena, body)},
             on_written, certificates);
}

static void authority_make(struct certificates *certificates,
                           struct arena *arena,
                           const struct content *content,
                           int64_t lifetime_ms)
{
    _cleanup_(buf_done) struct buf ca = {0};
    _cleanup_(buf_done) struct buf key = {0};
    struct json *data = json_new_object(arena);
    int64_t now_ms = clock_now_ms();
    struct str rest = content->ca;
    struct str old;
    struct err err = {0};

    if (certificate_authority(now_ms, lifetime_ms * CERTIFICATES_AUTHORITY,
                              &(struct certificate_pair){&ca, &key}, &err) < 0) {
        log_error(certificates->options.log, "certificates.make", LOG_ERR(&err));
        return;
    }
    for (size_t kept = 0; kept < OLD_MAX && certificate_cut(&rest, &old); kept++)
        if (span_of(old).end_ms > now_ms) {
            buf_add(&ca, old);
            buf_addc(&ca, '\n');
        }
    add_data(arena, data, "ca.crt", buf_str(&ca));
    add_data(arena, data, "ca.key", buf_str(&key));
    log_info(certificates->options.log, "certificates.authority",
             LOG_C("secret", certificates->options.secret));
    secret_write(certificates, arena, data);
}

static void certificates_sign(struct certificates *certificates,
                              struct arena *arena,
                              const struct content *content,
                              int64_t lifetime_ms)
{
    _cleanup_(buf_done) struct buf certificate = {0};
    _cleanup_(buf_done) struct buf key = {0};
    struct json *data = json_new_object(arena);
    struct str host = host_of(certificates, arena);
    /* Loopback: for whoever forwards the port. */
    const char *names[] = {host.p, "localhost", "127.0.0.1", "::1", certificates->options.alias,
                           NULL};
    struct err err = {0};

    if (certificate_sign(&(struct certificate_wish){.ca = content->ca,
                                                    .ca_key = content->ca_key,
                                                    .names = names,
                                                    .now_ms = clock_now_ms(),
                                                    .lifetime_ms = lifetime_ms},
                         &(struct certificate_pair){&certificate, &key}, &err) < 0) {
        log_error(certificates->options.log, "certificates.sign", LOG_ERR(&err));
        return;
    }
    add_data(arena, data, "tls.crt", buf_str(&certificate));
    add_data(arena, data, "tls.key", buf_str(&key));
    log_info(certificates->options.log, "certificates.signed", LOG_STR("host", host));
    secret_write(certificates, arena, data);
}

/* One configuration at a time: the change brings the next step. */
static void certificates_tell(struct certificates *certificates, struct arena *arena, struct str ca)
{
    struct json *body = json_new_object(arena);
    const struct watched_one *one = &certificates->watched[WATCHED_MUTATING];

    if (names_ca(arena, one->object, ca))
        one = &certificates->watched[WATCHED_VALIDATING];
    struct json *list = json_add_array(arena, body, "webhooks");
    json_add_str(arena, json_add_object(arena, body, "metadata"), "resourceVersion",
                 str_printf(arena, "%llu", (unsigned long long)one->object->revision));
    JSON_FOREACH(json_get(object_json(one->object, arena), "webhooks"), webhook) {
        json_push(list, json_make(arena, "{name: $, clientConfig: {caBundle: $}}",
                                  json_str(json_get(webhook, "name")), base64_encode(arena, ca)));
    }
    certificates->calling = true;
    api_call(certificates->options.api,
             &(struct api_request){.verb = API_PATCH,
                                   .kind = one->kind,
                                   .name = one->object->name,
                                   .patch = API_PATCH_STRATEGIC, /* merges webhooks by name */
                                   .body = json_text(arena, body)},
             on_written, certificates);
}

/* ---- steps ---- */

static void certificates_serve(struct certificates *certificates)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct object *secret = certificates->watched[WATCHED_SECRET].object;
    struct content content = content_of(&arena, secret);

    if (!secret || secret->revision == certificates->served || !content.certificate.len ||
        !content.key.len)
        return;
    certificates->served = secret->revision;
    certificates->options.serve(certificates->options.user,
                                &(struct certificates_served){.certificate = content.certificate,
                                                              .key = content.key,
                                                              .authorities = content.ca});
}

static void certificates_step(struct certificates *certificates)
{
    _cleanup_(arena_done) struct arena arena = {0};
    int64_t lifetime_ms = certificates->options.lifetime_ms ? certificates->options.lifetime_ms
                                                            : CERTIFICATES_LIFETIME_MS;
    int64_t at_ms = 0;

    certificates_serve(certificates);
    for (size_t i = 0; i < WATCHED_COUNT; i++)
        if (!certificates->watched[i].synced)
            return;
    if (!certificates->leading || certificates->calling)
        return;
    struct content content = content_of(&arena, certificates->watched[WATCHED_SECRET].object);
    struct certificates_facts facts = facts_of(certificates, &arena, &content);
    switch (certificates_decide(&facts, &at_ms)) {
    case CERTIFICATES_WAIT: certificates_look_in(certificates, at_ms - facts.now_ms); break;
    case CERTIFICATES_MAKE: authority_make(certificates, &arena, &content, lifetime_ms); break;
    case CERTIFICATES_TELL: certificates_tell(certificates, &arena, content.ca); break;
    case CERTIFICATES_SIGN: certificates_sign(certificates, &arena, &content, lifetime_ms); break;
    }
}

static void on_timer(void *user)
{
    certificates_step(user);
}

static void on_change(void *user, const struct api_change *change)
{
    struct watched_one *one = user;

    switch (change->event) {
    case API_ADDED:
    case API_MODIFIED:
        object_unref(one->object);
        one->object = object_ref(change->object);
        break;
    case API_DELETED:
        object_unref(one->object);
        one->object = NULL;
        break;
    case API_SYNCED: one->synced = true; break;
    case API_BOOKMARK:
    case API_CLOSED: return;
    }
    certificates_step(one->owner);
}

static void certificates_watch(struct certificates *certificates,
                               enum watched which,
                               const struct kind *kind,
                               const char *name)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct watched_one *one = &certificates->watched[which];

    one->owner = certificates;
    one->kind = kind;
    one->watch =
        api_watch(certificates->options.api,
                  &(struct api_watch_request){
                      .kind = kind,
                      .ns = which == WATCHED_SECRET ? str_from(certificates->options.ns) : STR(""),
                      .field_selector = str_printf(&arena, "metadata.name=%s", name)},
                  on_change, one);
}

struct certificates *certificates_start(const struct certificates_options *options)
{
    struct certificates *certificates = MEM_NEW(struct certificates);

    certificates->options = *options;
    certificates->timer = timer_new(options->loop, certificates);
    timer_unref(certificates->timer);
    certificates_watch(certificates, WATCHED_SECRET, &kind_secret, options->secret);
    return certificates;
}

void certificates_lead(struct certificates *certificates, bool leads)
{
    certificates->leading = leads;
    if (leads && certificates->watched[WATCHED_MUTATING].watch) {
        certificates_step(certificates);
        return;
    }
    if (!leads)
        return;
    certificates_watch(certificates, WATCHED_MUTATING, &kind_mutating,
                       certificates->options.configuration);
    certificates_watch(certificates, WATCHED_VALIDATING, &kind_validating,
                       certificates->options.configuration);
}

void certificates_stop(struct certificates *certificates)
{
    if (!certificates)
        return;
    for (size_t i = 0; i < WATCHED_COUNT; i++) {
        api_watch_stop(certificates->options.api, certificates->watched[i].watch);
        object_unref(certificates->watched[i].object);
        certificates->watched[i].object = NULL;
    }
    timer_free(certificates->timer);
    certificates->stopped = true;
    if (!certificates->calling)
        mem_free(certificates);
}
