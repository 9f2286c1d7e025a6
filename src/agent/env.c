#include "agent/env.h"

#include "api/kind.h"
#include "api/object.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "base/vec.h"
#include "cache/cache.h"

#include <errno.h>
#include <stdint.h>

static void map_release(void *map)
{
    map_done(map);
}

/* The address is a seed that nobody who writes names knows. */
static struct map *map_make(struct arena *arena, const struct env *env)
{
    struct map *map = ARENA_NEW(arena, struct map);
    *map = (struct map){.seed = (uint64_t)(uintptr_t)env};
    arena_defer(arena, map_release, map);
    return map;
}

/* In items, and one more; 0: it is not there. */
static size_t place_of(const struct env *env, struct str name)
{
    const void *found = env->names ? map_get(env->names, name) : NULL;
    return (size_t)(uintptr_t)found;
}

void env_set(struct arena *arena, struct env *env, struct str name, struct str value)
{
    if (!env->names)
        env->names = map_make(arena, env);
    size_t place = place_of(env, name);
    env->bytes += name.len + value.len + 2; /* "=" and the NUL */
    if (place) {
        env->items[place - 1].value = value;
        return;
    }
    VEC_PUSH(arena, env, (struct env_var){name, value});
    (void)map_set(env->names, name, (void *)(uintptr_t)env->count);
}

struct str env_get(const struct env *env, struct str name)
{
    size_t place = place_of(env, name);
    return place ? env->items[place - 1].value : STR_NONE;
}

static int env_check(const struct env *env, struct err *err)
{
    if (env->bytes <= ENV_BYTES_MAX)
        return 0;
    return err_set(
        err, -E2BIG,
        "its variables and arguments have more than %zu MiB once $(NAME) stands for its value: use "
        "smaller ones, or a volume",
        ENV_BYTES_MAX >> 20);
}

/* False: it has more than `left` bytes. */
static bool expand(const struct env *env, struct str text, size_t left, struct buf *out)
{
    size_t last = text.len; /* the last bracket that closes: none is looked for behind it */
    while (last > 0 && text.p[last - 1] != ')')
        last--;
    out->bytes_max = left;
    for (size_t i = 0; i < text.len; i++) {
        struct str rest = str_sub(text, i, text.len);
        if (rest.p[0] != '$' || rest.len == 1) {
            buf_addc(out, rest.p[0]);
        } else if (rest.p[1] == '$') {
            buf_addc(out, '$');
            i++;
        } else if (rest.p[1] == '(' && i < last) {
            size_t end = str_find(rest, ')');
            struct str value = env_get(env, str_sub(rest, 2, end - 2));
            buf_add(out, str_is_set(value) ? value : str_sub(rest, 0, end + 1));
            i += end;
        } else {
            buf_addc(out, '$');
        }
    }
    return !out->overflow;
}

int env_expand(struct arena *arena,
               struct env *env,
               struct str text,
               struct str *ret,
               struct err *err)
{
    _cleanup_(buf_done) struct buf out = {0};
    if (str_find(text, '$') == text.len) {
        *ret = text;
        return 0;
    }
    size_t left = env->bytes < ENV_BYTES_MAX ? ENV_BYTES_MAX - env->bytes : 1;
    if (!expand(env, text, left, &out))
        env->bytes = ENV_BYTES_MAX + 1;
    int r = env_check(env, err);
    if (r)
        return r;
    *ret = str_dup(arena, buf_str(&out));
    env->bytes += out.len;
    return 0;
}

/* ---- fields ---- */

/* metadata.labels['key'] -> key, when `path` starts with `prefix`. */
static bool path_subscript(struct str path, struct str prefix, struct str *ret)
{
    if (!str_starts(path, prefix) || !str_ends(path, STR("']")) || path.len < prefix.len + 4)
        return false;
    struct str inner = str_sub(path, prefix.len, path.len);
    if (!str_starts(inner, STR("['")))
        return false;
    *ret = str_sub(inner, 2, inner.len - 4);
    return true;
}

