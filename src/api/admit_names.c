#include "api/admit.h"
#include "api/names.h"
#include "base/arena.h"
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
                                .sorted = ARENA_ARRAY(arena, struct str, count + 1)};
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
        if (i && str_eq(all[i].text, all[i - 1].text))
            names.again[all[i].index] = true;
        else
            names.sorted[names.count++] = all[i].text;
    }
    return names;
}

bool admit_names_have(const struct admit_names *names, struct str text)
{
    size_t low = 0;
    size_t high = names->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = str_cmp(names->sorted[middle], text);

        if (order == 0)
            return true;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
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

void admit_pod_names(struct admit *admit, const struct json *spec, struct str path)
{
    size_t index = 0;

    check_label(admit, spec, "hostname", path);
    check_label(admit, spec, "subdomain", path);
    JSON_FOREACH(json_get(spec, "hostAliases"), alias)
        check_alias(admit, alias,
                    str_printf(admit->arena, STR_FMT ".hostAliases[%zu]", STR_ARG(path), index++));
}
