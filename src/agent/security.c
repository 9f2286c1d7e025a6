#include "agent/security.h"

#include "agent/core.h"
#include "agent/lifecycle.h"
#include "agent/machine.h"
#include "agent/network.h"
#include "agent/people.h"
#include "agent/pod.h"
#include "agent/sysctl.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "image/config.h"
#include "shim/record.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BIT(cap) (1ULL << (cap))
/* What container runtimes leave, less the making of device nodes and of packets in another's name.
 */
#define CAPS_DEFAULT                                                                              \
    (BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_FOWNER) | BIT(CAP_FSETID) | BIT(CAP_KILL) | \
     BIT(CAP_SETGID) | BIT(CAP_SETUID) | BIT(CAP_SETPCAP) | BIT(CAP_NET_BIND_SERVICE) |           \
     BIT(CAP_SYS_CHROOT) | BIT(CAP_AUDIT_WRITE) | BIT(CAP_SETFCAP))

/* With any of these nothing is hidden: they undo mounts, open files by handle, read other
 * processes, the kernel or the disks, or make what does. */
#define CAPS_SEE_THROUGH                                                                         \
    (BIT(CAP_SYS_ADMIN) | BIT(CAP_SYS_PTRACE) | BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_SYS_MODULE) | \
     BIT(CAP_SYS_RAWIO) | BIT(CAP_SYS_BOOT) | BIT(CAP_MKNOD) | BIT(CAP_BPF) | BIT(CAP_PERFMON) | \
     BIT(CAP_CHECKPOINT_RESTORE))

/* On the machine's own network these read and change what belongs to everybody on it. */
#define CAPS_OF_NETWORK (BIT(CAP_NET_RAW) | BIT(CAP_NET_ADMIN))

static const char *const cap_names[] = {
    [CAP_CHOWN] = "CHOWN",
    [CAP_DAC_OVERRIDE] = "DAC_OVERRIDE",
    [CAP_DAC_READ_SEARCH] = "DAC_READ_SEARCH",
    [CAP_FOWNER] = "FOWNER",
    [CAP_FSETID] = "FSETID",
    [CAP_KILL] = "KILL",
    [CAP_SETGID] = "SETGID",
    [CAP_SETUID] = "SETUID",
    [CAP_SETPCAP] = "SETPCAP",
    [CAP_LINUX_IMMUTABLE] = "LINUX_IMMUTABLE",
    [CAP_NET_BIND_SERVICE] = "NET_BIND_SERVICE",
    [CAP_NET_BROADCAST] = "NET_BROADCAST",
    [CAP_NET_ADMIN] = "NET_ADMIN",
    [CAP_NET_RAW] = "NET_RAW",
    [CAP_IPC_LOCK] = "IPC_LOCK",
    [CAP_IPC_OWNER] = "IPC_OWNER",
    [CAP_SYS_MODULE] = "SYS_MODULE",
    [CAP_SYS_RAWIO] = "SYS_RAWIO",
    [CAP_SYS_CHROOT] = "SYS_CHROOT",
    [CAP_SYS_PTRACE] = "SYS_PTRACE",
    [CAP_SYS_PACCT] = "SYS_PACCT",
    [CAP_SYS_ADMIN] = "SYS_ADMIN",
    [CAP_SYS_BOOT] = "SYS_BOOT",
    [CAP_SYS_NICE] = "SYS_NICE",
    [CAP_SYS_RESOURCE] = "SYS_RESOURCE",
    [CAP_SYS_TIME] = "SYS_TIME",
    [CAP_SYS_TTY_CONFIG] = "SYS_TTY_CONFIG",
    [CAP_MKNOD] = "MKNOD",
    [CAP_LEASE] = "LEASE",
    [CAP_AUDIT_WRITE] = "AUDIT_WRITE",
    [CAP_AUDIT_CONTROL] = "AUDIT_CONTROL",
    [CAP_SETFCAP] = "SETFCAP",
    [CAP_MAC_OVERRIDE] = "MAC_OVERRIDE",
    [CAP_MAC_ADMIN] = "MAC_ADMIN",
    [CAP_SYSLOG] = "SYSLOG",
    [CAP_WAKE_ALARM] = "WAKE_ALARM",
    [CAP_BLOCK_SUSPEND] = "BLOCK_SUSPEND",
    [CAP_AUDIT_READ] = "AUDIT_READ",
    [CAP_PERFMON] = "PERFMON",
    [CAP_BPF] = "BPF",
    [CAP_CHECKPOINT_RESTORE] = "CHECKPOINT_RESTORE",
};
#define CAP_COUNT COUNT_OF(cap_names)

