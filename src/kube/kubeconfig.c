#include "kube/kubeconfig.h"

#include "base/arena.h"
#include "base/base64.h"
#include "base/err.h"
#include "base/json.h"
#include "base/vec.h"
#include "base/yaml.h"
#include "tool/file.h"

#include <errno.h>

#define FILES_MAX  32
#define EXEC_MAX   256 /* arguments, or variables, of one exec plugin */
#define IN_CLUSTER "/var/run/secrets/kubernetes.io/serviceaccount/"

struct source {
    const char *path;
    struct str folder; /* of the file, with its slash; empty: the working directory */
    struct json *root;
};

struct sources {
    struct arena *arena;
    struct source files[FILES_MAX];
    size_t count;
};

static int read_source(struct sources *sources, struct str path, bool must, struct err *err)
{
    struct source *source = &sources->files[sources->count];
    char *file = str_c(sources->arena, path);
    size_t slash = path.len;
    struct str text;
    int r;

    if (sources->count == FILES_MAX)
        return err_set(err, -E2BIG, "KUBECONFIG names more than %d files", FILES_MAX);
    r = file_read(sources->arena, file, &text, err);
    if (r == -ENOENT && !must)
        return 0;
    if (r < 0)
        return r;
    r = yaml_parse(sources->arena, text, &source->root, err);
    if (r < 0)
        return err_wrap(err, r, "%s", file);
    if (!json_is_null(source->root) && !json_is(source->root, JSON_OBJECT))
        return err_set(err, -EINVAL, "%s: not a kubeconfig: the top is not a mapping", file);
    while (slash > 0 && path.p[slash - 1] != '/')
        slash--;
    source->path = file;
    source->folder = str_sub(path, 0, slash);
    sources->count++;
    return 0;
}

static int read_sources(struct sources *sources,
                        const struct kubeconfig_options *options,
                        struct err *err)
{
    struct str rest = str_from(options->env);
    struct str path;

    if (options->path && *options->path)
        return read_source(sources, str_from(options->path), true, err);
    if (rest.len == 0 && options->home)
        rest = str_printf(sources->arena, "%s/.kube/config", options->home);
    while (str_cut(&rest, ':', &path)) {
        int r = path.len > 0 ? read_source(sources, path, false, err) : 0;

        if (r < 0)
            return r;
    }
    if (sources->count == 0)
        return err_set(err, -ENOENT,
                       "no kubeconfig found: set KUBECONFIG, or give --kubeconfig FILE");
    return 0;
}

/* The first entry of that name in `list`, and the file it is in. */
static struct json *find(const struct sources *sources,
                         const char *list,
                         struct str name,
                         const struct source **ret_source)
{
    for (size_t i = 0; i < sources->count; i++)
        JSON_FOREACH(json_get(sources->files[i].root, list), entry)
            if (str_eq(json_str(json_get(entry, "name")), name)) {
                *ret_source = &sources->files[i];
                return entry;
            }
    return NULL;
}

static const char *text_at(struct arena *arena, const struct json *object, const char *key)
{
    struct str text = json_str(json_get(object, key));

    return text.len > 0 ? str_c(arena, text) : NULL;
}

/* A path as written in the file: relative to the file's folder. */
static const char *path_at(struct arena *arena,
                           const struct source *source,
                           const struct json *object,
                           const char *key)
{
    struct str text = json_str(json_get(object, key));

    if (text.len == 0)
        return NULL;
    if (text.p[0] == '/')
        return str_c(arena, text);
    return str_printf(arena, STR_FMT STR_FMT, STR_ARG(source->folder), STR_ARG(text)).p;
}

/* `key`-data holds the bytes in base64; else `key` names a file. Data wins, as in kubectl. */
struct bytes_from {
    const struct source *source;
    const struct json *object;
    const char *key;
};

static int bytes_at(struct arena *arena,
                    const struct bytes_from *from,
                    struct str *ret,
                    const char **ret_file,
                    struct err *err)
{
    const struct source *source = from->source;
    const char *key = from->key;
    struct str data = json_str(json_get_str(from->object, str_printf(arena, "%s-data", key)));
    const char *path = path_at(arena, source, from->object, key);

