#include "agent/oci.h"

#include "agent/core.h"
#include "agent/env.h"
#include "agent/lifecycle.h"
#include "agent/pod.h"
#include "agent/security.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "image/image.h"
#include "shim/denied_calls.h"
#include "shim/record.h"
#include "shim/shim.h"
#include "tool/files.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define PATH_DEFAULT "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

const char *oci_runtime(void)
{
    static const char *const paths[] = {"/usr/bin/crun", "/usr/local/bin/crun", "/usr/sbin/crun"};
    for (size_t i = 0; i < COUNT_OF(paths); i++)
        if (access(paths[i], X_OK) == 0)
            return paths[i];
    return NULL;
}

/* ---- what the image says ---- */

int oci_image(const struct pod *pod,
              size_t index,
              struct arena *arena,
              struct image *ret,
              const char **ret_reason,
              struct err *err)
{
    const struct json *container = pod_container_spec(pod, index);
    struct str name = json_str(json_get(container, "image"));
    struct str policy = json_str(json_get(container, "imagePullPolicy"));
    int r = image_find(arena, pod->agent->options.data_dir, name, ret, err);
    if (r == 0)
        return 0;
    *ret_reason = r == -EINVAL              ? "InvalidImageName"
                  : str_is(policy, "Never") ? "ErrImageNeverPull"
                                            : "ImagePullBackOff";
    return -EAGAIN;
}

void oci_env(struct arena *arena, struct env *env, const struct image *image)
{
    env_set(arena, env, STR("PATH"), STR(PATH_DEFAULT));
    JSON_FOREACH(json_get(image->config, "Env"), entry) {
        struct str value = json_str(entry), name;
        if (str_cut(&value, '=', &name))
            env_set(arena, env, name, value);
    }
}

/* ---- the bundle ---- */

/* What muster has itself: in a container it may lack some, and nobody can give what he lacks. */
static uint64_t own_capabilities(void)
{
    uint64_t own = 0;
    for (unsigned cap = 0; cap <= CAP_LAST_CAP; cap++)
        if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1)
            own |= 1ULL << cap;
    return own;
}

static void add_capabilities(struct arena *arena, struct json *process, uint64_t caps)
{
    static const char *const sets[] = {"bounding", "effective", "permitted"};
    struct json *all = json_add_object(arena, process, "capabilities");
    for (size_t i = 0; i < COUNT_OF(sets); i++) {
        struct json *set = json_add_array(arena, all, sets[i]);
        for (unsigned cap = 0; cap <= CAP_LAST_CAP; cap++)
            if (caps >> cap & 1)
                (void)json_push(set, json_new_str(arena, security_cap_name(arena, cap)));
    }
}

static struct json *add_rule(struct arena *arena, struct json *list, int error)
{
    struct json *rule =
        json_push(list, json_make(arena, "{action: 'SCMP_ACT_ERRNO', errnoRet: $}", error));
    return json_add_array(arena, rule, "names");
}

/* As the shim's own filter (shim/privilege.c). */
static void add_seccomp(struct arena *arena, struct json *linux_part)
{
    static const char *const names[] = {
#define NAME(call) #call,
        DENIED_CALLS(NAME) DENIED_CALLS_X86(NAME) "kexec_file_load"
#undef NAME
    };
    static const int64_t flags[] = {CLONE_NEWNS,  CLONE_NEWUTS, CLONE_NEWIPC,   CLONE_NEWUSER,
                                    CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWCGROUP};
    struct json *seccomp = json_add_object(arena, linux_part, "seccomp");
    json_add_c(arena, seccomp, "defaultAction", "SCMP_ACT_ALLOW");
    struct json *list = json_add_array(arena, seccomp, "syscalls");
    struct json *denied = add_rule(arena, list, EPERM);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        (void)json_push(denied, json_new_str(arena, str_from(names[i])));
    (void)json_push(add_rule(arena, list, ENOSYS), json_new_str(arena, STR("clone3")));
    for (size_t i = 0; i < COUNT_OF(flags); i++) {
        json_push(list,
                  json_make(arena,
                            "{action: 'SCMP_ACT_ERRNO', errnoRet: $, names: ['clone'], "
                            "args: [{index: 0, value: $, valueTwo: $, op: 'SCMP_CMP_MASKED_EQ'}]}",
                            EPERM, flags[i], flags[i]));
    }
}

static void add_namespaces(struct arena *arena, struct json *linux_part, bool protect)
{
    static const char *const hidden[] = {"/proc/kcore", "/proc/keys", "/proc/timer_list",
                                         "/proc/sched_debug", "/sys/firmware"};
    static const char *const fixed[] = {"/proc/sys", "/proc/sysrq-trigger", "/proc/irq",
                                        "/proc/bus", "/proc/fs"};
    static const char *const own[] = {"pid", "mount"};
    struct json *list = json_add_array(arena, linux_part, "namespaces");
    for (size_t i = 0; i < 2; i++)
        json_add_c(arena, json_push(list, json_new_object(arena)), "type", own[i]);
    if (!protect)
        return;
    struct json *masked = json_add_array(arena, linux_part, "maskedPaths");
    struct json *read_only = json_add_array(arena, linux_part, "readonlyPaths");
    for (size_t i = 0; i < 5; i++) {
        (void)json_push(masked, json_new_str(arena, str_from(hidden[i])));
        (void)json_push(read_only, json_new_str(arena, str_from(fixed[i])));
    }
}

