#include "api/pod_security.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* The controls, one function each, and their table at the end. */

#define NAMES_MAX 20 /* told of one control; a pod may have thousands of containers */

struct names VEC_FIELDS(struct str);

/* ---- words ---- */

static int name_compare(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

static void names_add(const struct pod_security_look *look, struct names *names, struct str name)
{
    for (size_t i = 0; i < names->count; i++)
        if (str_eq(names->items[i], name))
            return;
    if (names->count < NAMES_MAX)
        VEC_PUSH(look->arena, names, name);
}

/* "a", "b" */
static struct str names_quoted(const struct pod_security_look *look, struct names *names, bool sort)
{
    struct str text = STR("");

    if (sort && names->count)
        qsort(names->items, names->count, sizeof(names->items[0]), name_compare);
    for (size_t i = 0; i < names->count; i++)
        text = str_printf(look->arena, STR_FMT "%s\"" STR_FMT "\"", STR_ARG(text), i ? ", " : "",
                          STR_ARG(names->items[i]));
    return text;
}

/* container "a", or containers "a", "b" */
static struct str things(const struct pod_security_look *look,
                         const char *word,
                         struct names *names)
{
    return str_printf(look->arena, "%s%s " STR_FMT, word, names->count > 1 ? "s" : "",
                      STR_ARG(names_quoted(look, names, false)));
}

/* pod and container "a" */
static struct str setters(const struct pod_security_look *look, bool pod, struct names *containers)
{
    if (!containers->count)
        return STR("pod");
    return str_printf(look->arena, "%s" STR_FMT, pod ? "pod and " : "",
                      STR_ARG(things(look, "container", containers)));
}

/* ---- containers ---- */

typedef bool container_fn(const struct json *context, const struct json *container);

/* All that can run, the first to run first. */
static const char *const container_lists[] = {"initContainers", "containers",
                                              "ephemeralContainers"};
#define EACH_CONTAINER(look, container)                                \
    for (size_t list_ = 0; list_ < COUNT_OF(container_lists); list_++) \
        JSON_FOREACH(json_get((look)->spec, container_lists[list_]), container)

static struct names containers_that(const struct pod_security_look *look, container_fn *fn)
{
    struct names names = {0};

    EACH_CONTAINER(look, container)
    if (fn(json_get(container, "securityContext"), container))
        names_add(look, &names, json_str(json_get(container, "name")));
    return names;
}

/* `detail` about the pod (where its own context is so) and its containers. */
static struct str pod_and_containers(const struct pod_security_look *look,
                                     container_fn *fn,
                                     const char *detail)
{
    struct names names = containers_that(look, fn);
    bool pod = fn(json_get(look->spec, "securityContext"), NULL);

    if (!pod && !names.count)
        return STR("");
    return str_printf(look->arena, STR_FMT " %s", STR_ARG(setters(look, pod, &names)), detail);
}

static struct str containers_only(const struct pod_security_look *look,
                                  container_fn *fn,
                                  const char *detail)
{
    struct names names = containers_that(look, fn);

    if (!names.count)
        return STR("");
    return str_printf(look->arena, STR_FMT " %s", STR_ARG(things(look, "container", &names)),
                      detail);
}

static bool is_one_of(struct str text, const char *const *words)
{
    for (; *words; words++)
        if (str_is(text, *words))
            return true;
    return false;
}

/* ---- baseline ---- */

#define APPARMOR_PREFIX "container.apparmor.security.beta.kubernetes.io/"

static bool is_bad_apparmor(const struct json *context, const struct json *container)
{
    static const char *const allowed[] = {"", "RuntimeDefault", "Localhost", NULL};

    (void)container;
    return !is_one_of(json_str_at(context, "appArmorProfile.type"), allowed);
}

static struct str check_apparmor(const struct pod_security_look *look)
{
    struct str text = pod_and_containers(look, is_bad_apparmor,
                                         "must not set AppArmor profile type to \"Unconfined\"");

    JSON_FOREACH(look->annotations, item) {
        struct str value = json_str(item);

        if (str_starts(json_key(item), STR(APPARMOR_PREFIX)) && value.len &&
            !str_is(value, "runtime/default") && !str_starts(value, STR("localhost/")))
            text = str_printf(look->arena, STR_FMT "%sannotation \"" STR_FMT "\"=\"" STR_FMT "\"",
                              STR_ARG(text), text.len ? ", " : "", STR_ARG(json_key(item)),
                              STR_ARG(str_sub(value, 0, 64)));
        if (text.len > 1000)
            break;
    }
    return text;
}

static struct str added_capabilities(const struct pod_security_look *look,
                                     const char *const *allowed)
{
    struct names names = {0};
    struct names added = {0};

    EACH_CONTAINER(look, container)
    JSON_FOREACH(json_at(container, "securityContext.capabilities.add"), item)
        if (!is_one_of(json_str(item), allowed)) {
            names_add(look, &names, json_str(json_get(container, "name")));
            names_add(look, &added, json_str(item));
        }
    if (!names.count)
        return STR("");
    return str_printf(
        look->arena, STR_FMT " must not include " STR_FMT " in securityContext.capabilities.add",
        STR_ARG(things(look, "container", &names)), STR_ARG(names_quoted(look, &added, true)));
}

static struct str check_capabilities(const struct pod_security_look *look)
{
    static const char *const defaults[] = {
        "AUDIT_WRITE",      "CHOWN",   "DAC_OVERRIDE", "FOWNER",  "FSETID", "KILL",       "MKNOD",
        "NET_BIND_SERVICE", "SETFCAP", "SETGID",       "SETPCAP", "SETUID", "SYS_CHROOT", NULL};

    return added_capabilities(look, defaults);
}

static struct str check_host_namespaces(const struct pod_security_look *look)
{
    static const char *const fields[] = {"hostNetwork", "hostPID", "hostIPC"};
    struct str text = STR("");

    for (size_t i = 0; i < COUNT_OF(fields); i++)
        if (json_bool_or(json_get(look->spec, fields[i]), false))
            text = str_printf(look->arena, STR_FMT "%s%s=true", STR_ARG(text), text.len ? ", " : "",
                              fields[i]);
    return text;
}

static struct str check_host_paths(const struct pod_security_look *look)
{
    struct names names = {0};

    JSON_FOREACH(json_get(look->spec, "volumes"), volume)
        if (!json_is_null(json_get(volume, "hostPath")))
            names_add(look, &names, json_str(json_get(volume, "name")));
    return names.count ? things(look, "volume", &names) : STR("");
}

static struct str check_host_ports(const struct pod_security_look *look)
{
    struct names names = {0};
    struct names ports = {0};
    struct str text = STR("");

    EACH_CONTAINER(look, container)
    JSON_FOREACH(json_get(container, "ports"), port) {
        int64_t number = json_i64_or(json_get(port, "hostPort"), 0);

        if (!number)
            continue;
        names_add(look, &names, json_str(json_get(container, "name")));
        names_add(look, &ports, str_printf(look->arena, "%lld", (long long)number));
    }
    for (size_t i = 0; i < ports.count; i++)
        text = str_printf(look->arena, STR_FMT "%s" STR_FMT, STR_ARG(text), i ? ", " : "",
                          STR_ARG(ports.items[i]));
    if (!names.count)
        return STR("");
    return str_printf(look->arena, STR_FMT " %s hostPort%s " STR_FMT,
                      STR_ARG(things(look, "container", &names)), names.count > 1 ? "use" : "uses",
                      ports.count > 1 ? "s" : "", STR_ARG(text));
}

static bool has_host_action(const struct json *parent, const char *path)
{
    const struct json *action = json_at(parent, path);

    return json_str_at(action, "httpGet.host").len || json_str_at(action, "tcpSocket.host").len;
}

static bool is_bad_probe(const struct json *context, const struct json *container)
{
    (void)context;
    return has_host_action(container, "livenessProbe") ||
           has_host_action(container, "readinessProbe") ||
           has_host_action(container, "startupProbe") ||
           has_host_action(container, "lifecycle.postStart") ||
           has_host_action(container, "lifecycle.preStop");
}

static struct str check_host_probes(const struct pod_security_look *look)
{
    return containers_only(look, is_bad_probe, "must not set host in probes or lifecycle handlers");
}

static bool is_privileged(const struct json *context, const struct json *container)
{
    (void)container;
    return json_bool_or(json_get(context, "privileged"), false);
}

static struct str check_privileged(const struct pod_security_look *look)
{
    return containers_only(look, is_privileged, "must not set securityContext.privileged=true");
}

static bool is_bad_proc(const struct json *context, const struct json *container)
{
    static const char *const allowed[] = {"", "Default", NULL};

    (void)container;
    return !is_one_of(json_str(json_get(context, "procMount")), allowed);
}

static struct str check_proc(const struct pod_security_look *look)
{
    return containers_only(look, is_bad_proc,
                           "must not set securityContext.procMount to \"Unmasked\"");
}

static bool is_bad_selinux(const struct json *context, const struct json *container)
{
    static const char *const allowed[] = {
        "", "container_t", "container_init_t", "container_kvm_t", "container_engine_t", NULL};
    const struct json *options = json_get(context, "seLinuxOptions");

    (void)container;
    return !is_one_of(json_str(json_get(options, "type")), allowed) ||
           json_str(json_get(options, "user")).len || json_str(json_get(options, "role")).len;
}

static struct str check_selinux(const struct pod_security_look *look)
{
    return pod_and_containers(look, is_bad_selinux,
                              "must not set securityContext.seLinuxOptions to a type other than "
                              "those of containers, nor user or role");
}

static bool is_unconfined(const struct json *context, const struct json *container)
{
    static const char *const allowed[] = {"", "RuntimeDefault", "Localhost", NULL};

    (void)container;
    return !is_one_of(json_str_at(context, "seccompProfile.type"), allowed);
}

static struct str check_seccomp(const struct pod_security_look *look)
{
    return pod_and_containers(look, is_unconfined,
                              "must not set securityContext.seccompProfile.type to \"Unconfined\"");
}

static const struct {
    const char *name;
    int since;
} safe_sysctls[] = {
    {"kernel.shm_rmid_forced", 0},
    {"net.ipv4.ip_local_port_range", 0},
    {"net.ipv4.ip_unprivileged_port_start", 0},
    {"net.ipv4.tcp_syncookies", 0},
    {"net.ipv4.ping_group_range", 0},
    {"net.ipv4.ip_local_reserved_ports", 27},
    {"net.ipv4.tcp_keepalive_time", 29},
    {"net.ipv4.tcp_fin_timeout", 29},
    {"net.ipv4.tcp_keepalive_intvl", 29},
    {"net.ipv4.tcp_keepalive_probes", 29},
    {"net.ipv4.tcp_rmem", 32},
    {"net.ipv4.tcp_wmem", 32},
};

bool pod_security_sysctl_is_safe(struct str name, int minor)
{
    for (size_t i = 0; i < COUNT_OF(safe_sysctls); i++)
        if (str_is(name, safe_sysctls[i].name) && safe_sysctls[i].since <= minor)
            return true;
    return false;
}

static struct str check_sysctls(const struct pod_security_look *look)
{
    struct str text = STR("");

    JSON_FOREACH(json_at(look->spec, "securityContext.sysctls"), item) {
        struct str name = json_str(json_get(item, "name"));

        if (!pod_security_sysctl_is_safe(name, look->minor) && text.len < 1000)
            text = str_printf(look->arena, STR_FMT "%s" STR_FMT, STR_ARG(text),
                              text.len ? ", " : "", STR_ARG(str_sub(name, 0, 64)));
    }
    return text;
}

static bool is_host_process(const struct json *context, const struct json *container)
{
    (void)container;
    return json_bool_or(json_at(context, "windowsOptions.hostProcess"), false);
}

static struct str check_host_process(const struct pod_security_look *look)
{
    return pod_and_containers(look, is_host_process,
                              "must not set securityContext.windowsOptions.hostProcess=true");
}

/* ---- restricted ---- */

static bool may_gain(const struct json *context, const struct json *container)
{
    (void)container;
    return json_bool_or(json_get(context, "allowPrivilegeEscalation"), true);
}

static struct str check_escalation(const struct pod_security_look *look)
{
    return containers_only(look, may_gain,
                           "must set securityContext.allowPrivilegeEscalation=false");
}

static bool keeps_capabilities(const struct json *context, const struct json *container)
{
    (void)container;
    JSON_FOREACH(json_at(context, "capabilities.drop"), item)
        if (str_is(json_str(item), "ALL"))
            return false;
    return true;
}

static struct str check_all_capabilities(const struct pod_security_look *look)
{
    static const char *const allowed[] = {"NET_BIND_SERVICE", NULL};
    struct str drop = containers_only(look, keeps_capabilities,
                                      "must set securityContext.capabilities.drop=[\"ALL\"]");
    struct str add = added_capabilities(look, allowed);

    if (!drop.len || !add.len)
        return drop.len ? drop : add;
    return str_printf(look->arena, STR_FMT "; " STR_FMT, STR_ARG(drop), STR_ARG(add));
}

static struct str check_volumes(const struct pod_security_look *look)
{
    static const char *const allowed[] = {
        "name",      "configMap", "csi",   "downwardAPI",
        "emptyDir",  "ephemeral", "image", "persistentVolumeClaim",
        "projected", "secret",    NULL};
    struct names names = {0};
    struct names types = {0};

    JSON_FOREACH(json_get(look->spec, "volumes"), volume)
        JSON_FOREACH(volume, member)
            if (!json_is_null(member) && !is_one_of(json_key(member), allowed)) {
                names_add(look, &names, json_str(json_get(volume, "name")));
                names_add(look, &types, json_key(member));
            }
    if (!names.count)
        return STR("");
    return str_printf(look->arena, STR_FMT " %s restricted volume type%s " STR_FMT,
                      STR_ARG(things(look, "volume", &names)), names.count > 1 ? "use" : "uses",
                      types.count > 1 ? "s" : "", STR_ARG(names_quoted(look, &types, true)));
}

static bool says_root(const struct json *context, const struct json *container)
{
    (void)container;
    return !json_bool_or(json_get(context, "runAsNonRoot"), true);
}

static bool says_nothing_of_root(const struct json *context, const struct json *container)
{
    (void)container;
    return json_is_null(json_get(context, "runAsNonRoot"));
}

static struct str check_non_root(const struct pod_security_look *look)
{
    struct str said =
        pod_and_containers(look, says_root, "must not set securityContext.runAsNonRoot=false");

    if (said.len || json_bool_or(json_at(look->spec, "securityContext.runAsNonRoot"), false))
        return said;
    said =
        containers_only(look, says_nothing_of_root, "must set securityContext.runAsNonRoot=true");
    return said.len ? str_printf(look->arena, "pod or " STR_FMT, STR_ARG(said)) : said;
}

static bool is_user_zero(const struct json *context, const struct json *container)
{
    (void)container;
    return json_i64_or(json_get(context, "runAsUser"), 1) == 0;
}

static struct str check_user(const struct pod_security_look *look)
{
    return pod_and_containers(look, is_user_zero, "must not set runAsUser=0");
}

static bool lacks_seccomp(const struct json *context, const struct json *container)
{
    (void)container;
    return !json_str_at(context, "seccompProfile.type").len;
}

static struct str check_some_seccomp(const struct pod_security_look *look)
{
    struct str said = check_seccomp(look);

    if (said.len || !lacks_seccomp(json_get(look->spec, "securityContext"), NULL))
        return said;
    said = containers_only(look, lacks_seccomp,
                           "must set securityContext.seccompProfile.type to \"RuntimeDefault\" or "
                           "\"Localhost\"");
    return said.len ? str_printf(look->arena, "pod or " STR_FMT, STR_ARG(said)) : said;
}

#define BASELINE   POD_SECURITY_BASELINE
#define RESTRICTED POD_SECURITY_RESTRICTED

const struct pod_security_control pod_security_controls[] = {
    {"appArmorProfile", "forbidden AppArmor profile", BASELINE, 0, NULL, false, check_apparmor},
    {"capabilities_baseline", "non-default capabilities", BASELINE, 0, NULL, false,
     check_capabilities},
    {"hostNamespaces", "host namespaces", BASELINE, 0, NULL, false, check_host_namespaces},
    {"hostPathVolumes", "hostPath volumes", BASELINE, 0, NULL, false, check_host_paths},
    {"hostPorts", "hostPort", BASELINE, 0, NULL, false, check_host_ports},
    {"hostProbesAndhostLifecycle", "probe or lifecycle host", BASELINE, 34, NULL, false,
     check_host_probes},
    {"privileged", "privileged", BASELINE, 0, NULL, false, check_privileged},
    {"procMount", "procMount", BASELINE, 0, NULL, false, check_proc},
    {"seLinuxOptions", "seLinuxOptions", BASELINE, 0, NULL, false, check_selinux},
    {"seccompProfile_baseline", "seccompProfile", BASELINE, 19, NULL, false, check_seccomp},
    {"sysctls", "forbidden sysctls", BASELINE, 0, NULL, false, check_sysctls},
    {"windowsHostProcess", "hostProcess", BASELINE, 0, NULL, false, check_host_process},
    {"allowPrivilegeEscalation", "allowPrivilegeEscalation != false", RESTRICTED, 8, NULL, true,
     check_escalation},
    {"capabilities_restricted", "unrestricted capabilities", RESTRICTED, 22,
     "capabilities_baseline", true, check_all_capabilities},
    {"restrictedVolumes", "restricted volume types", RESTRICTED, 0, "hostPathVolumes", false,
     check_volumes},
    {"runAsNonRoot", "runAsNonRoot != true", RESTRICTED, 0, NULL, false, check_non_root},
    {"runAsUser", "runAsUser=0", RESTRICTED, 23, NULL, false, check_user},
    {"seccompProfile_restricted", "seccompProfile", RESTRICTED, 19, "seccompProfile_baseline", true,
     check_some_seccomp},
    {0},
};
