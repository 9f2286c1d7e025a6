#include "shim/filter.h"
#include "shim/parts.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* shim_privilege: who a container is and what the kernel lets it ask for. */

static int filter_calls(void)
{
    struct sock_filter filter[FILTER_MAX];
    struct sock_fprog program = {.len = (unsigned short)filter_make(filter), .filter = filter};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ? -errno : 0;
}

static int set_identity(const struct records *spec, char words[static 256])
{
    long uid = records_number(spec, "uid", -1), gid = records_number(spec, "gid", -1);
    gid_t groups[SHIM_GROUPS_MAX];
    size_t count = 0;
    uint64_t group;
    struct record record;
    for (size_t next = 0; records_next(spec, &next, &record) && count < SHIM_GROUPS_MAX;)
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
    /* Changing the user forgets these, so they come after: no container outlives its shim, and no process of it looks
     * into the child, which has its rights from now on (fs.suid_dumpable may say otherwise). */
    if (prctl(PR_SET_PDEATHSIG, 9) < 0)
        return shim_fail(words, "prctl", "PR_SET_PDEATHSIG");
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return shim_fail(words, "prctl", "PR_SET_DUMPABLE");
    bool strict = records_number(spec, "seccomp", 0) != 0;
    if ((strict || records_number(spec, "nonewprivs", 0)) &&
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return shim_fail(words, "prctl", "PR_SET_NO_NEW_PRIVS");
    if (strict && filter_calls() < 0)
        return shim_fail(words, "seccomp", "");
    return 0;
}
