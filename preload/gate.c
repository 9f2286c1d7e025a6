#include "gate.h"

#include "hooks.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int64_t gate_now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void gate_pause_ms(int64_t ms)
{
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    (void)nanosleep(&pause, NULL);
}

#if defined(__x86_64__)

/* Functions that give the card work to do or touch its memory, for programs that are linked to the
 * driver. What they find by dlsym() or cuGetProcAddress() needs no name here. Those of HOOKS have
 * their own: they allocate, which waits by itself while memory is away. */
/* clang-format off */
#    define GATED(X)                                                                              \
        X(cuLaunch) X(cuLaunchGrid) X(cuLaunchGridAsync) X(cuLaunchKernel)                        \
        X(cuLaunchKernel_ptsz) X(cuLaunchKernelEx) X(cuLaunchKernelEx_ptsz)                       \
        X(cuLaunchCooperativeKernel) X(cuLaunchCooperativeKernel_ptsz)                            \
        X(cuLaunchCooperativeKernelMultiDevice) X(cuLaunchHostFunc) X(cuLaunchHostFunc_ptsz)      \
        X(cuGraphLaunch) X(cuGraphLaunch_ptsz) X(cuGraphUpload) X(cuGraphUpload_ptsz)             \
        X(cuStreamBeginCapture) X(cuStreamBeginCapture_ptsz) X(cuStreamBeginCapture_v2)           \
        X(cuStreamBeginCapture_v2_ptsz) X(cuStreamBeginCaptureToGraph)                            \
        X(cuStreamBeginCaptureToGraph_ptsz) X(cuStreamEndCapture) X(cuStreamEndCapture_ptsz)      \
        X(cuStreamWaitValue32) X(cuStreamWaitValue32_ptsz) X(cuStreamWaitValue32_v2)              \
        X(cuStreamWaitValue32_v2_ptsz) X(cuStreamWaitValue64) X(cuStreamWaitValue64_ptsz)         \
        X(cuStreamWaitValue64_v2) X(cuStreamWaitValue64_v2_ptsz) X(cuStreamWriteValue32)          \
        X(cuStreamWriteValue32_ptsz) X(cuStreamWriteValue32_v2) X(cuStreamWriteValue32_v2_ptsz)   \
        X(cuStreamWriteValue64) X(cuStreamWriteValue64_ptsz) X(cuStreamWriteValue64_v2)           \
        X(cuStreamWriteValue64_v2_ptsz) X(cuStreamBatchMemOp) X(cuStreamBatchMemOp_ptsz)          \
        X(cuStreamBatchMemOp_v2) X(cuStreamBatchMemOp_v2_ptsz) X(cuStreamSynchronize)             \
        X(cuStreamSynchronize_ptsz) X(cuEventSynchronize) X(cuCtxSynchronize) X(cuStreamQuery)    \
        X(cuStreamQuery_ptsz) X(cuEventQuery) X(cuEventRecord) X(cuEventRecord_ptsz)              \
        X(cuStreamWaitEvent) X(cuStreamWaitEvent_ptsz) X(cuMemcpy) X(cuMemcpy_ptds)               \
        X(cuMemcpyAsync) X(cuMemcpyAsync_ptsz) X(cuMemcpyPeer) X(cuMemcpyPeer_ptds)               \
        X(cuMemcpyPeerAsync) X(cuMemcpyPeerAsync_ptsz) X(cuMemcpyHtoD_v2)                         \
        X(cuMemcpyHtoD_v2_ptds) X(cuMemcpyHtoDAsync_v2) X(cuMemcpyHtoDAsync_v2_ptsz)              \
        X(cuMemcpyDtoH_v2) X(cuMemcpyDtoH_v2_ptds) X(cuMemcpyDtoHAsync_v2)                        \
        X(cuMemcpyDtoHAsync_v2_ptsz) X(cuMemcpyDtoD_v2) X(cuMemcpyDtoD_v2_ptds)                   \
        X(cuMemcpyDtoDAsync_v2) X(cuMemcpyDtoDAsync_v2_ptsz) X(cuMemcpyDtoA_v2)                   \
        X(cuMemcpyDtoA_v2_ptds) X(cuMemcpyAtoD_v2) X(cuMemcpyAtoD_v2_ptds) X(cuMemcpyHtoA_v2)     \
        X(cuMemcpyHtoA_v2_ptds) X(cuMemcpyAtoH_v2) X(cuMemcpyAtoH_v2_ptds) X(cuMemcpyAtoA_v2)     \
        X(cuMemcpyAtoA_v2_ptds) X(cuMemcpyHtoAAsync_v2) X(cuMemcpyHtoAAsync_v2_ptsz)              \
        X(cuMemcpyAtoHAsync_v2) X(cuMemcpyAtoHAsync_v2_ptsz) X(cuMemcpy2D_v2)                     \
        X(cuMemcpy2D_v2_ptds) X(cuMemcpy2DUnaligned_v2) X(cuMemcpy2DUnaligned_v2_ptds)            \
        X(cuMemcpy2DAsync_v2) X(cuMemcpy2DAsync_v2_ptsz) X(cuMemcpy3D_v2) X(cuMemcpy3D_v2_ptds)   \
        X(cuMemcpy3DAsync_v2) X(cuMemcpy3DAsync_v2_ptsz) X(cuMemcpy3DPeer)                        \
        X(cuMemcpy3DPeer_ptds) X(cuMemcpy3DPeerAsync) X(cuMemcpy3DPeerAsync_ptsz)                 \
        X(cuMemcpyBatchAsync) X(cuMemcpyBatchAsync_ptsz) X(cuMemcpyBatchAsync_v2)                 \
        X(cuMemcpyBatchAsync_v2_ptsz) X(cuMemcpy3DBatchAsync) X(cuMemcpy3DBatchAsync_ptsz)        \
        X(cuMemcpy3DBatchAsync_v2) X(cuMemcpy3DBatchAsync_v2_ptsz) X(cuMemsetD8_v2)               \
        X(cuMemsetD8_v2_ptds) X(cuMemsetD16_v2) X(cuMemsetD16_v2_ptds) X(cuMemsetD32_v2)          \
        X(cuMemsetD32_v2_ptds) X(cuMemsetD8Async) X(cuMemsetD8Async_ptsz) X(cuMemsetD16Async)     \
        X(cuMemsetD16Async_ptsz) X(cuMemsetD32Async) X(cuMemsetD32Async_ptsz) X(cuMemsetD2D8_v2)  \
        X(cuMemsetD2D8_v2_ptds) X(cuMemsetD2D16_v2) X(cuMemsetD2D16_v2_ptds) X(cuMemsetD2D32_v2)  \
        X(cuMemsetD2D32_v2_ptds) X(cuMemsetD2D8Async) X(cuMemsetD2D8Async_ptsz)                   \
        X(cuMemsetD2D16Async) X(cuMemsetD2D16Async_ptsz) X(cuMemsetD2D32Async)                    \
        X(cuMemsetD2D32Async_ptsz)
