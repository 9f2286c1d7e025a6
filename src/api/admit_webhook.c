#include "api/admit.h"
#include "api/kind.h"
#include "api/names.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The two kinds of webhook configurations: what the tables of types do not say of them. */

static struct str at(struct admit *admit, struct str path, const char *rest)
{
    return str_printf(admit->arena, STR_FMT ".%s", STR_ARG(path), rest);
}

void admit_webhook_default(struct admit *admit)
{
    JSON_FOREACH(json_get(admit->object, "webhooks"), webhook)
        JSON_FOREACH(json_get(webhook, "rules"), rule)
            admit_fill_c(admit, rule, "scope", "*");
}

static void check_service(struct admit *admit, const struct json *service, struct str path)
{
    const struct json *way = json_get(service, "path");
    int64_t port = json_i64_or(json_get(service, "port"), 443);

    if (!json_str(json_get(service, "name")).len)
        admit_required(admit, at(admit, path, "name"), "service name is required");
    if (!json_str(json_get(service, "namespace")).len)
        admit_required(admit, at(admit, path, "namespace"), "service namespace is required");
    if (port < 1 || port > 65535)
        admit_invalid(admit, at(admit, path, "port"), json_get(service, "port"),
                      "port is not valid: must be between 1 and 65535, inclusive");
    if (json_str(way).len && json_str(way).p[0] != '/')
        admit_invalid(admit, at(admit, path, "path"), way, "must start with a '/'");
}

static void check_url(struct admit *admit, const struct json *url, struct str path)
{
    struct str text = json_str(url);
    struct str rest = str_sub(text, 8, text.len);
    struct str host = str_sub(rest, 0, str_find(rest, '/'));
    const char *wrong = NULL;

    if (!str_starts(text, STR("https://")))
        wrong = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
    else if (!host.len)
        wrong = "host must be specified; desired format: https://host[/path]";
    else if (str_find(host, '@') < host.len)
        wrong = "user information is not permitted in the URL";
    else if (str_find(rest, '#') < rest.len)
        wrong = "fragments are not permitted in the URL";
    else if (str_find(rest, '?') < rest.len)
        wrong = "query parameters are not permitted in the URL";
    if (wrong)
        admit_invalid(admit, path, url, wrong);
}

void admit_webhook_client(struct admit *admit, const struct json *client, struct str path)
{
    const struct json *url = json_get(client, "url");
    const struct json *service = json_get(client, "service");

    if (json_is_null(url) == json_is_null(service))
        admit_required(admit, path, "exactly one of url or service is required");
    else if (!json_is_null(url))
        check_url(admit, url, at(admit, path, "url"));
    else
        check_service(admit, service, at(admit, path, "service"));
}

/* Each once, and one that this server asks in. */
static void check_versions(struct admit *admit, const struct json *webhook, struct str path)
{
    const struct json *versions = json_get(webhook, "admissionReviewVersions");
    _cleanup_(map_done) struct map seen = {.seed = (uintptr_t)webhook};
    struct str list = at(admit, path, "admissionReviewVersions");
    bool known = false;
    size_t index = 0;

    JSON_FOREACH(versions, version) {
        struct str item = str_printf(admit->arena, STR_FMT "[%zu]", STR_ARG(list), index++);

        known |= str_is(json_str(version), "v1");
        if (map_set(&seen, json_str(version), version))
            admit_invalid(admit, item, version, "duplicate version");
        else if (names_dns_1035_label(json_str(version)))
            admit_invalid(admit, item, version, names_dns_1035_label(json_str(version)));
    }
    if (!json_count(versions))
        admit_required(admit, list, "must specify one of v1, v1beta1");
    else if (!known)
        admit_invalid(admit, list, versions,
                      "must include at least one of v1: this server asks in that version");
}

static size_t count_dots(struct str text)
{
    size_t count = 0;

    for (size_t i = 0; i < text.len; i++)
        count += text.p[i] == '.';
    return count;
}

static void check_webhook(struct admit *admit, const struct json *webhook, struct str path)
{
    const struct json *name = json_get(webhook, "name");

    if (!json_str(name).len)
        admit_required(admit, at(admit, path, "name"), "");
    else if (names_dns_subdomain(json_str(name)) || count_dots(json_str(name)) < 2)
        admit_invalid(admit, at(admit, path, "name"), name,
                      "should be a domain with at least three segments separated by dots");
    check_versions(admit, webhook, path);
    admit_webhook_client(admit, json_get(webhook, "clientConfig"), at(admit, path, "clientConfig"));
}

void admit_webhook_validate(struct admit *admit)
{
    const struct json *list = json_get(admit->object, "webhooks");
    struct admit_names names = admit_names(admit->arena, list, "name");
    size_t index = 0;

    JSON_FOREACH(list, webhook) {
        struct str path = str_printf(admit->arena, "webhooks[%zu]", index);

        check_webhook(admit, webhook, path);
        if (names.again[index])
            admit_duplicate(admit, at(admit, path, "name"), json_get(webhook, "name"));
        index++;
    }
}
