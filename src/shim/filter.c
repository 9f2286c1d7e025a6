#include "shim/filter.h"

#include "base/count.h"
#include "shim/denied_calls.h"

#include <assert.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>

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
#define LEAF_CALLS   3 /* as many are compared one by one */
static_assert(2 * DENIED_COUNT + 16 <= FILTER_MAX, "no room for the filter");

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

/* Where a comparison goes that is not known yet. */
enum {
    TO_DENY = 254,
    TO_REST = 255
};

struct maker {
    struct sock_filter *out;
    size_t count;
};

static size_t put(struct maker *maker,
                  unsigned code,
                  uint32_t k,
                  unsigned char yes,
                  unsigned char no)
{
    maker->out[maker->count] = (struct sock_filter){(unsigned short)code, yes, no, k};
    return maker->count++;
}

static void sort(uint32_t calls[static DENIED_COUNT])
{
    for (size_t i = 0; i < DENIED_COUNT; i++) {
        size_t at = i;
        for (; at > 0 && calls[at - 1] > (uint32_t)denied_calls[i]; at--)
            calls[at] = calls[at - 1];
        calls[at] = (uint32_t)denied_calls[i];
    }
}

static void search(struct maker *maker, const uint32_t *calls, size_t count)
{
    if (count > LEAF_CALLS) {
        size_t left = count / 2;
        size_t at = put(maker, BPF_JMP | BPF_JGE | BPF_K, calls[left], 0, 0);
        search(maker, calls, left);
        maker->out[at].jt = (unsigned char)(maker->count - at - 1);
        search(maker, calls + left, count - left);
        return;
    }
    for (size_t i = 0; i < count; i++)
        (void)put(maker, BPF_JMP | BPF_JEQ | BPF_K, calls[i], TO_DENY,
                  i + 1 == count ? TO_REST : 0);
}

/* Those of the search, now that it is known how long it is. */
static void aim(struct maker *maker, size_t from, size_t rest, size_t deny)
{
    for (size_t i = from; i < rest; i++) {
        struct sock_filter *at = &maker->out[i];
        if (at->jt == TO_DENY)
            at->jt = (unsigned char)(deny - i - 1);
        if (at->jf == TO_REST)
            at->jf = (unsigned char)(rest - i - 1);
    }
}

size_t filter_make(struct sock_filter out[static FILTER_MAX])
{
    struct maker maker = {.out = out};
    uint32_t calls[DENIED_COUNT];
    (void)put(&maker, BPF_LD | BPF_W | BPF_ABS, OFFSET(arch), 0, 0);
    (void)put(&maker, BPF_JMP | BPF_JEQ | BPF_K, FILTER_ARCH, 1, 0);
    (void)put(&maker, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
    (void)put(&maker, BPF_LD | BPF_W | BPF_ABS, OFFSET(nr), 0, 0);
    /* x32 numbers would pass by the list. */
    (void)put(&maker, BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1);
    (void)put(&maker, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS, 0, 0);
    /* clone3 hides its flags in memory: libc falls back to clone(), whose flags are looked at. */
    (void)put(&maker, BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1);
    (void)put(&maker, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS, 0, 0);
    size_t from = maker.count;
    sort(calls);
    search(&maker, calls, DENIED_COUNT);
    size_t rest = put(&maker, BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 2);
    (void)put(&maker, BPF_LD | BPF_W | BPF_ABS, OFFSET(args[0]), 0, 0);
    (void)put(&maker, BPF_JMP | BPF_JSET | BPF_K, NEW_NAMESPACES, 1, 0);
    (void)put(&maker, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    size_t deny = put(&maker, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
    aim(&maker, from, rest, deny);
    return maker.count;
}