/* All labels or annotations, one key="value" a line, as downwardAPI volumes show them. */
static struct str text_of_pairs(struct arena *arena, const struct json *object)
{
    _cleanup_(buf_done) struct buf out = {0};
    JSON_FOREACH(object, member) {
        if (out.len)
            buf_addc(&out, '\n');
        buf_add(&out, json_key(member));
        buf_addc(&out, '=');
        json_write_string(&out, json_str(member));
    }
    return str_dup(arena, buf_str(&out));
}

int env_field(struct arena *arena,
              const struct env_context *context,
              struct str path,
              struct str *ret,
              struct err *err)
{
    struct str key;
    const struct json *metadata = json_get(context->pod, "metadata");
    const struct json *spec = json_get(context->pod, "spec");
    if (str_is(path, "metadata.name") || str_is(path, "metadata.namespace") ||
        str_is(path, "metadata.uid"))
        *ret = json_str(json_get_str(metadata, str_sub(path, 9, path.len)));
    else if (path_subscript(path, STR("metadata.labels"), &key))
        *ret = json_str(json_get_str(json_get(metadata, "labels"), key));
    else if (path_subscript(path, STR("metadata.annotations"), &key))
        *ret = json_str(json_get_str(json_get(metadata, "annotations"), key));
    else if (str_is(path, "metadata.labels"))
        *ret = text_of_pairs(arena, json_get(metadata, "labels"));
    else if (str_is(path, "metadata.annotations"))
        *ret = text_of_pairs(arena, json_get(metadata, "annotations"));
    else if (str_is(path, "spec.nodeName"))
        *ret = context->node_name;
    else if (str_is(path, "spec.serviceAccountName"))
        *ret = json_str(json_get(spec, "serviceAccountName"));
    else if (str_is(path, "status.podIP") || str_is(path, "status.podIPs"))
        *ret = context->pod_ip;
    else if (str_is(path, "status.hostIP") || str_is(path, "status.hostIPs"))
        *ret = context->host_ip;
    else
        return err_set(err, -EINVAL, "fieldPath " STR_FMT ": no such field of a pod",
                       STR_ARG(path));
    if (!str_is_set(*ret))
        *ret = STR("");
    return 0;
}

static const struct json *named_container(const struct env_context *context, struct str name)
{
    static const char *const lists[] = {"spec.containers", "spec.initContainers"};
    for (size_t i = 0; i < 2; i++)
        JSON_FOREACH(json_at(context->pod, lists[i]), container)
            if (str_eq(json_str(json_get(container, "name")), name))
                return container;
    return NULL;
}

int env_resource(struct arena *arena,
                 const struct env_context *context,
                 const struct json *container,
                 const struct json *reference,
                 struct str *ret,
                 struct err *err)
{
    struct str resource = json_str(json_get(reference, "resource"));
    struct str other = json_str(json_get(reference, "containerName"));
    if (other.len)
        container = named_container(context, other);
    bool limit = str_starts(resource, STR("limits."));
    if (!limit && !str_starts(resource, STR("requests.")))
        return err_set(err, -EINVAL, "resource " STR_FMT ": must start with limits. or requests.",
                       STR_ARG(resource));
    struct str name = str_sub(resource, limit ? 7 : 9, resource.len);
    const struct json *resources = json_get(container, "resources");
    struct quantity amount = {0}, divisor = {0};
    int r = quantity_parse_json(
        json_get_str(json_get(resources, limit ? "limits" : "requests"), name), &amount, err);
    if (r)
        return r;
    if (amount.nano == 0 && limit) {
        __int128 cpu = (__int128)context->node_cpu_milli * 1000000;
        __int128 memory = (__int128)context->node_memory_bytes * 1000000000;
        amount.nano = str_is(name, "cpu") ? cpu : str_is(name, "memory") ? memory : 0;
    }
    r = quantity_parse_json(json_get(reference, "divisor"), &divisor, err);
    if (r)
        return r;
    if (divisor.nano <= 0)
        divisor.nano = 1000000000;
    __int128 whole = (amount.nano + divisor.nano - 1) / divisor.nano;
    *ret = str_printf(arena, "%lld", (long long)whole);
    return 0;
}

/* ---- references to other objects ---- */

/* Whose variables are put together, with what. */
struct making {
    struct arena *arena;
    struct env *env;
    const struct env_context *context;
    const struct json *container;
};