/* clang-format on */

static const char *const gated_names[] = {
#    define GATED_NAME(name) #    name,
    GATED(GATED_NAME)
#    undef GATED_NAME
};

#    define NAMED      (sizeof(gated_names) / sizeof(*gated_names))
#    define POOL       1536 /* the driver has some 600 functions, in up to two kinds */
#    define POOL_TEXT  "1536"
#    define CODE_BYTES 16 /* of each piece */
#    define SLOTS      64 /* counters, so that threads seldom meet */

/* A call: what it has in registers is kept, who is inside is counted, and the function is called with
 * a copy of 16 words of the stack, which is more than any function of the driver has there. */
/* clang-format off */
#    define CODE_NAMED(name)                                                                     \
        ".p2align 4\n.globl " #name "\n.type " #name ", @function\n" #name ":\n"                 \
        "    endbr64\n    movl $gate_number, %r11d\n    jmp gate_call\n"                         \
        ".set gate_number, gate_number + 1\n"
__asm__(".text\n.p2align 4\n.type gate_call, @function\ngate_call:\n"
        ".cfi_startproc\n"
        "    pushq %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp, -16\n"
        "    movq %rsp, %rbp\n.cfi_def_cfa_register %rbp\n"
        "    subq $0xd0, %rsp\n"
        "    movq %rdi, -0x08(%rbp)\n    movq %rsi, -0x10(%rbp)\n    movq %rdx, -0x18(%rbp)\n"
        "    movq %rcx, -0x20(%rbp)\n    movq %r8, -0x28(%rbp)\n    movq %r9, -0x30(%rbp)\n"
        "    movq %rax, -0x38(%rbp)\n    movq %r11, -0xc8(%rbp)\n"
        "    movups %xmm0, -0x50(%rbp)\n    movups %xmm1, -0x60(%rbp)\n"
        "    movups %xmm2, -0x70(%rbp)\n    movups %xmm3, -0x80(%rbp)\n"
        "    movups %xmm4, -0x90(%rbp)\n    movups %xmm5, -0xa0(%rbp)\n"
        "    movups %xmm6, -0xb0(%rbp)\n    movups %xmm7, -0xc0(%rbp)\n"
        "    movl %r11d, %edi\n"
        "    call gate_enter\n"
        "    movq %rax, %r11\n"
        "    movups -0x50(%rbp), %xmm0\n    movups -0x60(%rbp), %xmm1\n"
        "    movups -0x70(%rbp), %xmm2\n    movups -0x80(%rbp), %xmm3\n"
        "    movups -0x90(%rbp), %xmm4\n    movups -0xa0(%rbp), %xmm5\n"
        "    movups -0xb0(%rbp), %xmm6\n    movups -0xc0(%rbp), %xmm7\n"
        "    movq -0x08(%rbp), %rdi\n    movq -0x10(%rbp), %rsi\n    movq -0x18(%rbp), %rdx\n"
        "    movq -0x20(%rbp), %rcx\n    movq -0x28(%rbp), %r8\n    movq -0x30(%rbp), %r9\n"
        "    subq $128, %rsp\n"
        ".set gate_word, 0\n"
        ".rept 16\n"
        "    movq (16 + gate_word)(%rbp), %rax\n    movq %rax, gate_word(%rsp)\n"
        ".set gate_word, gate_word + 8\n"
        ".endr\n"
        "    movq -0x38(%rbp), %rax\n"
        "    call *%r11\n"
        "    movq %rax, -0x08(%rbp)\n    movq %rdx, -0x10(%rbp)\n    movups %xmm0, -0x50(%rbp)\n"
        "    movl -0xc8(%rbp), %edi\n    movl %eax, %esi\n"
        "    call gate_leave\n"
        "    movq -0x08(%rbp), %rax\n    movq -0x10(%rbp), %rdx\n    movups -0x50(%rbp), %xmm0\n"
        "    leave\n.cfi_def_cfa %rsp, 8\n    ret\n"
        ".cfi_endproc\n.size gate_call, . - gate_call\n"
        ".set gate_number, 0\n"
        GATED(CODE_NAMED)
        ".p2align 4\n.globl gate_pool\n.hidden gate_pool\ngate_pool:\n"
        ".rept " POOL_TEXT "\n"
        ".p2align 4\n    endbr64\n    movl $gate_number, %r11d\n    jmp gate_call\n"
        ".set gate_number, gate_number + 1\n"
        ".endr\n");
