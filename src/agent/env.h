#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct cache;
struct err;
struct json;
struct map;

/* env: a container's environment and arguments, as Kubernetes puts them together. Pure. */

/* What a pod's fields mean on this node. */
struct env_context {
    const struct cache *cache; /* ConfigMaps, Secrets, Services */
    const struct json *pod;    /* the whole object */
    struct str ns;
    struct str pod_ip;
    struct str host_ip;
    struct str node_name;
    int64_t node_cpu_milli; /* what a container without limits may use */
    int64_t node_memory_bytes;
};

struct env_var {
    struct str name;
    struct str value;
};

/* Of one container: its variables and arguments, expanded, those that were replaced included. What its spec file holds
 * (SHIM_SPEC_BYTES); Linux gives a program less, 2 MiB with the usual stack. */
#define ENV_BYTES_MAX ((size_t)4 << 20)
/* Of the ConfigMaps and Secrets that its variables name, each once: some thirty of the largest. */
#define ENV_SOURCE_BYTES_MAX ((size_t)32 << 20)

struct env {
    struct env_var *items;
    size_t count;
    size_t capacity;
    struct map *names;   /* place in items + 1; goes with the arena */
    struct map *sources; /* struct json of what is named, by kind and name */
    size_t bytes;        /* of ENV_BYTES_MAX */
    size_t source_bytes; /* of ENV_SOURCE_BYTES_MAX */
};

/* A later value of the same name replaces the earlier one, in its place. One arena for all calls. */
void env_set(struct arena *arena, struct env *env, struct str name, struct str value);
/* STR_NONE when there is none. */
struct str env_get(const struct env *env, struct str name);

/* {NAME}_SERVICE_HOST and _PORT for the namespace's services that have an address. */
void env_add_services(struct arena *arena, struct env *env, const struct env_context *context);
/* envFrom, then env, of a container. -EAGAIN: a ConfigMap, Secret or key is not there (yet); err
 * names it. -E2BIG: more than the limits above. */
int env_add_container(struct arena *arena,
                      struct env *env,
                      const struct env_context *context,
                      const struct json *container,
                      struct err *err);

/* $(NAME) becomes its value, $$ one dollar; unknown names stay as they are. What comes of it counts: -E2BIG. */
int env_expand(struct arena *arena,
               struct env *env,
               struct str text,
               struct str *ret,
               struct err *err);

/* A field of the pod as text: metadata.name, metadata.labels['x'], status.podIP ...; and an amount
 * of a container's resources. -EINVAL: there is no such field. */
int env_field(struct arena *arena,
              const struct env_context *context,
              struct str path,
              struct str *ret,
              struct err *err);
int env_resource(struct arena *arena,
                 const struct env_context *context,
                 const struct json *container,
                 const struct json *reference,
                 struct str *ret,
                 struct err *err);