/* Its data; NULL where it is not there. However many variables name it, it is read once. */
static int data_of(const struct making *making,
                   const struct kind *kind,
                   struct str name,
                   const struct json **ret,
                   struct err *err)
{
    struct arena *arena = making->arena;
    struct env *env = making->env;
    const struct env_context *context = making->context;
    const struct object *object = cache_get(context->cache, kind, context->ns, name);
    struct str key = str_printf(arena, "%s/" STR_FMT, kind->plural, STR_ARG(name));
    *ret = NULL;
    if (!object)
        return 0;
    if (!env->sources)
        env->sources = map_make(arena, env);
    struct json *root = map_get(env->sources, key);
    if (!root) {
        env->source_bytes += object->raw.len;
        if (env->source_bytes > ENV_SOURCE_BYTES_MAX)
            return err_set(
                err, -E2BIG,
                "its variables name ConfigMaps and Secrets of more than %zu MiB together",
                ENV_SOURCE_BYTES_MAX >> 20);
        arena_defer(arena, object_release, object_ref(object));
        root = object_json(object, arena);
        (void)map_set(env->sources, key, root);
    }
    *ret = json_get(root, "data");
    return 0;
}

static struct str value_decode(struct arena *arena, const struct kind *kind, struct str value)
{
    struct str bytes = STR("");
    if (kind != &kind_secret)
        return value;
    return base64_decode(arena, value, &bytes) ? bytes : STR("");
}

static int value_from_key(const struct making *making,
                          const struct kind *kind,
                          const struct json *reference,
                          struct str *ret,
                          struct err *err)
{
    struct str name = json_str(json_get(reference, "name")),
               key = json_str(json_get(reference, "key"));
    const struct json *data = NULL;
    int r = data_of(making, kind, name, &data, err);
    if (r)
        return r;
    const struct json *value = json_get_str(data, key);
    if (value) {
        *ret = value_decode(making->arena, kind, json_str(value));
        return 0;
    }
    if (json_bool_or(json_get(reference, "optional"), false)) {
        *ret = STR_NONE;
        return 0;
    }
    return err_set(err, -EAGAIN, "%s " STR_FMT " with key " STR_FMT " not found", kind->singular,
                   STR_ARG(name), STR_ARG(key));
}

static int value_from(const struct making *making,
                      const struct json *from,
                      struct str *ret,
                      struct err *err)
{
    const struct json *reference;
    if ((reference = json_get(from, "fieldRef")))
        return env_field(making->arena, making->context, json_str(json_get(reference, "fieldPath")),
                         ret, err);
    if ((reference = json_get(from, "resourceFieldRef")))
        return env_resource(making->arena, making->context, making->container, reference, ret, err);
    if ((reference = json_get(from, "configMapKeyRef")))
        return value_from_key(making, &kind_configmap, reference, ret, err);
    if ((reference = json_get(from, "secretKeyRef")))
        return value_from_key(making, &kind_secret, reference, ret, err);
    *ret = STR_NONE;
    return 0;
}

static int env_add_from(const struct making *making, const struct json *source, struct err *err)
{
    struct arena *arena = making->arena;
    const struct json *reference = json_get(source, "configMapRef");
    const struct kind *kind = reference ? &kind_configmap : &kind_secret;
    if (!reference)
        reference = json_get(source, "secretRef");
    struct str name = json_str(json_get(reference, "name"));
    struct str prefix = json_str(json_get(source, "prefix"));
    if (!cache_get(making->context->cache, kind, making->context->ns, name)) {
        if (json_bool_or(json_get(reference, "optional"), false))
            return 0;
        return err_set(err, -EAGAIN, "%s " STR_FMT " not found", kind->singular, STR_ARG(name));
    }
    const struct json *data = NULL;
    int r = data_of(making, kind, name, &data, err);
    JSON_FOREACH(data, member) {
        env_set(arena, making->env,
                str_printf(arena, STR_FMT STR_FMT, STR_ARG(prefix), STR_ARG(json_key(member))),
                value_decode(arena, kind, json_str(member)));
        r = env_check(making->env, err);
        if (r)
            break;
    }
    return r;
}