/* clang-format on */

extern const char gate_pool[] __attribute__((visibility("hidden")));
void *gate_enter(unsigned index) __attribute__((visibility("hidden"), used));
void gate_leave(unsigned index, int result) __attribute__((visibility("hidden"), used));

enum passage {
    PASSAGE_PLAIN,
    PASSAGE_BEGIN, /* of a capture, during which the card cannot be waited for */
    PASSAGE_END,
};

static void *_Atomic targets[NAMED + POOL];
static _Atomic uint8_t passages[NAMED + POOL];
static unsigned pool_used;
static _Atomic bool leaks;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static _Atomic uint32_t closed;
static _Atomic int captures;
static struct {
    _Atomic int inside;
    char apart[60];
} counters[SLOTS];
static _Atomic unsigned threads_seen;
static __thread unsigned own_slot __attribute__((tls_model("initial-exec"))); /* and one */
static __thread unsigned depth __attribute__((tls_model("initial-exec")));

/* ---- who passes ---- */

static int none(void)
{
    return CUDA_NOT_INITIALIZED;
}

static enum passage passage_of(const char *name)
{
    if (strncmp(name, "cuStreamBeginCapture", 20) == 0)
        return PASSAGE_BEGIN;
    return strncmp(name, "cuStreamEndCapture", 18) == 0 ? PASSAGE_END : PASSAGE_PLAIN;
}

