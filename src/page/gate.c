#include "page/gate.h"

#include "base/str.h"
#include "http1/parse.h"

#include <stdbool.h>
#include <stddef.h>

static bool host_is_number(struct str host)
{
    size_t dots = 0;

    if (host.len >= 2 && host.p[0] == '[' && host.p[host.len - 1] == ']') {
        for (size_t i = 1; i + 1 < host.len; i++) {
            char c = host.p[i];

            if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f') && !(c >= 'A' && c <= 'F') &&
                c != ':' && c != '.')
                return false;
        }
        return host.len > 2;
    }
    for (size_t i = 0; i < host.len; i++) {
        dots += host.p[i] == '.';
        if (host.p[i] != '.' && !(host.p[i] >= '0' && host.p[i] <= '9'))
            return false;
    }
    return dots == 3;
}

/* "name:443" -> "name", "[::1]:443" -> "[::1]". */
static struct str host_without_port(struct str host)
{
    size_t bracket = host.len && host.p[0] == '[' ? str_find(host, ']') : 0;
    struct str rest = str_sub(host, bracket, host.len);

    return str_sub(host, 0, bracket + str_find(rest, ':'));
}

bool gate_host(struct str host, const char *const *names, size_t name_count)
{
    struct str name = host_without_port(host);

    if (host_is_number(name) || http_equal_nocase(name, STR("localhost")))
        return true;
    for (size_t i = 0; i < name_count; i++)
        if (name.len && http_equal_nocase(name, str_from(names[i])))
            return true;
    return false;
}

bool gate_same_origin(const struct http_head *head)
{
    struct str site = http_head_get(head, "Sec-Fetch-Site");
    struct str origin = http_head_get(head, "Origin");
    size_t slashes = str_find(origin, '/');

    if (site.len && !str_is(site, "same-origin"))
        return false;
    return !origin.len ||
           http_equal_nocase(str_sub(origin, slashes + 2, origin.len), http_head_get(head, "Host"));
}

struct str gate_cookie(const struct http_head *head, struct str name)
{
    struct str all = http_head_get(head, "Cookie");
    struct str one;

    while (str_cut(&all, ';', &one)) {
        struct str trimmed = str_trim(one);
        size_t equals = str_find(trimmed, '=');

        if (equals < trimmed.len && str_eq(str_sub(trimmed, 0, equals), name))
            return str_sub(trimmed, equals + 1, trimmed.len);
    }
    return STR_NONE;
}
