#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A driver of our own that can move processes off GPUs, as far as agent/checkpoint.c knows: what it
 * did with a process is a number in the file $MUSTER_FAKE_CUDA/PID, and every call is a line in
 * `calls` there. While a file `busy` is there no process comes to an end of its work; while `full` is
 * there none can be moved out, while `broken` is there none can be restored. While `wait-CALL` is there
 * the call makes a file `at-CALL` and does not return. */
#define WAIT_MS   5
#define WAITS_MAX 24000 /* two minutes; a test has long ended then */
#define OUT       __attribute__((visibility("default")))

enum {
    RUNNING,
    LOCKED,
    CHECKPOINTED,
    INVALID = 1,
    ILLEGAL = 401,
    NOT_READY = 600,
};

static const char *folder(void)
{
    const char *path = getenv("MUSTER_FAKE_CUDA");
    return path ? path : "/nonexistent";
}

static int has(const char *name)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/%s", folder(), name);
    return access(path, F_OK) == 0;
}

static int state_of(int pid)
{
    char path[4096];
    int state = RUNNING;
    (void)snprintf(path, sizeof(path), "%s/%d", folder(), pid);
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%d", &state) != 1)
        state = RUNNING;
    if (file)
        (void)fclose(file);
    return state;
}

/* As long as somebody wants it to; the caller's own limit ends it otherwise. */
static void wait_there(const char *call)
{
    char path[4096], name[64];
    (void)snprintf(name, sizeof(name), "wait-%s", call);
    if (!has(name))
        return;
    (void)snprintf(path, sizeof(path), "%s/at-%s", folder(), call);
    FILE *file = fopen(path, "we");
    if (file)
        (void)fclose(file);
    for (int i = 0; i < WAITS_MAX && has(name); i++)
        (void)poll(NULL, 0, WAIT_MS);
}

static int change(const char *call, int pid, int from, int to)
{
    char path[4096];
    wait_there(call);
    (void)snprintf(path, sizeof(path), "%s/calls", folder());
    FILE *file = fopen(path, "ae");
    if (file) {
        (void)fprintf(file, "%s %d\n", call, pid);
        (void)fclose(file);
    }
    if (state_of(pid) != from)
        return ILLEGAL;
    (void)snprintf(path, sizeof(path), "%s/%d", folder(), pid);
    file = fopen(path, "we");
    if (!file)
        return INVALID;
    (void)fprintf(file, "%d\n", to);
    return fclose(file) ? INVALID : 0;
}

OUT int cuInit(unsigned flags);
OUT int cuCheckpointProcessGetState(int pid, int *ret);
OUT int cuCheckpointProcessLock(int pid, void *args);
OUT int cuCheckpointProcessCheckpoint(int pid, void *args);
OUT int cuCheckpointProcessRestore(int pid, void *args);
OUT int cuCheckpointProcessUnlock(int pid, void *args);

int cuInit(unsigned flags)
{
    return flags ? INVALID : 0;
}

int cuCheckpointProcessGetState(int pid, int *ret)
{
    *ret = state_of(pid);
    return 0;
}

int cuCheckpointProcessLock(int pid, void *args)
{
    (void)args;
    return has("busy") ? NOT_READY : change("lock", pid, RUNNING, LOCKED);
}

int cuCheckpointProcessCheckpoint(int pid, void *args)
{
    (void)args;
    return has("full") ? INVALID : change("checkpoint", pid, LOCKED, CHECKPOINTED);
}

int cuCheckpointProcessRestore(int pid, void *args)
{
    (void)args;
    return has("broken") ? ILLEGAL : change("restore", pid, CHECKPOINTED, LOCKED);
}

int cuCheckpointProcessUnlock(int pid, void *args)
{
    (void)args;
    return change("unlock", pid, LOCKED, RUNNING);
}