static void *target_of(unsigned index)
{
    void *target = atomic_load_explicit(&targets[index], memory_order_acquire);

    if (target || index >= NAMED)
        return target;
    target = hook_driver(gated_names[index]);
    atomic_store(&passages[index], passage_of(gated_names[index]));
    atomic_store_explicit(&targets[index], target, memory_order_release);
    return target ? target : (void *)none;
}

static void wait_open(void)
{
    while (atomic_load(&closed))
        (void)syscall(SYS_futex, &closed, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
}

void *gate_enter(unsigned index)
{
    void *target = target_of(index);

    if (depth++)
        return target;
    if (!own_slot)
        own_slot = 1 + atomic_fetch_add(&threads_seen, 1) % SLOTS;
    for (;;) {
        (void)atomic_fetch_add(&counters[own_slot - 1].inside, 1);
        if (!atomic_load(&closed))
            return target;
        (void)atomic_fetch_sub(&counters[own_slot - 1].inside, 1);
        wait_open();
    }
}

void gate_leave(unsigned index, int result)
{
    uint8_t passage = atomic_load_explicit(&passages[index], memory_order_relaxed);

    if (passage == PASSAGE_BEGIN && result == CUDA_SUCCESS)
        (void)atomic_fetch_add(&captures, 1);
    else if (passage == PASSAGE_END && atomic_load(&captures) > 0)
        (void)atomic_fetch_sub(&captures, 1);
    if (--depth == 0)
        (void)atomic_fetch_sub(&counters[own_slot - 1].inside, 1);
}

/* ---- which way they come ---- */

void *gate_wrap(const char *name, void *target)
{
    void *code = target;
    unsigned at = 0;

    pthread_mutex_lock(&mutex);
    while (at < pool_used && atomic_load(&targets[NAMED + at]) != target)
        at++;
    if (at == POOL) {
        atomic_store(&leaks, true);
    } else {
        if (at == pool_used) {
            atomic_store(&passages[NAMED + at], passage_of(name));
            atomic_store_explicit(&targets[NAMED + at], target, memory_order_release);
            pool_used++;
        }
        code = (void *)(uintptr_t)(gate_pool + (size_t)at * CODE_BYTES);
    }
    pthread_mutex_unlock(&mutex);
    return code;
}

bool gate_is_tight(void)
{
    return !atomic_load(&leaks);
}

/* ---- open and closed ---- */

static int inside(void)
{
    int sum = 0;

    for (size_t i = 0; i < SLOTS; i++)
        sum += atomic_load(&counters[i].inside);
    return sum;
}

void gate_open(void)
{
    atomic_store(&closed, 0);
    (void)syscall(SYS_futex, &closed, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* A capture ends by calls of the program: it is waited for with the gate open. */
bool gate_close(int64_t until_ms, char *why, unsigned why_bytes)
{
    for (;;) {
        while (atomic_load(&captures) > 0 && gate_now_ms() < until_ms)
            gate_pause_ms(1);
        atomic_store(&closed, 1);
        while (inside() > 0 && gate_now_ms() < until_ms)
            gate_pause_ms(1);
        bool still = inside() > 0;
        bool captured = atomic_load(&captures) > 0;

        if (!still && !captured)
            return true;
        gate_open();
        if (!still && gate_now_ms() < until_ms)
            continue;
        (void)snprintf(why, why_bytes,
                       still ? "a call to the driver did not end in time"
                             : "a CUDA graph was being captured all the time");
        return false;
    }
}

void gate_forget(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

    mutex = fresh;
    for (size_t i = 0; i < SLOTS; i++)
        atomic_store(&counters[i].inside, 0);
    if (depth)
        atomic_store(&counters[own_slot - 1].inside, 1);
    atomic_store(&closed, 0);
}

#else /* no machine code of ours: settings.move is never set there */

void *gate_wrap(const char *name, void *target)
{
    (void)name;
    return target;
}

bool gate_is_tight(void)
{
    return false;
}

bool gate_close(int64_t until_ms, char *why, unsigned why_bytes)
{
    (void)until_ms;
    (void)snprintf(why, why_bytes, "this machine is not x86-64");
    return false;
}

void gate_open(void)
{
}

void gate_forget(void)
{
}

#endif
