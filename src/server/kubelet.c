#include "server/kubelet.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/str.h"
#include "http1/parse.h"

#include <stddef.h>
#include <string.h>

#define PARTS_MAX 5

/* What a kubelet calls it, and what the API does. */
static const struct {
    const char *first;
    const char *subresource;
    bool container;
} paths[] = {
    {"containerLogs", "log", true},
    {"exec", "exec", true},
    {"attach", "attach", true},
    {"portForward", "portforward", false},
};

/* A kubelet's words for the streams of a process. */
static const char *const streams[][2] = {{"input", "stdin"},
                                         {"output", "stdout"},
                                         {"error", "stderr"}};

/* NS/POD, NS/POD/CONTAINER or NS/POD/UID/CONTAINER; 0: none of these. */
static size_t split(struct str rest, struct str *parts)
{
    size_t count = 0;

    while (str_cut(&rest, '/', &parts[count]))
        if (!parts[count].len || ++count == PARTS_MAX)
            return 0;
    return count;
}

/* "ports=80,81&" of "port=80,81": what an API server says of a port-forward over WebSocket. */
static void add_ports(struct buf *text, struct str query)
{
    struct str word;

    while (query.len && str_cut(&query, '&', &word))
        if (str_starts(word, STR("port=")))
            buf_addf(text, "ports=" STR_FMT "&", STR_ARG(str_sub(word, strlen("port="), word.len)));
}

bool kubelet_path(struct arena *arena, struct str *path, struct str *query)
{
    struct str rest = str_sub(*path, 1, path->len);
    struct str first, parts[PARTS_MAX];
    bool cut = str_cut(&rest, '/', &first);
    size_t count = cut ? split(rest, parts) : 0;

    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        size_t least = paths[i].container ? 3 : 2;

        if (!str_is(first, paths[i].first) || (count != least && count != least + 1))
            continue;
        struct buf text = {0};

        if (paths[i].container)
            buf_addf(&text, "container=" STR_FMT "&", STR_ARG(parts[count - 1]));
        for (size_t k = 0; k < COUNT_OF(streams); k++)
            if (http_query_bool(*query, streams[k][0]))
                buf_addf(&text, "%s=true&", streams[k][1]);
        add_ports(&text, *query);
        buf_add(&text, *query);
        *query = str_dup(arena, buf_str(&text));
        buf_done(&text);
        *path = str_printf(arena, "/api/v1/namespaces/" STR_FMT "/pods/" STR_FMT "/%s",
                           STR_ARG(parts[0]), STR_ARG(parts[1]), paths[i].subresource);
        return true;
    }
    return false;
}
