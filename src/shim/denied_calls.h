#pragma once

/* denied_calls: system calls that change the machine rather than the container, and io_uring: what
 * is asked through a ring is asked past this filter. Everything else is allowed: training code and
 * its profilers use much of the rest. The shim's own filter and the one that crun is told are made
 * from this list. */
#define DENIED_CALLS(X)  \
    X(acct)              \
    X(add_key)           \
    X(adjtimex)          \
    X(bpf)               \
    X(clock_adjtime)     \
    X(clock_settime)     \
    X(delete_module)     \
    X(finit_module)      \
    X(fsconfig)          \
    X(fsmount)           \
    X(fsopen)            \
    X(fspick)            \
    X(init_module)       \
    X(io_uring_enter)    \
    X(io_uring_register) \
    X(io_uring_setup)    \
    X(kexec_load)        \
    X(keyctl)            \
    X(lookup_dcookie)    \
    X(mount)             \
    X(mount_setattr)     \
    X(move_mount)        \
    X(nfsservctl)        \
    X(open_by_handle_at) \
    X(open_tree)         \
    X(perf_event_open)   \
    X(pivot_root)        \
    X(quotactl)          \
    X(reboot)            \
    X(request_key)       \
    X(setdomainname)     \
    X(sethostname)       \
    X(setns)             \
    X(settimeofday)      \
    X(swapoff)           \
    X(swapon)            \
    X(syslog)            \
    X(umount2)           \
    X(unshare)           \
    X(userfaultfd)       \
    X(vhangup)

/* Not on every machine. */
#define DENIED_CALLS_X86(X) \
    X(iopl)                 \
    X(ioperm)
