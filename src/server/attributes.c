#include "server/attributes.h"

#include "api/names.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/str.h"
#include "http1/parse.h"
#include "server/rbac.h"
#include "server/route.h"

#include <stdbool.h>
#include <stddef.h>

static bool is_stream(struct str subresource)
{
    return str_is(subresource, "exec") || str_is(subresource, "attach") ||
           str_is(subresource, "portforward");
}

static struct str verb_of(const struct route *route, struct str method, struct str query)
{
    bool named = route->name.len > 0;

    if (is_stream(route->subresource))
        return STR("create");
    if (str_is(method, "POST"))
        return STR("create");
    if (str_is(method, "PUT"))
        return STR("update");
    if (str_is(method, "PATCH"))
        return STR("patch");
    if (str_is(method, "DELETE"))
        return named ? STR("delete") : STR("deletecollection");
    if (named)
        return STR("get");
    return http_query_bool(query, "watch") ? STR("watch") : STR("list");
}

/* A list or watch of one name, said by a field selector, is a question about that object: a rule
 * with resourceNames may allow it. Deleting a collection never is. */
static struct str selected_name(struct arena *arena, struct str query)
{
    struct selector selector = {0};

    if (selector_parse_fields(arena, http_query(arena, query, "fieldSelector"), &selector, NULL) <
        0)
        return STR("");
    for (size_t i = 0; i < selector.term_count; i++) {
        const struct selector_term *term = &selector.terms[i];

        if (str_is(term->key, "metadata.name") && term->op == SELECTOR_IN &&
            term->value_count == 1 && !names_path_segment(term->values[0]))
            return term->values[0];
    }
    return STR("");
}

struct str attributes_lower(struct arena *arena, struct str word)
{
    char *text = str_c(arena, word);

    for (char *p = text; *p; p++)
        if (*p >= 'A' && *p <= 'Z')
            *p = (char)(*p - 'A' + 'a');
    return str_from(text);
}

struct attributes_target attributes_split_name(struct str text)
{
    struct str first = STR("");
    struct str second = STR("");

    (void)str_cut(&text, ':', &first);
    if (!str_cut(&text, ':', &second))
        return (struct attributes_target){STR(""), first, STR("")};
    if (text.p)
        return (struct attributes_target){first, second, text};
    return (struct attributes_target){STR(""), first, second};
}

struct rbac_request attributes_of(struct arena *arena,
                                  const struct route *route,
                                  struct str method,
                                  struct str path,
                                  struct str query)
{
    struct str sub = route->subresource;
    struct rbac_request wanted = {.verb = verb_of(route, method, query),
                                  .group = route->group,
                                  .resource = route->plural,
                                  .ns = route->ns,
                                  .name = route->name};

    if (route->type != ROUTE_RESOURCE)
        return (struct rbac_request){.verb = attributes_lower(arena, method), .path = path};
    bool shows = str_is(sub, "results") || str_is(sub, "stacks");
    if (shows && str_is(route->plural, "pods") && str_is(wanted.verb, "get")) {
        sub = STR("exec");
        wanted.verb = STR("create");
    }
    if (sub.len)
        wanted.resource =
            str_printf(arena, STR_FMT "/" STR_FMT, STR_ARG(route->plural), STR_ARG(sub));
    if (str_is(sub, "proxy"))
        wanted.name = attributes_split_name(route->name).name;
    if (!wanted.name.len && (str_is(wanted.verb, "list") || str_is(wanted.verb, "watch")))
        wanted.name = selected_name(arena, query);
    return wanted;
}
