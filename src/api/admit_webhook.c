#include "api/admit.h"
#include "api/kind.h"
#include "api/names.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The two kinds of webhook configurations, by kube-apiserver's rules. */

#define TIMEOUT_SECONDS_MAX 30

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

static bool is_one_of(struct str text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_is(text, words[i]))
            return true;
    return false;
}

/* A word that must be one of a few; `required`: it may not be left out. */
static void check_word(struct admit *admit,
                       const struct json *webhook,
                       struct str path,
                       const char *key,
                       const char *const words[static 2])
{
    static const char *const texts[][2] = {{"Fail", "\"Fail\", \"Ignore\""},
                                           {"Exact", "\"Equivalent\", \"Exact\""},
                                           {"None", "\"None\", \"NoneOnDryRun\""},
                                           {"Never", "\"IfNeeded\", \"Never\""}};
    const struct json *value = json_get(webhook, key);

    if (json_is_null(value) || is_one_of(json_str(value), words, 2))
        return;
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        if (str_is(str_from(words[0]), texts[i][0]))
            admit_unsupported(admit, at(admit, path, key), value, texts[i][1]);
}

static void check_strings(struct admit *admit,
                          const struct json *rule,
                          struct str path,
                          const char *key)
{
    const struct json *list = json_get(rule, key);
    size_t index = 0;
    bool star = false;

    if (!json_count(list))
        admit_required(admit, at(admit, path, key), "");
    JSON_FOREACH(list, item) {
        star |= str_is(json_str(item), "*");
        if (!json_str(item).len && !str_is(str_from(key), "apiGroups"))
            admit_required(
                admit, str_printf(admit->arena, STR_FMT ".%s[%zu]", STR_ARG(path), key, index), "");
        index++;
    }
    if (star && json_count(list) > 1 && !str_is(str_from(key), "resources"))
        admit_invalid(admit, at(admit, path, key), list,
                      "if '*' is present, must not specify other values");
}

static void check_rule(struct admit *admit, const struct json *rule, struct str path)
{
    static const char *const operations[] = {"CREATE", "UPDATE", "DELETE", "CONNECT", "*"};
    static const char *const scopes[] = {"*", "Cluster", "Namespaced"};
    static const char *const lists[] = {"operations", "apiGroups", "apiVersions", "resources"};
    const struct json *scope = json_get(rule, "scope");

    for (size_t i = 0; i < COUNT_OF(lists); i++)
        check_strings(admit, rule, path, lists[i]);
    JSON_FOREACH(json_get(rule, "operations"), operation)
        if (json_str(operation).len &&
            !is_one_of(json_str(operation), operations, COUNT_OF(operations)))
            admit_unsupported(admit, at(admit, path, "operations"), operation,
                              "\"*\", \"CONNECT\", \"CREATE\", \"DELETE\", \"UPDATE\"");
    if (scope && !is_one_of(json_str(scope), scopes, COUNT_OF(scopes)))
        admit_unsupported(admit, at(admit, path, "scope"), scope,
                          "\"*\", \"Cluster\", \"Namespaced\"");
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

static void check_versions(struct admit *admit, const struct json *webhook, struct str path)
{
    const struct json *versions = json_get(webhook, "admissionReviewVersions");
    bool known = false;

    JSON_FOREACH(versions, version)
        known |= str_is(json_str(version), "v1");
    if (!json_count(versions))
        admit_required(admit, at(admit, path, "admissionReviewVersions"),
                       "must specify one of v1, v1beta1");
    else if (!known)
        admit_invalid(admit, at(admit, path, "admissionReviewVersions"), versions,
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
    static const char *const failures[] = {"Fail", "Ignore"};
    static const char *const matches[] = {"Exact", "Equivalent"};
    static const char *const effects[] = {"None", "NoneOnDryRun"};
    static const char *const again[] = {"Never", "IfNeeded"};
    const struct json *name = json_get(webhook, "name");
    const struct json *timeout = json_get(webhook, "timeoutSeconds");
    size_t index = 0;

    if (!json_str(name).len)
        admit_required(admit, at(admit, path, "name"), "");
    else if (names_dns_subdomain(json_str(name)) || count_dots(json_str(name)) < 2)
        admit_invalid(admit, at(admit, path, "name"), name,
                      "should be a domain with at least three segments separated by dots");
    check_versions(admit, webhook, path);
    JSON_FOREACH(json_get(webhook, "rules"), rule)
        check_rule(admit, rule,
                   str_printf(admit->arena, STR_FMT ".rules[%zu]", STR_ARG(path), index++));
    check_word(admit, webhook, path, "failurePolicy", failures);
    check_word(admit, webhook, path, "matchPolicy", matches);
    check_word(admit, webhook, path, "reinvocationPolicy", again);
    if (json_is_null(json_get(webhook, "sideEffects")))
        admit_required(admit, at(admit, path, "sideEffects"),
                       "must specify one of None, "
                       "NoneOnDryRun");
    check_word(admit, webhook, path, "sideEffects", effects);
    if (json_i64_or(timeout, 10) < 1 || json_i64_or(timeout, 10) > TIMEOUT_SECONDS_MAX)
        admit_invalid(admit, at(admit, path, "timeoutSeconds"), timeout,
                      "the timeout value must be between 1 and 30 seconds");
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
