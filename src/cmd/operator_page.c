#include "cmd/operator_page.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "cmd/connect.h"
#include "cmd/operator.h"
#include "cmd/whatif.h"
#include "http/tls.h"
#include "kube/kube.h"
#include "kube/kubeconfig.h"
#include "portal/portal.h"
#include "tool/file.h"
#include "tool/log.h"
#include "tool/timer.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The web page of `muster operator` (portal/portal.h): every replica serves it, leading or not. */

#define CERTIFICATE_MS 60000 /* how soon a new one is served */

struct operator_page {
    struct operator* op;
    const struct operator_page_values *values;
    struct portal *portal;
    struct whatif *whatif;
    struct timer *timer;
    struct buf pem; /* certificate, key and authority that are served */
};

/* *ret is NULL when the files are as they were. */
static int identity_read(struct operator_page *page, struct tls_identity **ret, struct err *err)
{
    const struct operator_page_values *values = page->values;
    _cleanup_(arena_done) struct arena arena = {0};
    struct str certificate = STR_NONE;
    struct str key = STR_NONE;
    struct str ca = STR_NONE;
    int r = file_read(&arena, values->certificate, &certificate, err);

    if (r == 0)
        r = file_read(&arena, values->key, &key, err);
    if (r == 0 && values->proxy_client_ca)
        r = file_read(&arena, values->proxy_client_ca, &ca, err);
    if (r < 0)
        return r;
    struct str all = str_printf(&arena, STR_FMT "\n" STR_FMT "\n" STR_FMT, STR_ARG(certificate),
                                STR_ARG(key), STR_ARG(ca));
    *ret = NULL;
    if (str_eq(all, buf_str(&page->pem)))
        return 0;
    r = tls_identity_new(certificate, key, ca, ret, err);
    if (r < 0)
        return r;
    buf_clear(&page->pem);
    buf_add(&page->pem, all);
    return 0;
}

/* A Secret that is mounted is replaced file by file: a pair that does not fit is tried again. */
static void on_timer(void *user)
{
    struct operator_page *page = user;
    struct tls_identity *identity = NULL;
    struct err err = {0};

    if (identity_read(page, &identity, &err) < 0)
        log_warn(&page->op->log, "page.certificate", LOG_ERR(&err));
    if (!identity)
        return;
    portal_set_tls(page->portal, identity);
    tls_identity_free(identity);
    log_info(&page->op->log, "page.certificate", LOG_C("served", page->values->certificate));
}

static bool address_is_loopback(const char *address)
{
    return str_starts(str_from(address), STR("127.")) || str_is(str_from(address), "::1");
}

static int values_check(const struct operator_page_values *values,
                        const char *address,
                        struct err *err)
{
    if (!values->certificate != !values->key)
        return err_set(err, -EINVAL,
                       "--page-certificate and --page-key: one is of no use without the other");
    if (!values->certificate && !values->plain && !address_is_loopback(address))
        return err_set(err, -EINVAL,
                       "--page-listen: tokens would cross the network in clear text: name "
                       "--page-certificate and --page-key, or --page-plain where something in "
                       "front has TLS, or listen at 127.0.0.1 for kubectl port-forward");
    if (!values->proxy_client_ca != !values->proxy_client_name)
        return err_set(err, -EINVAL,
                       "--page-proxy-client-ca and --page-proxy-client-name: one is of no use "
                       "without the other");
    if (values->proxy_client_ca && !values->certificate)
        return err_set(err, -EINVAL,
                       "--page-proxy-client-ca: a certificate is shown over TLS, which needs "
                       "--page-certificate and --page-key");
    if (!*values->proxy_user_header || !*values->proxy_group_header)
        return err_set(err, -EINVAL,
                       "--page-proxy-user-header and --page-proxy-group-header: an empty name is "
                       "no header");
    return 0;
}

static int proxy_rules(struct operator_page *page, struct proxied_rules *ret, struct err *err)
{
    const struct operator_page_values *values = page->values;
    struct str secret = STR_NONE;

    if (values->proxy_secret_file) {
        int r = file_read(page->op->arena, values->proxy_secret_file, &secret, err);

        if (r < 0)
            return r;
        secret = str_trim(secret);
        if (secret.len < PROXIED_SECRET_MIN)
            return err_set(err, -EINVAL,
                           "--page-proxy-secret-file: the secret in %s has fewer than %d bytes, so "
                           "it could be guessed",
                           values->proxy_secret_file, PROXIED_SECRET_MIN);
    }
    *ret = (struct proxied_rules){.user_header = values->proxy_user_header,
                                  .group_header = values->proxy_group_header,
                                  .secret = secret,
                                  .peer_name = values->proxy_client_name};
    return 0;
}

static const char *const *names_of(struct operator_page *page)
{
    const struct option_list *list = &page->values->names;
    const char **names = ARENA_ARRAY(page->op->arena, const char *, list->count + 1);

    for (size_t i = 0; i < list->count; i++)
        names[i] = list->items[i];
    return names;
}

static int page_open(struct operator_page *page,
                     const struct connect_options *connect,
                     const struct portal_options *given,
                     struct err *err)
{
    struct portal_options options = *given;
    struct kube_config config = {0};
    int r = connect_config(page->op->arena, connect, &config, err);

    if (r == 0 && page->values->certificate)
        r = identity_read(page, &options.tls, err);
    if (r < 0)
        return r;
    options.config = &config;
    r = portal_start(&options, &page->portal, err);
    tls_identity_free(options.tls);
    if (r < 0)
        return r;
    page->whatif = whatif_new(&page->op->loop, str_from(config.server), config.ca_pem);
    portal_set_whatif(page->portal, whatif_ask, page->whatif);
    page->timer = timer_new(&page->op->loop, page);
    if (page->values->certificate)
        timer_every(page->timer, CERTIFICATE_MS, CERTIFICATE_MS, on_timer);
    log_info(&page->op->log, "page.ready", LOG_I64("port", portal_port(page->portal)));
    return 0;
}

int operator_page_start(struct operator* op,
                        const struct operator_page_values *values,
                        const struct connect_options *connect,
                        struct err *err)
{
    char address[OPERATOR_ADDRESS_BYTES];
    struct portal_options options = {.loop = &op->loop,
                                     .api = kube_api(op->kube),
                                     .address = address,
                                     .secure = values->certificate || values->plain,
                                     .log = &op->log};

    if (!values->listen || !*values->listen)
        return 0;
    int r = operator_listen_parse("--page-listen", values->listen, address, &options.port, err);
    if (r == 0)
        r = values_check(values, address, err);
    if (r < 0)
        return r;
    struct operator_page *page = op->page = MEM_NEW(struct operator_page);
    page->op = op;
    page->values = values;
    options.names = names_of(page);
    r = proxy_rules(page, &options.proxy, err);
    return r < 0 ? r : page_open(page, connect, &options, err);
}

void operator_page_stop(struct operator* op)
{
    struct operator_page *page = op->page;

    if (!page)
        return;
    whatif_free(page->whatif);
    portal_stop(page->portal);
    timer_free(page->timer);
    buf_done(&page->pem);
    mem_free(page);
    op->page = NULL;
}