int env_add_container(struct arena *arena,
                      struct env *env,
                      const struct env_context *context,
                      const struct json *container,
                      struct err *err)
{
    const struct making making = {arena, env, context, container};
    JSON_FOREACH(json_get(container, "envFrom"), source) {
        int r = env_add_from(&making, source, err);
        if (r)
            return r;
    }
    JSON_FOREACH(json_get(container, "env"), variable) {
        struct str name = json_str(json_get(variable, "name"));
        const struct json *from = json_get(variable, "valueFrom");
        struct str value = json_str(json_get(variable, "value"));
        if (from) {
            int r = value_from(&making, from, &value, err);
            if (r)
                return err_wrap(err, r, "env " STR_FMT, STR_ARG(name));
            if (!str_is_set(value))
                continue;
        } else {
            size_t before = env->bytes;
            int r = env_expand(arena, env, value, &value, err);
            if (r)
                return err_wrap(err, r, "env " STR_FMT, STR_ARG(name));
            env->bytes = before; /* it counts when it is set */
        }
        env_set(arena, env, name, str_is_set(value) ? value : STR(""));
        int r = env_check(env, err);
        if (r)
            return err_wrap(err, r, "env " STR_FMT, STR_ARG(name));
    }
    return env_check(env, err);
}

/* my-front: MY_FRONT */
static const char *env_word(struct arena *arena, struct str name)
{
    char *word = str_c(arena, name);
    for (char *p = word; *p; p++)
        *p = *p == '-' ? '_' : *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p;
    return word;
}

/* FRONT_PORT_80_TCP and its parts, of each port; FRONT_PORT of the first: what programs of the time
 * before names look for. */
static void env_add_ports(struct arena *arena,
                          struct env *env,
                          const char *name,
                          struct str ip,
                          const struct json *ports)
{
    JSON_FOREACH(ports, port) {
        struct str protocol = json_str(json_get(port, "protocol"));
        char *upper = str_c(arena, protocol.len ? protocol : STR("TCP"));
        char *lower = str_c(arena, protocol.len ? protocol : STR("TCP"));
        for (char *p = lower; *p; p++)
            *p = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
        long long number = json_i64_or(json_get(port, "port"), 0);
        struct str url = str_printf(arena, "%s://" STR_FMT ":%lld", lower, STR_ARG(ip), number);
        struct str prefix = str_printf(arena, "%s_PORT_%lld_%s", name, number, upper);
        struct str word = json_str(json_get(port, "name"));
        if (port == json_first(ports))
            env_set(arena, env, str_printf(arena, "%s_PORT", name), url);
        if (word.len)
            env_set(arena, env,
                    str_printf(arena, "%s_SERVICE_PORT_%s", name, env_word(arena, word)),
                    str_printf(arena, "%lld", number));
        env_set(arena, env, prefix, url);
        env_set(arena, env, str_printf(arena, STR_FMT "_PROTO", STR_ARG(prefix)), str_from(lower));
        env_set(arena, env, str_printf(arena, STR_FMT "_PORT", STR_ARG(prefix)),
                str_printf(arena, "%lld", number));
        env_set(arena, env, str_printf(arena, STR_FMT "_ADDR", STR_ARG(prefix)), ip);
    }
}

void env_add_services(struct arena *arena, struct env *env, const struct env_context *context)
{
    const struct object *service;
    for (size_t cursor = 0;
         (service = cache_next(context->cache, &kind_service, context->ns, &cursor));) {
        arena_defer(arena, object_release, object_ref(service));
        const struct json *root = object_json(service, arena);
        struct str ip = json_str_at(root, "spec.clusterIP");
        int64_t port;
        if (!ip.len || str_is(ip, "None") || !json_i64(json_at(root, "spec.ports.0.port"), &port))
            continue;
        const char *name = env_word(arena, service->name);
        env_set(arena, env, str_printf(arena, "%s_SERVICE_HOST", name), ip);
        env_set(arena, env, str_printf(arena, "%s_SERVICE_PORT", name),
                str_printf(arena, "%lld", (long long)port));
        env_add_ports(arena, env, name, ip, json_at(root, "spec.ports"));
    }
}
