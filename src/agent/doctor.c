#include "agent/doctor.h"

#include "agent/cgroup.h"
#include "agent/gpu.h"
#include "agent/limit.h"
#include "agent/machine.h"
#include "base/count.h"
#include "net/bridge.h"
#include "tool/files.h"

#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct findings {
    struct finding *items;
    size_t count;
};

static void finding_say(char out[static 240], const char *fmt, ...) _printf_(2, 3);
static void finding_say(char out[static 240], const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(out, 240, fmt, args);
    va_end(args);
}

static struct finding *finding_add(struct findings *findings,
                                   const char *name,
                                   const char *condition,
                                   bool ok)
{
    struct finding *finding = &findings->items[findings->count++];
    *finding = (struct finding){.name = name, .condition = condition, .ok = ok};
    return finding;
}

static void add_user(struct findings *findings, const struct machine *machine)
{
    struct finding *f = finding_add(findings, "root", NULL, machine->root);
    if (machine->root)
        finding_say(f->words, "pods run as uid %u unless they set runAsUser", machine->uid);
    else
        finding_say(f->words, "not root: pods run as you (uid %u), runAsUser is refused",
                    machine->uid);
    finding_say(f->fix, "sudo muster up; pods still run as you");
}

static void add_namespaces(struct findings *findings, const struct machine *machine)
{
    struct finding *f = finding_add(findings, "namespaces", "PodsIsolated", machine->mount_ns);
    finding_say(f->words, "%s",
                machine->mount_ns && machine->root ? "mount, pid, uts and ipc namespaces"
                : machine->mount_ns                ? "inside user namespaces"
                                    : "none: pods run as plain processes without mounts");
    finding_say(f->fix,
                "run as root, or allow user namespaces: sysctl user.max_user_namespaces=10000, "
                "kernel.unprivileged_userns_clone=1, "
                "kernel.apparmor_restrict_unprivileged_userns=0");
    f = finding_add(findings, "overlay", "WritableRoot", machine->overlay);
    finding_say(f->words, "%s",
                machine->overlay ? "each pod writes to its own layer over /"
                                 : "pods see / read-only; each pod has its own /tmp and /run");
    finding_say(
        f->fix,
        "run as root, or use a kernel from 5.11 on; the data folder must not itself be on an "
        "overlay");
    f = finding_add(findings, "abstract sockets", NULL, machine->scopes);
    finding_say(f->words, "%s",
                machine->scopes ? "those of a pod are its own, on any network"
                                : "pods that share this machine's network share them");
    finding_say(f->fix, "use Linux 6.12 or newer with Landlock, or --pod-network=bridge");
}

static void add_limits(struct findings *findings, const struct machine *machine)
{
    const struct cgroups *cgroups = &machine->cgroups;
    struct finding *f =
        finding_add(findings, "control groups", "LimitsEnforced", cgroups->kind != CGROUP_NONE);
    if (f->ok)
        finding_say(f->words, "version %d: CPU, memory and processes are limited",
                    cgroups->kind == CGROUP_V2 ? 2 : 1);
    else
        finding_say(f->words, "%s", cgroups->why);
    finding_say(f->fix, "run as root, on a machine whose /sys/fs/cgroup is writable");
}

static void add_network(struct findings *findings, const struct machine *machine)
{
    const char *missing = bridge_missing(machine->root && machine->mount_ns);
    struct finding *f = finding_add(findings, "pod network", NULL, !missing);
    finding_say(f->words, "%s",
                missing ? "pods share this machine's network; each pod has its own loopback address"
                        : "a bridge; each pod has its own address");
    finding_say(f->fix, "%s; or --pod-network=bridge, if pods need not reach the outside",
                missing ? missing : "");
}

static void add_gpus(struct findings *findings, const struct machine *machine)
{
    const struct gpus *gpus = &machine->gpus;
    struct finding *f = finding_add(findings, "GPUs", NULL, gpus->count > 0);
    if (f->ok)
        finding_say(f->words, "%zu x %s, %lld MiB, driver %s", gpus->count, gpus->items[0].product,
                    (long long)gpus->items[0].memory_mib, gpus->driver);
    else
        finding_say(f->words, "none found");
    finding_say(f->fix, "%s", gpus->why);
}

