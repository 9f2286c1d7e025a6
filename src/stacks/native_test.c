#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "stacks/memory.h"
#include "stacks/native.h"
#include "stacks/process.h"
#include "stacks/unwind.h"
#include "test.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
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
        process_look(pid, &arena, &look);
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