static uint64_t caps_named(const struct json *names)
{
    uint64_t caps = 0;
    JSON_FOREACH(names, name) {
        struct str text = json_str(name);
        if (str_starts(text, STR("CAP_")))
            text = str_sub(text, 4, text.len);
        if (str_is(text, "ALL"))
            caps = UINT64_MAX;
        for (size_t i = 0; i < CAP_COUNT; i++)
            if (str_is(text, cap_names[i]))
                caps |= BIT(i);
    }
    return caps;
}

/* The container's word counts before the pod's. */
static const struct json *context_setting(const struct json *pod,
                                          const struct json *container,
                                          const char *key)
{
    const struct json *own = json_get(container, key);
    return json_is_null(own) ? json_get(pod, key) : own;
}

/* Her ids, whatever the image says; of her groups the one that is asked for. */
static int add_person(const struct person *person,
                      const struct json *shared,
                      const struct json *own,
                      struct buf *records,
                      struct err *err)
{
    int64_t gid = person->gid;
    (void)json_i64(context_setting(shared, own, "runAsGroup"), &gid);
    if (person->uid <= 0 || gid <= 0)
        return err_set(err, -EPERM, "the annotations of its namespace name no user");
    record_number(records, "uid", person->uid);
    record_number(records, "gid", gid);
    for (size_t i = 0; i < person->group_count; i++)
        record_number(records, "group", person->groups[i]);
    return 0;
}

static int add_user(struct pod *pod,
                    const struct image *image,
                    const struct json *shared,
                    const struct json *own,
                    struct buf *records,
                    struct err *err)
{
    const struct machine *machine = &pod->agent->machine;
    int64_t uid = machine->uid, gid = machine->gid, group;
    struct person person;
    if (people_find(pod, &person))
        return add_person(&person, shared, own, records, err);
    if (image)
        image_user(image, &uid, &gid);
    bool asked = json_i64(context_setting(shared, own, "runAsUser"), &uid);
    if (asked)
        gid = 0;
    (void)json_i64(context_setting(shared, own, "runAsGroup"), &gid);
    bool fits = !image && !asked && pod->agent->options.images_fit;
    if (json_bool_or(context_setting(shared, own, "runAsNonRoot"), false) && uid == 0 && !fits)
        return err_set(err, -EPERM, "container has runAsNonRoot and would run as root");
    if (uid < 0 || uid >= UINT32_MAX || gid < 0 || gid >= UINT32_MAX)
        return err_set(err, -EINVAL, "runAsUser and runAsGroup must be user and group ids");
    if (!machine->root && (uid != machine->uid || gid != machine->gid))
        return err_set(err, -EPERM, "runAsUser and runAsGroup need muster to run as root");
    if (!machine->root)
        return 0;
    record_number(records, "uid", uid);
    record_number(records, "gid", gid);
    if (!asked && !image)
        for (size_t i = 0; i < machine->group_count; i++)
            record_number(records, "group", machine->groups[i]);
    if (json_i64(json_get(shared, "fsGroup"), &group))
        record_number(records, "group", group);
    JSON_FOREACH(json_get(shared, "supplementalGroups"), extra)
        record_number(records, "group", json_i64_or(extra, 0));
    return 0;
}

#define ONLY_ALLOWED                                                                \
    "such a pod can see what muster hides; this node runs it only when muster was " \
    "started with --allow-privileged"

static int container_check_network(const struct json *container, struct err *err)
{
    uint64_t caps = caps_named(json_at(container, "securityContext.capabilities.add"));
    for (size_t i = 0; i < CAP_COUNT; i++)
        if (caps & CAPS_OF_NETWORK & BIT(i))
            return err_set(err, -ENOTSUP,
                           "container " STR_FMT
                           ": securityContext.capabilities.add: %s: this pod shares the machine's "
                           "network, and would have it for everybody's connections; start muster "
                           "with --pod-network=bridge, or with --allow-privileged",
                           STR_ARG(json_str(json_get(container, "name"))), cap_names[i]);
    return 0;
}

static int container_check(const struct json *container, struct err *err)
{
    struct str name = json_str(json_get(container, "name"));
    const struct json *own = json_get(container, "securityContext");
    if (json_bool_or(json_get(own, "privileged"), false))
        return err_set(err, -ENOTSUP,
                       "container " STR_FMT ": securityContext.privileged: " ONLY_ALLOWED,
                       STR_ARG(name));
    uint64_t caps = caps_named(json_at(own, "capabilities.add")) & CAPS_SEE_THROUGH;
    for (size_t i = 0; i < CAP_COUNT; i++)
        if (caps & BIT(i))
            return err_set(err, -ENOTSUP,
                           "container " STR_FMT
                           ": securityContext.capabilities.add: %s: " ONLY_ALLOWED,
                           STR_ARG(name), cap_names[i]);
    return 0;
}