size_t doctor_machine(const struct machine *machine, struct finding ret[static DOCTOR_FINDINGS_MAX])
{
    struct findings findings = {.items = ret};
    add_user(&findings, machine);
    add_namespaces(&findings, machine);
    add_limits(&findings, machine);
    add_network(&findings, machine);
    add_gpus(&findings, machine);
    return findings.count;
}

/* ---- programs ---- */

/* The first line a program prints; false when it cannot be started or fails. */
static bool first_line(char *const argv[], char out[static 200])
{
    int pair[2];
    out[0] = '\0';
    if (pipe2(pair, O_CLOEXEC) < 0)
        return false;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pair[1], 1);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    pid_t pid;
    int r = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pair[1]);
    ssize_t n = r == 0 ? read(pair[0], out, 199) : 0;
    char rest[512];
    while (r == 0 && read(pair[0], rest, sizeof(rest)) > 0)
        ; /* a program whose reader goes away counts as failed */
    close(pair[0]);
    out[n > 0 ? n : 0] = '\0';
    char *newline = strchr(out, '\n');
    if (newline)
        *newline = '\0';
    int status = 1;
    return r == 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status);
}

struct program {
    const char *name;
    const char *argv[4];
    const char *fix;
};

static void add_programs(struct findings *findings)
{
    static const struct program programs[] = {
        {"kubectl",
         {"kubectl", "version", "--client", NULL},
         "install kubectl 1.20 or newer; muster kubeconfig prints the config file to use"},
        {"crun", {"crun", "--version", NULL}, "install crun, for --images=oci"},
        {"skopeo", {"skopeo", "--version", NULL}, "install skopeo, for muster image pull"},
    };
    for (size_t i = 0; i < COUNT_OF(programs); i++) {
        const struct program *program = &programs[i];
        char line[200], *argv[4] = {0};
        for (size_t k = 0; k < 3 && program->argv[k]; k++)
            memcpy(&argv[k], &program->argv[k], sizeof(argv[k]));
        struct finding *f = finding_add(findings, program->name, NULL, first_line(argv, line));
        finding_say(f->words, "%s", f->ok ? line : "not found");
        finding_say(f->fix, "%s", program->fix);
    }
}

static void add_gpu_library(struct findings *findings)
{
    char path[PATH_MAX];
    struct finding *f = finding_add(findings, "GPU shares", NULL, limit_find_library(path));
    if (f->ok)
        finding_say(f->words, "memory is limited by %.200s", path);
    else
        finding_say(f->words, "shares are counted but not enforced: %.200s does not exist", path);
    finding_say(f->fix, "install it, or name its path: muster up --gpu-share-library FILE");
}

static void add_parts(struct findings *findings, const char *data_dir)
{
    struct finding *f = finding_add(findings, "data folder", NULL, access(data_dir, W_OK) == 0);
    f->needed = true;
    finding_say(f->words, "%s", data_dir);
    finding_say(f->fix, "create it, or choose another folder with --data-dir");
    static const char *const names[] = {"muster-shim", "muster-launch"};
    for (size_t i = 0; i < 2; i++) {
        char path[PATH_MAX], here[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", here, sizeof(here) - 1);
        here[n > 0 ? n : 0] = '\0';
        char *slash = strrchr(here, '/');
        if (slash)
            *slash = '\0';
        int len = snprintf(path, sizeof(path), "%s/%s", here, names[i]);
        bool found = len > 0 && (size_t)len < sizeof(path) && access(path, X_OK) == 0;
        f = finding_add(findings, names[i], NULL, found);
        f->needed = true;
        finding_say(f->words, "%.200s", path);
        finding_say(f->fix, "install it beside muster");
    }
}

size_t doctor_all(const char *data_dir, struct finding ret[static DOCTOR_FINDINGS_MAX])
{
    struct machine machine;
    struct findings findings = {.items = ret};
    (void)files_make_folder(data_dir, 0700, NULL);
    machine_look(&machine, data_dir);
    findings.count = doctor_machine(&machine, ret);
    add_gpu_library(&findings);
    add_programs(&findings);
    add_parts(&findings, data_dir);
    return findings.count;
}
