#include "observe/callers.h"

#include "base/arena.h"
#include "base/count.h"
#include "base/str.h"
#include "stacks/proc.h"
#include "stacks/regions.h"
#include "stacks/unwind.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#define STACK_WORDS 2048 /* that are looked at, from the top: those who poll have large tables */
#define BEGIN_WORDS 16   /* so far apart libc lies on it, and what it calls where a thread begins */
#define BEYOND_WORDS \
    128                 /* so many with none of Python's are more than are seen between its calls */
#define MAPS_OPENS   64 /* what reading /proc/PID/maps counts for, as it is as much work */
#define FRAMES_OPENS 16 /* and what the frames of a stack do */
#define FRAMES_READS 20000 /* of memory, for them: some 40 each are usual */

/* Not all that begins with libtorch is PyTorch's: libtorchaudio and libtorchcodec read from anywhere. */
static enum owner file_owner(struct str file)
{
    static const struct {
        const char *begins;
        enum owner owner;
    } names[] = {
        {"libtorch.", OWNER_PYTORCH},
        {"libtorch_cpu", OWNER_PYTORCH},
        {"libtorch_cuda", OWNER_PYTORCH},
        {"libtorch_hip", OWNER_PYTORCH},
        {"libtorch_python", OWNER_PYTORCH},
        {"libgloo", OWNER_PYTORCH},
        {"libc10", OWNER_PYTORCH},
        {"libnccl.", OWNER_PYTORCH},
        {"python", OWNER_PYTHON},
        {"libpython", OWNER_PYTHON},
        {"libcuda.", OWNER_DRIVER},
        {"libc.", OWNER_LIBC},
        {"libc-", OWNER_LIBC},
        {"libm.", OWNER_NOBODY},
        {"ld-", OWNER_NOBODY},
        {"libpthread", OWNER_NOBODY},
        {"libstdc++", OWNER_CPP},
        {"libuv", OWNER_NOBODY},
        {"[vdso]", OWNER_NOBODY},
    };

    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (str_starts(file, str_from(names[i].begins)))
            return names[i].owner;
    return OWNER_OTHERS;
}

static void code_read(struct callers *callers, size_t *opens)
{
    char path[64];

    *opens -= *opens < MAPS_OPENS ? *opens : MAPS_OPENS;
    regions_read(&callers->regions, callers->pid, &callers->arena);
    size_t count = callers->regions.all.count;
    callers->owners = ARENA_ARRAY(&callers->arena, enum owner, count + 1);
    for (size_t i = 0; i < count; i++)
        callers->owners[i] = file_owner(proc_base(callers->regions.all.items[i].path));
    (void)snprintf(path, sizeof(path), "/proc/%lld/mem", (long long)callers->pid);
    callers->memory = open(path, O_RDONLY | O_CLOEXEC);
}

static enum owner owner_at(const struct callers *callers, uint64_t address)
{
    const struct region *region = regions_find(&callers->regions, address);

    /* Nobody's: a number, an address of data. */
    return region ? callers->owners[region - callers->regions.all.items] : OWNER_NOBODY;
}

static void caller_note(struct caller *caller, enum owner owner)
{
    if (caller->owner == OWNER_NOBODY && owner > OWNER_CPP)
        caller->owner = owner;
    caller->pytorch += owner == OWNER_PYTORCH && !caller->python;
    caller->python += owner == OWNER_PYTHON;
}

static struct caller by_addresses(const struct callers *callers, uint64_t stack)
{
    uint64_t words[STACK_WORDS];
    struct caller ret = {.owner = OWNER_NOBODY}, native = ret;
    size_t from_cpp = STACK_WORDS, begin = 0, beyond = 0;
    ssize_t got = pread(callers->memory, words, sizeof(words), (off_t)stack);
    size_t count = got > 0 ? (size_t)got / sizeof(words[0]) : 0; /* all there are, or so many */

    for (size_t i = 0; i < count; i++) {
        enum owner owner = owner_at(callers, words[i]);

        caller_note(&ret, owner);
        if (owner != OWNER_PYTHON)
            caller_note(&native, owner);
        from_cpp = owner == OWNER_CPP ? 0 : from_cpp + 1;
        if (owner != OWNER_LIBC || from_cpp >= BEGIN_WORDS)
            continue;
        begin = i + 1;
        beyond = ret.python;
    }
    bool begins = begin && (count < STACK_WORDS || count - begin >= BEYOND_WORDS);
    return begins && ret.python == beyond ? native : ret;
}

/* False: they do not lead to whose code it is; or it is PyTorch's, and they lead neither to a call of
 * Python's nor to where the thread begins. */
static bool by_frames(struct callers *callers, const struct unwind_start *start, struct caller *ret)
{
    struct proc_memory from = {callers->memory, NULL};
    struct caller found = {.owner = OWNER_NOBODY};
    uint64_t frames[UNWIND_FRAMES_MAX];

    callers->regions.memory =
        (struct memory){.read = proc_read, .user = &from, .reads_left = FRAMES_READS};
    size_t count = regions_unwind(&callers->regions, start, frames);
    for (size_t i = 0; i < count; i++) {
        enum owner owner = owner_at(callers, frames[i]);

        found.python += owner == OWNER_OTHERS && found.owner == OWNER_PYTORCH;
        caller_note(&found, owner);
    }
    if (found.owner == OWNER_NOBODY)
        return false;
    *ret = found;
    return found.owner != OWNER_PYTORCH || found.python ||
           owner_at(callers, frames[count - 1]) == OWNER_LIBC;
}

struct caller callers_find(struct callers *callers, const struct unwind_start *start, size_t *opens)
{
    struct caller ret = {.owner = OWNER_NOBODY};

    if (!callers->owners)
        code_read(callers, opens);
    if (callers->memory < 0)
        return ret;
    *opens -= *opens < FRAMES_OPENS ? *opens : FRAMES_OPENS;
    if (!by_frames(callers, start, &ret))
        ret = by_addresses(callers, start->sp);
    return ret;
}

void callers_done(struct callers *callers)
{
    if (callers->memory >= 0)
        close(callers->memory);
    arena_done(&callers->arena);
}