    if (data.len > 0) {
        if (!base64_decode(arena, data, ret))
            return err_set(err, -EINVAL, "%s: %s-data is not base64", source->path, key);
        return 0;
    }
    if (!path)
        return 0;
    int r = file_read(arena, path, ret, err);

    if (r < 0)
        return err_wrap(err, r, "%s: %s", source->path, key);
    if (ret->len == 0)
        return err_set(err, -EINVAL, "%s: %s: %s is empty", source->path, key, path);
    *ret_file = path;
    return 0;
}

static int read_cluster(struct arena *arena,
                        const struct source *source,
                        const struct json *cluster,
                        struct kube_config *ret,
                        struct err *err)
{
    ret->server = text_at(arena, cluster, "server");
    ret->server_name = text_at(arena, cluster, "tls-server-name");
    ret->proxy = text_at(arena, cluster, "proxy-url");
    ret->insecure = json_bool_or(json_get(cluster, "insecure-skip-tls-verify"), false);
    return bytes_at(arena, &(struct bytes_from){source, cluster, "certificate-authority"},
                    &ret->ca_pem, &ret->ca_file, err);
}

static int read_exec(struct arena *arena,
                     const struct source *source,
                     const struct json *exec,
                     struct kube_config *ret,
                     struct err *err)
{
    struct kubeconfig_exec *plugin = ARENA_NEW(arena, struct kubeconfig_exec);
    size_t arg_count = json_count(json_get(exec, "args"));
    size_t env_count = json_count(json_get(exec, "env"));
    const char **args = ARENA_ARRAY(arena, const char *, arg_count + 1);
    struct kubeconfig_env *env = ARENA_ARRAY(arena, struct kubeconfig_env, env_count + 1);

    if (arg_count > EXEC_MAX || env_count > EXEC_MAX)
        return err_set(err, -E2BIG, "%s: exec: more than %d arguments or variables", source->path,
                       EXEC_MAX);
    plugin->api_version = text_at(arena, exec, "apiVersion");
    plugin->command = text_at(arena, exec, "command");
    if (plugin->command && str_find(str_from(plugin->command), '/') < strlen(plugin->command))
        plugin->command = path_at(arena, source, exec, "command");
    plugin->install_hint = text_at(arena, exec, "installHint");
    plugin->provide_cluster_info = json_bool_or(json_get(exec, "provideClusterInfo"), false);
    if (!plugin->command || !plugin->api_version)
        return err_set(err, -EINVAL, "%s: exec: command and apiVersion are required", source->path);
    JSON_FOREACH(json_get(exec, "args"), arg)
        *args++ = str_c(arena, json_str(arg));
    plugin->args = args - arg_count;
    JSON_FOREACH(json_get(exec, "env"), variable)
        env[plugin->env_count++] = (struct kubeconfig_env){
            .name = str_c(arena, json_str(json_get(variable, "name"))),
            .value = str_c(arena, json_str(json_get(variable, "value"))),
        };
    plugin->env = env;
    ret->exec = plugin;
    return 0;
}

static int read_user(struct arena *arena,
                     const struct source *source,
                     const struct json *user,
                     struct kube_config *ret,
                     struct err *err)
{
    int r = bytes_at(arena, &(struct bytes_from){source, user, "client-certificate"},
                     &ret->cert_pem, &ret->cert_file, err);

    if (r == 0)
        r = bytes_at(arena, &(struct bytes_from){source, user, "client-key"}, &ret->key_pem,
                     &ret->key_file, err);
    if (r < 0)
        return r;
    if ((ret->cert_pem.len > 0) != (ret->key_pem.len > 0))
        return err_set(err, -EINVAL,
                       "%s: a client certificate needs its key, and the other way round",
                       source->path);
    ret->token = text_at(arena, user, "token");
    ret->token_file = path_at(arena, source, user, "tokenFile");
    if (json_get(user, "username"))
        return err_set(err, -EINVAL,
                       "%s: username: basic authentication was removed from Kubernetes: use token, "
                       "tokenFile, a client certificate or exec",
                       source->path);
    if (json_is(json_get(user, "auth-provider"), JSON_OBJECT))
        return err_set(err, -EINVAL, "%s: auth-provider was removed from Kubernetes: use exec",
                       source->path);
    if (json_is(json_get(user, "exec"), JSON_OBJECT))
        return read_exec(arena, source, json_get(user, "exec"), ret, err);
    return 0;
}

