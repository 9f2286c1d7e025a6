#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "stacks/image.h"
#include "stacks/memory.h"
#include "stacks/native.h"
#include "stacks/pod.h"
#include "stacks/proc.h"
#include "stacks/process.h"
#include "stacks/unwind.h"
#include "test.h"

#include <elf.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TEST(names_of_cpp_are_told_without_arguments)
{
    static const struct {
        const char *name;
        const char *plain;
    } rows[] = {
        {"pthread_cond_wait", "pthread_cond_wait"},
        {"_ZN4c10d16ProcessGroupGloo9allreduceERSt6vectorIN2at6TensorESaIS3_EE",
         "c10d::ProcessGroupGloo::allreduce"},
        {"_ZNK3foo3barEv", "foo::bar"},
        {"_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE",
         "std::condition_variable::wait"},
        {"_Z4mainv", "main"},
        {"_ZN3fooIiE3barEv", "_ZN3fooIiE3barEv"}, /* a template */
        {"_ZN99999", "_ZN99999"},
        {"_Z", "_Z"},
        {"", ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};

        test_case(rows[i].name);
        EXPECT(str_is(native_plain(&arena, str_from(rows[i].name)), rows[i].plain));
    }
}

/* qsort calls back into this program, which sleeps: three files' frames, if the libc has a table. */
static int compare_and_wait(const void *a, const void *b)
{
    (void)a;
    (void)b;
    for (;;)
        (void)poll(NULL, 0, -1);
    return 0;
}

static bool has_function(const struct process_task *task, const char *name)
{
    for (size_t i = 0; i < task->native_count; i++)
        if (str_is(task->native[i].function, name))
            return true;
    return false;
}

TEST(the_functions_of_a_process_that_waits_are_told_from_the_innermost_on)
{
#if defined(__x86_64__)
    _cleanup_(arena_done) struct arena arena = {0};
    struct process_look look = {0};
    pid_t pid = fork();

    if (pid == 0) {
        int numbers[2] = {1, 2};
        qsort(numbers, 2, sizeof(int), compare_and_wait);
        _exit(0);
    }
    for (int i = 0; i < 1000; i++) {
        const struct timespec moment = {.tv_nsec = 10000000};

        arena_done(&arena);
        arena = (struct arena){0};
        process_look(pid, NULL, &arena, &look);
        if (look.tasks.count && has_function(&look.tasks.items[0], "poll"))
            break;
        (void)nanosleep(&moment, NULL);
    }
    const struct process_task *task = &look.tasks.items[0];
    EXPECT(look.tasks.count == 1);
    EXPECT(str_starts(task->native[0].file, STR("libc")));
    EXPECT(has_function(task, "poll"));
/* Frames of a sanitized function, or of one that is not optimized, hang on rbp, which the kernel does not tell. */
#    if !defined(__SANITIZE_ADDRESS__) && defined(__OPTIMIZE__)
    EXPECT(has_function(task, "qsort_r") || has_function(task, "qsort"));
    EXPECT(has_function(task, "__libc_start_main")); /* so it came to the end */
#    endif
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
#endif
}

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && defined(__OPTIMIZE__)
/* As Ubuntu's libc waits: its frame hangs on rbp, which the kernel does not tell. */
__attribute__((noinline, optimize("O1", "no-omit-frame-pointer"))) static long wait_in_frame(void)
{
    long room[8] = {0}, call = SYS_pause;

    __asm__ volatile("" : : "r"(room) : "memory");
    __asm__ volatile("syscall" : "+a"(call) : : "rcx", "r11", "memory");
    return call + room[0];
}

TEST(the_frames_of_a_function_with_a_frame_pointer_are_told)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct process_look look = {0};
    pid_t pid = fork();

    if (pid == 0) {
        while (wait_in_frame())
            continue;
        _exit(0);
    }
    for (int i = 0; i < 1000; i++) {
        const struct timespec moment = {.tv_nsec = 10000000};

        arena_done(&arena);
        arena = (struct arena){0};
        process_look(pid, NULL, &arena, &look);
        if (look.tasks.count && has_function(&look.tasks.items[0], "__libc_start_main"))
            break;
        (void)nanosleep(&moment, NULL);
    }
    EXPECT(look.tasks.count == 1);
    EXPECT(has_function(&look.tasks.items[0], "__libc_start_main")); /* so it came to the end */
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}
#endif