int security_check_container(const struct pod *pod, size_t index, struct err *err)
{
    if (pod->agent->options.allow_privileged)
        return 0;
    int r = container_check(pod_container_spec(pod, index), err);
    if (r == 0 && !network_has_bridge(pod))
        r = container_check_network(pod_container_spec(pod, index), err);
    return r;
}

/* What says how a container is run, where that is how this node runs them. */
static bool runtime_is_known(struct str name)
{
    return !name.len || str_is(name, "nvidia") || str_is(name, "runc") || str_is(name, "crun");
}

int security_check_spec(const struct json *spec, struct err *err)
{
    struct str runtime = json_str(json_get(spec, "runtimeClassName"));

    if (!runtime_is_known(runtime))
        return err_set(err, -ENOTSUP,
                       "spec.runtimeClassName: " STR_FMT
                       ": this node has no such way to run containers; leave it out",
                       STR_ARG(runtime));
    size_t groups = json_count(json_at(spec, "securityContext.supplementalGroups"));
    if (groups > SECURITY_GROUPS_MAX)
        return err_set(err, -ENOTSUP,
                       "spec.securityContext.supplementalGroups: %zu groups; a pod of this node "
                       "has at most %d of its own",
                       groups, SECURITY_GROUPS_MAX);
    if (json_bool_or(json_get(spec, "shareProcessNamespace"), false))
        return err_set(err, -ENOTSUP,
                       "spec.shareProcessNamespace: on this node each container has its own "
                       "processes; leave it out, and use kubectl debug --target to see another's");
    return 0;
}

static struct sysctl_scope sysctl_scope(const struct pod *pod)
{
    return (struct sysctl_scope){.own_ipc =
                                     pod->agent->machine.mount_ns &&
                                     !json_bool_or(json_at(pod->root, "spec.hostIPC"), false),
                                 .own_network = network_has_bridge(pod)};
}

int security_check(const struct pod *pod, struct err *err)
{
    int refused = people_check(pod, err);
    if (refused == 0)
        refused = security_check_spec(json_get(pod->root, "spec"), err);
    if (refused == 0)
        refused = sysctl_check(json_get(pod->root, "spec"), sysctl_scope(pod), err);
    if (refused)
        return refused;
    if (pod->agent->options.allow_privileged)
        return 0;
    if (json_bool_or(json_at(pod->root, "spec.hostPID"), false))
        return err_set(err, -ENOTSUP, "spec.hostPID: " ONLY_ALLOWED);
    /* An ephemeral container comes later, and is refused alone. */
    for (size_t i = 0; i < pod->run.count && !pod->run.containers[i].ephemeral; i++) {
        int r = security_check_container(pod, i, err);
        if (r)
            return r;
    }
    return 0;
}

bool security_is_scoped(const struct pod *pod)
{
    for (size_t i = 0; i < pod->run.count; i++)
        if (json_bool_or(json_at(pod_container_spec(pod, i), "securityContext.privileged"), false))
            return false;
    return true;
}

int security_add(struct pod *pod,
                 const struct image *image,
                 const struct json *container,
                 struct buf *records,
                 struct err *err)
{
    const struct json *shared = json_at(pod->root, "spec.securityContext");
    const struct json *own = json_get(container, "securityContext");
    int r = add_user(pod, image, shared, own, records, err);
    if (r)
        return err_wrap(err, r, "container " STR_FMT,
                        STR_ARG(json_str(json_get(container, "name"))));
    if (json_bool_or(json_get(own, "privileged"), false))
        return 0;
    const struct json *caps = json_get(own, "capabilities");
    uint64_t keep = CAPS_DEFAULT & ~caps_named(json_get(caps, "drop"));
    keep |= caps_named(json_get(caps, "add"));
    buf_addf(records, "caps=%llx", (unsigned long long)keep);
    buf_addc(records, '\0');
    record_number(records, "nonewprivs", 1);
    struct str profile = json_str(json_get(context_setting(shared, own, "seccompProfile"), "type"));
    record_number(records, "seccomp", !str_is(profile, "Unconfined"));
    return 0;
}

struct str security_cap_name(struct arena *arena, unsigned cap)
{
    return cap < CAP_COUNT ? str_printf(arena, "CAP_%s", cap_names[cap]) : STR("");
}
