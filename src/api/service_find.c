#include "api/service_find.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct address {
    struct str ip;
    struct str pod;
};

struct search {
    struct api *api;
    struct arena arena;
    struct service_wish wish;
    bool numbered; /* the port was a number: of endpoints with one port, that is it */
    struct service_place place;
    service_found_fn *found;
    void *user;
    VEC(struct address) addresses; /* of what is looked at now */
};

static void search_end(struct search *search, enum service_lack lack)
{
    search->place.lack = lack;
    search->found(search->user, &search->place);
    arena_done(&search->arena);
    mem_free(search);
}

/* True: the store said no, and so it ends. */
static bool search_failed(struct search *search, const struct api_result *result)
{
    if (result->code >= 0 || (result->err && result->err->http_status == 404))
        return false;
    search->place.result = result;
    search_end(search, SERVICE_LACKS_ANSWER);
    return true;
}

static void search_call(struct search *search, const struct api_request *request, api_done_fn *done)
{
    struct api_request call = *request;

    call.ns = search->wish.ns;
    api_call(search->api, &call, done, search);
}

static void add_address(struct search *search, struct str ip, const struct json *target)
{
    struct str pod = json_str(json_get(target, "name"));

    if (ip.len && (pod.len || !search->wish.pods_only))
        VEC_PUSH(&search->arena, &search->addresses, ((struct address){ip, pod}));
}

static uint16_t port_number(const struct search *search, const struct json *ports)
{
    bool any = !search->place.port_name.len && !search->numbered;

    JSON_FOREACH(ports, item) {
        int64_t number = json_i64_or(json_get(item, "port"), 0);
        bool fits = any || str_eq(json_str(json_get(item, "name")), search->place.port_name) ||
                    (search->numbered && json_count(ports) == 1);

        if (fits && number > 0 && number <= UINT16_MAX)
            return (uint16_t)number;
    }
    return 0;
}

/* One of the addresses that were added; false: none will do. */
static bool take_address(struct search *search, const struct json *ports)
{
    size_t count = search->addresses.count;
    uint16_t port = port_number(search, ports);

    search->addresses.count = 0;
    if (!count || !port)
        return false;
    const struct address *address = &search->addresses.items[search->wish.turn % count];
    search->place.ip = str_dup(&search->arena, address->ip);
    search->place.pod = str_dup(&search->arena, address->pod);
    search->place.port = port;
    return true;
}

static bool take_slice(struct search *search, const struct object *slice)
{
    const struct json *root = object_json(slice, &search->arena);

    JSON_FOREACH(json_get(root, "endpoints"), endpoint) {
        const struct json *ready = json_at(endpoint, "conditions.ready");

        if (json_is_null(ready) || json_bool_or(ready, false))
            add_address(search, json_str(json_first(json_get(endpoint, "addresses"))),
                        json_get(endpoint, "targetRef"));
    }
    return take_address(search, json_get(root, "ports"));
}

static void on_slices(void *user, const struct api_result *result)
{
    struct search *search = user;
    bool taken = false;

    if (search_failed(search, result))
        return;
    for (size_t i = 0; i < result->item_count && !taken; i++)
        taken = take_slice(search, result->items[i]);
    search_end(search, taken ? SERVICE_LACKS_NOTHING : SERVICE_LACKS_ADDRESSES);
}

static void on_endpoints(void *user, const struct api_result *result)
{
    struct search *search = user;

    if (search_failed(search, result))
        return;
    const struct json *root = result->code < 0 ? NULL : object_json(result->object, &search->arena);
    JSON_FOREACH(json_get(root, "subsets"), subset) {
        JSON_FOREACH(json_get(subset, "addresses"), address)
            add_address(search, json_str(json_get(address, "ip")), json_get(address, "targetRef"));
        if (take_address(search, json_get(subset, "ports"))) {
            search_end(search, SERVICE_LACKS_NOTHING);
            return;
        }
    }
    search_call(search,
                &(struct api_request){.verb = API_LIST,
                                      .kind = &kind_endpointslice,
                                      .label_selector = str_printf(
                                          &search->arena, "kubernetes.io/service-name=" STR_FMT,
                                          STR_ARG(search->wish.name))},
                on_slices);
}

static void find_endpoints(struct search *search)
{
    search_call(
        search,
        &(struct api_request){.verb = API_GET, .kind = &kind_endpoints, .name = search->wish.name},
        on_endpoints);
}

/* The number of a port of the Service: of its endpoints it is the one of that name. */
static void on_service(void *user, const struct api_result *result)
{
    struct search *search = user;
    bool found = false;

    if (search_failed(search, result))
        return;
    if (result->code < 0) {
        search->place.result = result;
        search_end(search, SERVICE_LACKS_ITSELF);
        return;
    }
    if (!search->numbered) {
        find_endpoints(search);
        return;
    }
    JSON_FOREACH(json_at(object_json(result->object, &search->arena), "spec.ports"), port)
        if (!found && str_eq(json_number_text(json_get(port, "port")), search->wish.port)) {
            found = true;
            search->place.port_name = str_dup(&search->arena, json_str(json_get(port, "name")));
        }
    if (found)
        find_endpoints(search);
    else
        search_end(search, SERVICE_LACKS_PORT);
}

void service_find(struct api *api,
                  const struct service_wish *wish,
                  service_found_fn *found,
                  void *user)
{
    struct search *search = MEM_NEW(struct search);
    uint64_t number = 0;

    search->api = api;
    search->wish = *wish;
    search->wish.ns = str_dup(&search->arena, wish->ns);
    search->wish.name = str_dup(&search->arena, wish->name);
    search->wish.port = str_dup(&search->arena, wish->port);
    search->found = found;
    search->user = user;
    search->numbered = str_to_u64(wish->port, &number);
    if (!search->numbered)
        search->place.port_name = search->wish.port;
    search_call(
        search,
        &(struct api_request){.verb = API_GET, .kind = &kind_service, .name = search->wish.name},
        on_service);
}
