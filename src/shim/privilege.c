#include "base/count.h"
#include "shim/denied_calls.h"
#include "shim/parts.h"

#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* shim_privilege: who a container is and what the kernel lets it ask for. */
#define GROUPS_MAX 64

#define CALL(name) SYS_##name,
static const int denied_calls[] = {
    DENIED_CALLS(CALL)
#ifdef SYS_iopl
        DENIED_CALLS_X86(CALL)
#endif
#ifdef SYS_kexec_file_load
            SYS_kexec_file_load,
#endif
};
#undef CALL
#define DENIED_COUNT COUNT_OF(denied_calls)

#if defined(__x86_64__)
#    define FILTER_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#    define FILTER_ARCH AUDIT_ARCH_AARCH64
#else
#    error "say here how seccomp names this machine"
#endif
#define NEW_NAMESPACES                                                                         \
    (CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | \
     CLONE_NEWCGROUP)
#define OFFSET(member) (uint32_t) offsetof(struct seccomp_data, member)

static int filter_calls(void)
{
    struct sock_filter filter[DENIED_COUNT + 16];
    unsigned short n = 0;
#define PUT(code, k, yes, no) \
    filter[n++] = (struct sock_filter)BPF_JUMP((unsigned short)(code), (uint32_t)(k), yes, no)
    PUT(BPF_LD | BPF_W | BPF_ABS, OFFSET(arch), 0, 0);
    PUT(BPF_JMP | BPF_JEQ | BPF_K, FILTER_ARCH, 1, 0);
    PUT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
    PUT(BPF_LD | BPF_W | BPF_ABS, OFFSET(nr), 0, 0);
    /* x32 numbers would pass by the list. */
    PUT(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1);
    PUT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS, 0, 0);
    /* clone3 hides its flags in memory: libc falls back to clone(), whose flags are looked at. */
    PUT(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1);
    PUT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS, 0, 0);
    for (size_t i = 0; i < DENIED_COUNT; i++) {
        unsigned char to_deny = (unsigned char)(DENIED_COUNT - i + 3);
        PUT(BPF_JMP | BPF_JEQ | BPF_K, denied_calls[i], to_deny, 0);
    }
    PUT(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 2);
    PUT(BPF_LD | BPF_W | BPF_ABS, OFFSET(args[0]), 0, 0);
    PUT(BPF_JMP | BPF_JSET | BPF_K, NEW_NAMESPACES, 1, 0);
    PUT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    PUT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
#undef PUT
    struct sock_fprog program = {.len = n, .filter = filter};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ? -errno : 0;
}

static int set_identity(const struct records *spec, char words[static 256])
{
    long uid = records_number(spec, "uid", -1), gid = records_number(spec, "gid", -1);
    gid_t groups[GROUPS_MAX];
    size_t count = 0;
    uint64_t group;
    struct record record;
    for (size_t offset = 0; records_next(spec, &offset, &record) && count < GROUPS_MAX;)
        if (record_is(&record, "group") && shim_number(record.value, 10, &group))
            groups[count++] = (gid_t)group;
    if (gid >= 0) {
        if (setgroups(count, groups) < 0 && errno != EPERM)
            return shim_fail(words, "setgroups", "");
        if (setresgid((gid_t)gid, (gid_t)gid, (gid_t)gid) < 0)
            return shim_fail(words, "setgid", records_get(spec, "gid"));
    }
    if (uid >= 0 && setresuid((uid_t)uid, (uid_t)uid, (uid_t)uid) < 0)
        return shim_fail(words, "setuid", records_get(spec, "uid"));
    return 0;
}

static int keep_capabilities(uint64_t keep, char words[static 256])
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0)
        return shim_fail(words, "capget", "");
    for (int i = 0; i < 2; i++) {
        uint32_t half = (uint32_t)(keep >> (32 * i));
        data[i].effective &= half;
        data[i].permitted &= half;
        data[i].inheritable = 0;
    }
    return syscall(SYS_capset, &header, data) < 0 ? shim_fail(words, "capset", "") : 0;
}

int privileges_drop(const struct records *spec, char words[static 256])
{
    const char *caps = records_get(spec, "caps");
    uint64_t keep = UINT64_MAX;
    if (caps)
        (void)shim_number(caps, 16, &keep);
    for (int cap = 0; caps && cap <= CAP_LAST_CAP; cap++)
        if (!(keep >> cap & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EINVAL &&
            errno != EPERM)
            return shim_fail(words, "drop capability", "");
    int r = set_identity(spec, words);
    if (r == 0 && caps)
        r = keep_capabilities(keep, words);
    if (r)
        return r;
    /* Changing the user forgets this, so it comes after: no container outlives its shim. */
    if (prctl(PR_SET_PDEATHSIG, 9) < 0)
        return shim_fail(words, "prctl", "PR_SET_PDEATHSIG");
    bool strict = records_number(spec, "seccomp", 0) != 0;
    if ((strict || records_number(spec, "nonewprivs", 0)) &&
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return shim_fail(words, "prctl", "PR_SET_NO_NEW_PRIVS");
    if (strict && filter_calls() < 0)
        return shim_fail(words, "seccomp", "");
    return 0;
}