/* What of the spec is about the process; everything else stays the shim's. */
struct process {
    struct arena *arena;
    struct json *process;
    struct json *args;
    struct json *env;
    struct json *user;
    struct json *groups;
    struct buf *rest;
    uint64_t caps;
    bool all_caps;
    bool seccomp;
};

static void take_record(struct process *p, struct str name, struct str value)
{
    int64_t number = 0;
    (void)str_to_i64(value, &number);
    if (str_is(name, "arg")) {
        (void)json_push(p->args, json_new_str(p->arena, value));
    } else if (str_is(name, "env")) {
        (void)json_push(p->env, json_new_str(p->arena, value));
    } else if (str_is(name, "cwd")) {
        json_add_str(p->arena, p->process, "cwd", value);
    } else if (str_is(name, "uid") || str_is(name, "gid")) {
        json_add_i64(p->arena, p->user, str_is(name, "uid") ? "uid" : "gid", number);
    } else if (str_is(name, "group")) {
        (void)json_push(p->groups, json_new_i64(p->arena, number));
    } else if (str_is(name, "caps")) {
        p->all_caps = false;
        unsigned long long caps = 0;
        (void)sscanf(str_c(p->arena, value), "%llx", &caps);
        p->caps = caps;
    } else if (str_is(name, "nonewprivs")) {
        json_add_bool(p->arena, p->process, "noNewPrivileges", number != 0);
    } else if (str_is(name, "seccomp")) {
        p->seccomp = number != 0;
    } else {
        if (str_is(name, "tty"))
            json_add_bool(p->arena, p->process, "terminal", number != 0);
        buf_add(p->rest, name);
        buf_addc(p->rest, '=');
        buf_add(p->rest, value);
        buf_addc(p->rest, '\0');
    }
}

static struct json *make_config(struct arena *arena,
                                struct str records,
                                struct buf *rest,
                                const char *root)
{
    struct json *config = json_new_object(arena);
    json_add_c(arena, config, "ociVersion", "1.0.2");
    struct process p = {.arena = arena,
                        .process = json_add_object(arena, config, "process"),
                        .rest = rest,
                        .all_caps = true};
    p.args = json_add_array(arena, p.process, "args");
    p.env = json_add_array(arena, p.process, "env");
    p.user = json_add_object(arena, p.process, "user");
    p.groups = json_add_array(arena, p.user, "additionalGids");
    struct str record;
    while (str_cut(&records, '\0', &record)) {
        size_t at = str_find(record, '=');
        if (at < record.len)
            take_record(&p, str_sub(record, 0, at), str_sub(record, at + 1, record.len));
    }
    add_capabilities(arena, p.process, p.all_caps ? own_capabilities() : p.caps);
    json_add_c(arena, json_add_object(arena, config, "root"), "path", root);
    struct json *proc = json_push(json_add_array(arena, config, "mounts"), json_new_object(arena));
    json_fill(arena, proc, "{destination: '/proc', type: 'proc', source: 'proc'}");
    struct json *linux_part = json_add_object(arena, config, "linux");
    add_namespaces(arena, linux_part, !p.all_caps);
    if (p.seccomp)
        add_seccomp(arena, linux_part);
    return config;
}

int oci_bundle(const struct pod *pod,
               size_t index,
               const struct image *image,
               struct buf *records,
               struct err *err)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf rest = {.bytes_max = SHIM_SPEC_BYTES};
    const struct run_container *c = &pod->run.containers[index];
    const char *base = str_c(&arena, str_printf(&arena, "%s/c/" STR_FMT "/%u", pod->folder,
                                                STR_ARG(c->name), c->instance));
    const char *bundle = str_c(&arena, str_printf(&arena, "%s.bundle", base));
    const char *root = str_c(&arena, str_printf(&arena, "%s.root", base));
    struct json *config = make_config(&arena, buf_str(records), &rest, root);
    if (json_bool_or(
            json_at(pod_container_spec(pod, index), "securityContext.readOnlyRootFilesystem"),
            false))
        json_add_bool(&arena, json_get(config, "root"), "readonly", true);
    int r = files_make_folder(bundle, 0700, err);
    if (r == 0)
        r = files_write(str_c(&arena, str_printf(&arena, "%s/config.json", bundle)),
                        json_text(&arena, config), 0600, err);
    if (r)
        return r;
    struct str state = str_printf(&arena, "--root=%s.state", base);
    struct str log = str_printf(&arena, "--log=%s.runtime", base);
    struct str folder = str_printf(&arena, "--bundle=%s", bundle);
    struct str id = str_printf(&arena, STR_FMT "-%u", STR_ARG(c->name), c->instance);
    struct str argv[] = {str_from(oci_runtime()),
                         state,
                         log,
                         STR("--cgroup-manager=disabled"),
                         STR("run"),
                         folder,
                         id};
    buf_clear(records);
    for (size_t i = 0; i < COUNT_OF(argv); i++)
        record_add(records, "arg", argv[i]);
    record_add(records, "env", STR("PATH=" PATH_DEFAULT));
    record_add(records, "cwd", STR("/"));
    record_number(records, "runtime", 1);
    record_add(records, "root.lower", str_from(image->rootfs));
    buf_add(records, buf_str(&rest));
    return 0;
}
