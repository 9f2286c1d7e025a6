#include "api/admit.h"
#include "api/names.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* ---- names of a list ---- */

struct named {
    struct str text;
    size_t index;
};

static int named_compare(const void *a, const void *b)
{
    const struct named *x = a;
    const struct named *y = b;
    int order = str_cmp(x->text, y->text);

    return order ? order : (x->index > y->index) - (x->index < y->index);
}

struct admit_names admit_names(struct arena *arena, const struct json *list, const char *key)
{
    size_t count = json_count(list);
    struct admit_names names = {.again = ARENA_ARRAY(arena, bool, count + 1),
                                .sorted = ARENA_ARRAY(arena, struct str, count + 1),
                                .first = ARENA_ARRAY(arena, size_t, count + 1)};
    struct named *all = ARENA_ARRAY(arena, struct named, count + 1);
    size_t used = 0;
    size_t index = 0;

    JSON_FOREACH(list, item) {
        struct str text = json_str(json_get(item, key));

        if (text.len)
            all[used++] = (struct named){text, index};
        index++;
    }
    qsort(all, used, sizeof(*all), named_compare);
    for (size_t i = 0; i < used; i++) {
        if (i && str_eq(all[i].text, all[i - 1].text)) {
            names.again[all[i].index] = true;
            continue;
        }
        names.first[names.count] = all[i].index;
        names.sorted[names.count++] = all[i].text;
    }
    return names;
}

size_t admit_names_find(const struct admit_names *names, struct str text)
{
    size_t low = 0;
    size_t high = names->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = str_cmp(names->sorted[middle], text);

        if (order == 0)
            return names->first[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return SIZE_MAX;
}

bool admit_names_have(const struct admit_names *names, struct str text)
{
    return admit_names_find(names, text) != SIZE_MAX;
}

/* ---- names of a pod ---- */

static bool is_ipv4(struct str text)
{
    struct str part;
    uint64_t number = 0;
    size_t count = 0;

    while (str_cut(&text, '.', &part)) {
        if (part.len > 3 || !str_to_u64(part, &number) || number > 255 ||
            (part.len > 1 && part.p[0] == '0'))
            return false;
        count++;
    }
    return count == 4;
}

#define IPV6_TEXT_MAX 45

/* Only what it is made of: nothing here goes further than a line of /etc/hosts. */
static bool is_ipv6(struct str text)
{
    size_t colons = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.p[i];

        colons += c == ':';
        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f') && !(c >= 'A' && c <= 'F') &&
            c != ':' && c != '.')
            return false;
    }
    return colons >= 2 && text.len <= IPV6_TEXT_MAX;
}

static void check_label(struct admit *admit,
                        const struct json *spec,
                        const char *key,
                        struct str path)
{
    const struct json *value = json_get(spec, key);

    if (json_str(value).len && names_dns_label(json_str(value)))
        admit_invalid(admit, str_printf(admit->arena, STR_FMT ".%s", STR_ARG(path), key), value,
                      names_dns_label(json_str(value)));
}

static void check_alias(struct admit *admit, const struct json *alias, struct str path)
{
    const struct json *ip = json_get(alias, "ip");

    if (!is_ipv4(json_str(ip)) && !is_ipv6(json_str(ip)))
        admit_invalid(admit, str_printf(admit->arena, STR_FMT ".ip", STR_ARG(path)), ip,
                      "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    JSON_FOREACH(json_get(alias, "hostnames"), name)
        if (names_dns_subdomain(json_str(name)))
            admit_invalid(admit, str_printf(admit->arena, STR_FMT ".hostnames", STR_ARG(path)),
                          name, names_dns_subdomain(json_str(name)));
}

static bool is_lower_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* Parts of lower case letters and digits, with - and _ inside, and a dot or a slash between them. */
static bool is_sysctl(struct str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.p[i];
        bool inside = i > 0 && i + 1 < name.len;

        if (is_lower_or_digit(c))
            continue;
        if (!inside)
            return false;
        bool parts = c == '.' || c == '/';
        char before = name.p[i - 1];
        char after = name.p[i + 1];
        if (parts && is_lower_or_digit(before) && is_lower_or_digit(after))
            continue;
        if (parts || (c != '-' && c != '_') || before == '.' || before == '/' || after == '.' ||
            after == '/')
            return false;
    }
    return name.len > 0 && name.len <= 253;
}

/* A setting of the node's own network or messages, which the pod shares. */
static bool is_of_the_host(const struct json *spec, struct str name)
{
    static const char *const messages[] = {"kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."};
    bool shared = false;

    for (size_t i = 0; i < COUNT_OF(messages); i++)
        shared |= str_starts(name, str_from(messages[i]));
    return (shared && json_bool_or(json_get(spec, "hostIPC"), false)) ||
           (str_starts(name, STR("net.")) && json_bool_or(json_get(spec, "hostNetwork"), false));
}

/* Whether a node sets it is the node's to say; what could be no kernel setting is refused here. */
static void check_sysctls(struct admit *admit, const struct json *spec, struct str path)
{
    struct admit_names names =
        admit_names(admit->arena, json_at(spec, "securityContext.sysctls"), "name");
    size_t index = 0;

    JSON_FOREACH(json_at(spec, "securityContext.sysctls"), item) {
        const struct json *name = json_get(item, "name");
        struct str where = str_printf(admit->arena, STR_FMT ".securityContext.sysctls[%zu].name",
                                      STR_ARG(path), index);

        if (names.again[index])
            admit_duplicate(admit, where, name);
        else if (is_of_the_host(spec, json_str(name)))
            admit_invalid(
                admit, where, name,
                "may not be specified when the pod shares what it is about with its node");
        else if (json_str(name).len && !is_sysctl(json_str(name)))
            admit_invalid(admit, where, name,
                          "must be parts of lower case letters and digits, with - or _ inside, and "
                          "'.' or '/' between them");
        index++;
    }
}

void admit_pod_names(struct admit *admit, const struct json *spec, struct str path)
{
    size_t index = 0;

    check_label(admit, spec, "hostname", path);
    check_label(admit, spec, "subdomain", path);
    check_sysctls(admit, spec, path);
    JSON_FOREACH(json_get(spec, "hostAliases"), alias)
        check_alias(admit, alias,
                    str_printf(admit->arena, STR_FMT ".hostAliases[%zu]", STR_ARG(path), index++));
}
