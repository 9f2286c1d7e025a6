#include "base/count.h"
#include "shim/denied_calls.h"
#include "shim/filter.h"
#include "test.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#    define THIS_MACHINE AUDIT_ARCH_X86_64
#else
#    define THIS_MACHINE AUDIT_ARCH_AARCH64
#endif
#define NUMBERS    1024 /* of calls: more than there are */
#define STEPS_MOST 16
#define DENIED     (SECCOMP_RET_ERRNO | EPERM)
#define UNKNOWN    (SECCOMP_RET_ERRNO | ENOSYS)

struct program {
    struct sock_filter items[FILTER_MAX];
    size_t count;
    unsigned steps; /* of the last run */
};

/* As the kernel runs it, as far as filter.h needs it. */
static uint32_t run(struct program *program, const struct seccomp_data *data)
{
    uint32_t value = 0;
    size_t at = 0;
    for (program->steps = 1; at < program->count; program->steps++) {
        const struct sock_filter *i = &program->items[at++];
        bool yes = false;
        switch (i->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            EXPECT(i->k + sizeof(value) <= sizeof(*data));
            memcpy(&value, (const char *)data + i->k, sizeof(value));
            continue;
        case BPF_RET | BPF_K: return i->k;
        case BPF_JMP | BPF_JEQ | BPF_K: yes = value == i->k; break;
        case BPF_JMP | BPF_JGE | BPF_K: yes = value >= i->k; break;
        case BPF_JMP | BPF_JSET | BPF_K: yes = (value & i->k) != 0; break;
        default: EXPECT(!"an instruction that is not used");
        }
        at += yes ? i->jt : i->jf;
    }
    EXPECT(!"the program has an end");
    return 0;
}

static bool is_denied(int nr)
{
#define CALL(name) SYS_##name,
    static const int calls[] = {
        DENIED_CALLS(CALL)
#ifdef SYS_iopl
            DENIED_CALLS_X86(CALL)
#endif
#ifdef SYS_kexec_file_load
                SYS_kexec_file_load,
#endif
    };
#undef CALL
    for (size_t i = 0; i < COUNT_OF(calls); i++)
        if (calls[i] == nr)
            return true;
    return false;
}

TEST(a_container_is_denied_what_is_on_the_list_and_nothing_else)
{
    struct program program;
    program.count = filter_make(program.items);
    for (int nr = 0; nr < NUMBERS; nr++) {
        struct seccomp_data data = {.nr = nr, .arch = THIS_MACHINE};
        uint32_t wanted = nr == SYS_clone3 ? UNKNOWN : is_denied(nr) ? DENIED : SECCOMP_RET_ALLOW;
        EXPECT(run(&program, &data) == wanted);
        EXPECT(program.steps <= STEPS_MOST);
        data.arch = AUDIT_ARCH_I386;
        EXPECT(run(&program, &data) == SECCOMP_RET_KILL_PROCESS);
        data = (struct seccomp_data){.nr = nr | 0x40000000, .arch = THIS_MACHINE};
        EXPECT(run(&program, &data) == UNKNOWN);
    }
}

TEST(a_container_makes_processes_but_no_namespaces)
{
    static const uint64_t flags[] = {CLONE_NEWNS,  CLONE_NEWUTS, CLONE_NEWIPC,   CLONE_NEWUSER,
                                     CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWCGROUP};
    struct program program;
    program.count = filter_make(program.items);
    struct seccomp_data data = {.nr = SYS_clone, .arch = THIS_MACHINE, .args = {CLONE_VM | 17}};
    EXPECT(run(&program, &data) == SECCOMP_RET_ALLOW);
    for (size_t i = 0; i < COUNT_OF(flags); i++) {
        data.args[0] = CLONE_VM | flags[i] | 17;
        EXPECT(run(&program, &data) == DENIED);
    }
}
