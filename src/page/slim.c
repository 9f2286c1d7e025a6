#include "page/slim.h"

#include "base/count.h"
#include "base/json.h"
#include "base/str.h"

#include <stddef.h>

static void keep_only(struct json *object, const char *const *kept, size_t count)
{
    for (struct json *member = json_first(object), *next; member; member = next) {
        size_t i = 0;

        next = json_next(member);
        while (i < count && !str_is(json_key(member), kept[i]))
            i++;
        if (i == count)
            (void)json_remove(object, json_key(member));
    }
}

static void slim_pod(struct json *pod)
{
    static const char *const of_spec[] = {"nodeName", "containers", "priority", "priorityClassName",
                                          "schedulerName"};
    static const char *const of_container[] = {"name", "resources"};
    struct json *spec = json_get(pod, "spec");

    keep_only(spec, of_spec, COUNT_OF(of_spec));
    JSON_FOREACH(json_get(spec, "containers"), container)
        keep_only(container, of_container, COUNT_OF(of_container));
}

static void slim_node(struct json *node)
{
    struct json *status = json_get(node, "status");

    (void)json_remove(status, STR("images"));
    (void)json_remove(status, STR("daemonEndpoints"));
}

struct json *slim(struct json *object)
{
    struct json *metadata = json_get(object, "metadata");
    struct str kind = json_str(json_get(object, "kind"));

    (void)json_remove(metadata, STR("managedFields"));
    (void)json_remove(json_get(metadata, "annotations"),
                      STR("kubectl.kubernetes.io/last-applied-configuration"));
    if (str_is(kind, "Pod"))
        slim_pod(object);
    else if (str_is(kind, "Node"))
        slim_node(object);
    return object;
}