static struct str current_context(const struct sources *sources)
{
    for (size_t i = 0; i < sources->count; i++) {
        struct str name = json_str(json_get(sources->files[i].root, "current-context"));

        if (name.len > 0)
            return name;
    }
    return STR_NONE;
}

static int read_context(struct sources *sources,
                        struct str name,
                        struct kube_config *ret,
                        struct err *err)
{
    struct arena *arena = sources->arena;
    const struct source *source = &sources->files[0];
    struct json *context = find(sources, "contexts", name, &source);
    struct json *body = json_get(context, "context");
    struct str user_name = json_str(json_get(body, "user"));
    struct json *cluster;
    struct json *user;
    int r;

    ret->source = source->path;
    if (!context)
        return err_set(err, -EINVAL, "%s: there is no context \"" STR_FMT "\"", source->path,
                       STR_ARG(name));
    ret->ns = text_at(arena, body, "namespace");
    cluster = find(sources, "clusters", json_str(json_get(body, "cluster")), &source);
    if (!cluster)
        return err_set(err, -EINVAL, "%s: context " STR_FMT ": there is no cluster \"" STR_FMT "\"",
                       ret->source, STR_ARG(name), STR_ARG(json_str(json_get(body, "cluster"))));
    r = read_cluster(arena, source, json_get(cluster, "cluster"), ret, err);
    if (r < 0)
        return r;
    user = find(sources, "users", user_name, &source);
    if (!user)
        return user_name.len == 0
                   ? 0
                   : err_set(err, -EINVAL,
                             "%s: context " STR_FMT ": there is no user \"" STR_FMT "\"",
                             ret->source, STR_ARG(name), STR_ARG(user_name));
    return read_user(arena, source, json_get(user, "user"), ret, err);
}

int kubeconfig_load(struct arena *arena,
                    const struct kubeconfig_options *options,
                    struct kube_config *ret,
                    struct err *err)
{
    struct sources sources = {.arena = arena};
    struct kube_config config = {0};
    struct str context;
    int r = read_sources(&sources, options, err);

    if (r < 0)
        return r;
    context = options->context && *options->context ? str_from(options->context)
                                                    : current_context(&sources);
    if (context.len == 0)
        return err_set(err, -EINVAL, "%s: no current-context: name one with --context",
                       sources.files[0].path);
    r = read_context(&sources, context, &config, err);
    if (r < 0)
        return r;
    config.context = str_c(arena, context);
    if (options->server && *options->server)
        config.server = str_c(arena, str_from(options->server));
    if (!config.server)
        return err_set(err, -EINVAL, "%s: context %s: its cluster has no server", config.source,
                       config.context);
    if (options->ns && *options->ns)
        config.ns = str_c(arena, str_from(options->ns));
    if (!config.ns)
        config.ns = "default";
    *ret = config;
    return 0;
}

int kubeconfig_in_cluster(struct arena *arena,
                          const char *host,
                          const char *port,
                          struct kube_config *ret,
                          struct err *err)
{
    struct kube_config config = {
        .source = IN_CLUSTER "token",
        .context = "in-cluster",
        .in_cluster = true,
        .token_file = IN_CLUSTER "token",
        .ca_file = IN_CLUSTER "ca.crt",
    };
    bool six = host && str_find(str_from(host), ':') < strlen(host);
    struct str ns;
    int r;

    if (!host || !*host || !port || !*port)
        return err_set(err, -ENOENT,
                       "not in a cluster: KUBERNETES_SERVICE_HOST and _PORT are not set");
    config.server = str_printf(arena, six ? "https://[%s]:%s" : "https://%s:%s", host, port).p;
    r = file_read(arena, config.ca_file, &config.ca_pem, err);
    if (r < 0)
        return r;
    r = file_read(arena, IN_CLUSTER "namespace", &ns, err);
    config.ns = r == 0 ? str_c(arena, str_trim(ns)) : "default";
    *ret = config;
    return 0;
}
