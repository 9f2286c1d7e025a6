#include "agent/host_port.h"

#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Containers that run beside the others: the main ones and sidecars. */
static bool runs_along(const struct json *container, bool init)
{
    return !init || str_is(json_str(json_get(container, "restartPolicy")), "Always");
}

static bool is_everywhere(struct str address)
{
    return !address.len || str_is(address, "0.0.0.0") || str_is(address, "::");
}

static bool ports_collide(const struct json *a, const struct json *b)
{
    struct str x = json_str(json_get(a, "protocol")), y = json_str(json_get(b, "protocol"));
    struct str here = json_str(json_get(a, "hostIP")), there = json_str(json_get(b, "hostIP"));

    return json_i64_or(json_get(a, "hostPort"), 0) == json_i64_or(json_get(b, "hostPort"), 0) &&
           str_eq(x.len ? x : STR("TCP"), y.len ? y : STR("TCP")) &&
           (is_everywhere(here) || is_everywhere(there) || str_eq(here, there));
}

static const char *const lists[] = {"containers", "initContainers"};

static bool wants(const struct json *spec, const struct json *port)
{
    for (int init = 0; init < 2; init++)
        JSON_FOREACH(json_get(spec, lists[init]), container)
            JSON_FOREACH(json_get(container, "ports"), own)
                if (runs_along(container, init) && ports_collide(own, port))
                    return true;
    return false;
}

static bool is_wanted(const struct json *container, const struct json *port, bool init)
{
    int64_t number = json_i64_or(json_get(port, "hostPort"), 0);

    return number > 0 && number <= UINT16_MAX && runs_along(container, init);
}

bool host_port_any(const struct json *spec)
{
    for (int init = 0; init < 2; init++)
        JSON_FOREACH(json_get(spec, lists[init]), container)
            JSON_FOREACH(json_get(container, "ports"), port)
                if (is_wanted(container, port, init))
                    return true;
    return false;
}

int host_port_common(const struct json *spec, const struct json *other)
{
    for (int init = 0; init < 2; init++)
        JSON_FOREACH(json_get(spec, lists[init]), container)
            JSON_FOREACH(json_get(container, "ports"), port)
                if (is_wanted(container, port, init) && wants(other, port))
                    return (int)json_i64_or(json_get(port, "hostPort"), 0);
    return 0;
}