/* A table that looks right at its beginning, and anything behind it. */
static bool read_noise(void *user, uint64_t address, void *out, size_t size)
{
    static const uint8_t head[] = {1, 0x1b, 0x03, 0x3b};
    uint64_t *state = user;
    uint8_t *bytes = out;

    for (size_t i = 0; i < size; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (uint8_t)(*state >> 56);
    }
    if (address == 4096)
        memcpy(bytes, head, size < sizeof(head) ? size : sizeof(head));
    if (size == sizeof(uint32_t) && address != 4096) /* small numbers: lengths that are taken */
        memset(bytes + 1, 0, size - 1);
    return true;
}

static bool find_noise(void *user, uint64_t pc, uint64_t *ret_table)
{
    (void)user;
    (void)pc;
    *ret_table = 4096;
    return true;
}

TEST(whatever_is_in_memory_unwinding_comes_to_an_end)
{
    for (uint64_t seed = 1; seed < 3000; seed++) {
        uint64_t state = seed;
        uint64_t found[UNWIND_FRAMES_MAX];
        struct memory memory = {.read = read_noise, .user = &state, .reads_left = 100000};
        const struct unwind_start start = {.pc = 4200 + seed, .sp = 1 << 20};
        size_t count = unwind_stack(&memory, &start, find_noise, NULL, found);

        EXPECT(count >= 1 && count <= UNWIND_FRAMES_MAX && found[0] == start.pc);
    }
}

#define FORGED_FRAMES 2048
#define FORGED_EMPTY  ((uint64_t)1 << 40) /* from here on a symbol has no bytes */

/* A table of symbols that each claim every frame, and none has a name; `count` is how often it was
 * read. */
static bool read_forged(void *user, uint64_t address, void *out, size_t size)
{
    size_t *count = user;
    const Elf64_Sym all = {.st_info = STT_FUNC, .st_shndx = 1, .st_size = UINT64_MAX};
    const Elf64_Sym none = {.st_info = STT_FUNC, .st_shndx = 1};
    Elf64_Sym *symbols = out;

    ++*count;
    memset(out, 0, size);
    for (size_t i = 0; size % sizeof(all) == 0 && i < size / sizeof(all); i++)
        symbols[i] = address < FORGED_EMPTY ? all : none;
    return true;
}

TEST(a_forged_table_of_symbols_costs_what_a_plain_one_does)
{
    static struct native_frame frames[FORGED_FRAMES];
    struct native_frame *items[FORGED_FRAMES];
    static const struct {
        uint64_t symbols;
        size_t reads_max;
        const char *why;
    } rows[] = {
        /* Some hundred pieces of the table, and one name a frame. */
        {4096, 4000 + FORGED_FRAMES, "every symbol claims every frame"},
        {FORGED_EMPTY, 40000, "no symbol has any: 64 libraries of two million symbols each"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        size_t reads = 0;
        size_t left = NATIVE_SYMBOLS_ALL_MAX;
        struct memory memory = {.read = read_forged, .user = &reads, .reads_left = 300000};
        struct image image = {.symbols = rows[i].symbols,
                              .names =
                                  rows[i].symbols + (NATIVE_SYMBOLS_MAX - 1) * sizeof(Elf64_Sym),
                              .names_size = 1000};

        test_case(rows[i].why);
        for (size_t library = 0; library < 64; library++) {
            for (size_t j = 0; j < FORGED_FRAMES; j++) {
                frames[j] = (struct native_frame){.address = j};
                items[j] = &frames[j];
            }
            if (library == 0 || rows[i].symbols == FORGED_EMPTY)
                native_names(&memory, &image, &(struct native_frames){items, FORGED_FRAMES}, &left,
                             &arena);
        }
        EXPECT(reads <= rows[i].reads_max);
    }
}

TEST(who_gave_up_is_not_kept_by_a_process_that_is_read)
{
    _cleanup_(buf_done) struct buf out = {0};
    _cleanup_(arena_done) struct arena arena = {0};
    atomic_bool given_up = true;
    const struct patience patience = {.until_ms = INT64_MAX, .given_up = &given_up};
    const struct patience late = {.until_ms = patience_now_ms() - 1};
    struct process_look look;
    int64_t self = getpid();

    process_look(self, &patience, &arena, &look);
    EXPECT(str_starts(look.why, STR("reading it took too long")));
    EXPECT(!look.tasks.count || !look.tasks.items[0].native_count ||
           !look.tasks.items[0].native[0].function.len);
    process_look(self, &late, &arena, &look);
    EXPECT(str_starts(look.why, STR("reading it took too long")));
    pod_stacks(&(struct pod_stacks_request){.given_up = &given_up}, &out);
    EXPECT(str_contains(buf_str(&out), STR("reading took too long")));
}
