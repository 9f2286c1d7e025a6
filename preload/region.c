#include "region.h"

#include "settings.h"
#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC       UINT64_C(0x3175706772747375) /* a layout of another version has another one */
#define LOCK_TRIES  200
#define LOCK_WAIT   (5 * 1000 * 1000) /* ns: a second in all; a holder needs microseconds */
#define RACE_TRIES  4
#define STAT_BYTES  1024
#define SLOT_NONE   (-1)
#define STAT_STATE  3 /* fields of /proc/<pid>/stat, as proc(5) counts them */
#define STAT_THREAD 20
#define STAT_START  22

struct owner {
    int64_t pid; /* 0: free */
    uint64_t start;
};

struct device {
    _Atomic uint32_t taken;
    struct region_uuid uuid;
};

struct region {
    _Atomic uint64_t magic;
    _Atomic uint32_t high; /* slots that were ever used */
    struct device devices[REGION_DEVICES];
    struct owner owners[REGION_SLOTS];
    _Atomic int64_t held[REGION_DEVICES][REGION_SLOTS];
};

static struct region *_Atomic region;
static bool is_private;
static _Atomic int own_slot = SLOT_NONE;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* ---- opening ---- */

static struct region *map_private(void)
{
    void *memory = mmap(NULL, sizeof(struct region), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return NULL;
    (void)madvise(memory, sizeof(struct region), MADV_WIPEONFORK); /* a child holds nothing */
    is_private = true;
    return memory;
}

static struct region *map_file(void)
{
    struct region *found = NULL;
    uint64_t magic = 0;
    int fd = settings.region[0]
                 ? open(settings.region, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)
                 : -1;

    if (fd < 0)
        return NULL;
    (void)fchmod(fd, 0666); /* another user's processes count here too; only its owner may say so */
    /* Only ever made larger: nobody's mapping loses its pages. What is no file cannot be. */
    if (lseek(fd, 0, SEEK_END) >= (off_t)sizeof(*found) || ftruncate(fd, sizeof(*found)) == 0) {
        void *memory = mmap(NULL, sizeof(*found), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        found = memory == MAP_FAILED ? NULL : memory;
    }
    close(fd);
    if (found && !atomic_compare_exchange_strong(&found->magic, &magic, MAGIC) && magic != MAGIC) {
        (void)munmap(found, sizeof(*found));
        found = NULL;
    }
    return found;
}

/* In a child that was forked: it holds nothing, and owns no slot. */
static void forget(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

    mutex = fresh;
    atomic_store(&own_slot, SLOT_NONE);
    table_forget_all();
}

static struct region *get(void)
{
    struct region *found = atomic_load_explicit(&region, memory_order_acquire);

    if (found)
        return found;
    pthread_mutex_lock(&mutex);
    found = atomic_load(&region);
    if (!found) {
        found = map_file();
        if (!found)
            found = map_private();
        if (found)
            (void)pthread_atfork(NULL, NULL, forget);
        atomic_store_explicit(&region, found, memory_order_release);
    }
    pthread_mutex_unlock(&mutex);
    return found;
}

/* ---- the lock: between threads the mutex, between processes the file's ---- */

/* Opened each time: a descriptor that we kept might be closed, and be somebody else's, by now. */
static bool lock(int *ret_fd)
{
    const struct timespec pause = {.tv_nsec = LOCK_WAIT};

    *ret_fd = -1;
    pthread_mutex_lock(&mutex);
    if (is_private)
        return true;
    *ret_fd = open(settings.region, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    for (int i = 0; *ret_fd >= 0 && i < LOCK_TRIES; i++) {
        if (flock(*ret_fd, LOCK_EX | LOCK_NB) == 0)
            return true;
        (void)nanosleep(&pause, NULL);
    }
    if (*ret_fd >= 0)
        close(*ret_fd);
    pthread_mutex_unlock(&mutex);
    return false;
}

static void unlock(int fd)
{
    if (fd >= 0)
        close(fd);
    pthread_mutex_unlock(&mutex);
}

/* ---- who is alive ---- */

struct process {
    char state;
    uint64_t threads;
    uint64_t start;
};

static uint64_t number_at(const char *text)
{
    uint64_t value = 0;

    for (; *text >= '0' && *text <= '9'; text++)
        value = value * 10 + (uint64_t)(*text - '0');
    return value;
}

/* The name in it may have blanks and brackets: fields count from the last ')'. */
static bool parse_stat(const char *text, struct process *ret)
{
    const char *at = strrchr(text, ')');

    for (int field = STAT_STATE; at && field <= STAT_START; field++) {
        at = strchr(at, ' ');
        if (!at)
            return false;
        at++;
        if (field == STAT_STATE)
            ret->state = *at;
        else if (field == STAT_THREAD)
            ret->threads = number_at(at);
        else if (field == STAT_START)
            ret->start = number_at(at);
    }
    return at != NULL;
}

/* 0, or an errno. */
static int read_process(int64_t pid, struct process *ret)
{
    char path[64], text[STAT_BYTES];

    (void)snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    ssize_t len = read(fd, text, sizeof(text) - 1);
    int r = len < 0 ? errno : 0;
    close(fd);
    text[len > 0 ? len : 0] = '\0';
    if (r)
        return r;
    return parse_stat(text, ret) ? 0 : EINVAL;
}

/* In doubt it is: what is held is never forgotten by mistake. */
static bool is_alive(const struct owner *owner)
{
    struct process process = {0};

    if (kill((pid_t)owner->pid, 0) < 0 && errno == ESRCH)
        return false;
    int r = read_process(owner->pid, &process);
    if (r)
        return r != ENOENT && r != ESRCH;
    if (owner->start && process.start != owner->start)
        return false; /* the number is somebody else's by now, in a new container as a rule */
    /* A zombie has let go of its devices, unless it is but the first thread of several. */
    return (process.state != 'Z' && process.state != 'X') || process.threads > 1;
}

static void clear_slot(struct region *r, int slot)
{
    for (int i = 0; i < REGION_DEVICES; i++)
        if (atomic_load_explicit(&r->held[i][slot], memory_order_relaxed))
            atomic_store(&r->held[i][slot], 0);
    r->owners[slot].pid = 0;
}

static int slot_count(struct region *r)
{
    uint32_t high = atomic_load_explicit(&r->high, memory_order_acquire);

    return high < REGION_SLOTS ? (int)high : REGION_SLOTS;
}

/* The lock is held. A slot of ours that we know nothing of is from before an exec: what it held
 * went with the program. */
static void clear_the_dead(struct region *r)
{
    int own = atomic_load(&own_slot);
    int64_t pid = getpid();

    for (int i = 0; i < slot_count(r); i++)
        if (i != own && r->owners[i].pid && (r->owners[i].pid == pid || !is_alive(&r->owners[i])))
            clear_slot(r, i);
}

/* ---- slots ---- */

static int find_slot(struct region *r)
{
    for (int i = 0; i < slot_count(r); i++)
        if (!r->owners[i].pid)
            return i;
    return slot_count(r) < REGION_SLOTS ? slot_count(r) : SLOT_NONE;
}

static int take_slot(struct region *r)
{
    struct process self = {0};
    int64_t pid = getpid();
    int fd;

    if (!lock(&fd))
        return SLOT_NONE;
    int slot = atomic_load(&own_slot);
    if (slot == SLOT_NONE) {
        clear_the_dead(r);
        slot = find_slot(r);
    }
    if (slot != SLOT_NONE && atomic_load(&own_slot) == SLOT_NONE) {
        (void)read_process(pid, &self);
        clear_slot(r, slot);
        r->owners[slot] = (struct owner){.pid = pid, .start = self.start};
        if (slot >= slot_count(r))
            atomic_store(&r->high, (uint32_t)slot + 1);
        atomic_store(&own_slot, slot);
    }
    unlock(fd);
    return slot;
}

static int get_slot(struct region *r)
{
    int slot = atomic_load_explicit(&own_slot, memory_order_relaxed);

    return slot != SLOT_NONE ? slot : take_slot(r);
}

/* ---- counting ---- */

static int64_t sum(struct region *r, int device)
{
    int64_t total = 0;

    for (int i = slot_count(r); i-- > 0;)
        total += atomic_load(&r->held[device][i]);
    return total;
}

static bool try_reserve(struct region *r, int device, int slot, int64_t bytes)
{
    atomic_fetch_add(&r->held[device][slot], bytes);
    if (sum(r, device) <= settings.limit_bytes)
        return true;
    atomic_fetch_sub(&r->held[device][slot], bytes);
    return false;
}

bool region_reserve(int device, int64_t bytes)
{
    struct region *r = get();
    int slot = r && bytes <= settings.limit_bytes ? get_slot(r) : SLOT_NONE;
    bool done = false;
    int fd;

    if (slot == SLOT_NONE)
        return false;
    if (try_reserve(r, device, slot, bytes))
        return true;
    if (!lock(&fd))
        return false;
    clear_the_dead(r);
    for (int i = 0; !done && i < RACE_TRIES; i++) {
        if (i)
            (void)sched_yield(); /* somebody who is refused too may not have taken back yet */
        done = try_reserve(r, device, slot, bytes);
    }
    unlock(fd);
    return done;
}

void region_add(int device, int64_t bytes)
{
    struct region *r = get();
    int slot = r ? get_slot(r) : SLOT_NONE;

    if (slot != SLOT_NONE)
        atomic_fetch_add(&r->held[device][slot], bytes);
}

void region_give_back(int device, int64_t bytes)
{
    region_add(device, -bytes);
}

int64_t region_used(int device)
{
    struct region *r = get();
    int fd;

    if (!r)
        return 0;
    if (slot_count(r) > (atomic_load(&own_slot) != SLOT_NONE) && lock(&fd)) {
        clear_the_dead(r);
        unlock(fd);
    }
    int64_t used = sum(r, device);
    return used > 0 ? used : 0;
}

int64_t region_own(void)
{
    struct region *r = settings_active() ? get() : NULL;
    int slot = r ? get_slot(r) : SLOT_NONE;
    int64_t own = 0;

    if (slot == SLOT_NONE)
        return -1;
    for (int i = 0; i < REGION_DEVICES; i++)
        own += atomic_load(&r->held[i][slot]);
    return own;
}

/* ---- devices ---- */

static int find_device(struct region *r, const struct region_uuid *uuid)
{
    for (int i = 0; i < REGION_DEVICES; i++) {
        if (!atomic_load_explicit(&r->devices[i].taken, memory_order_acquire))
            return -1;
        if (memcmp(&r->devices[i].uuid, uuid, sizeof(*uuid)) == 0)
            return i;
    }
    return -1;
}

int region_device(const struct region_uuid *uuid)
{
    struct region *r = get();
    int device = r ? find_device(r, uuid) : -1;
    int fd;

    if (!r || device >= 0 || !lock(&fd))
        return device;
    device = find_device(r, uuid);
    for (int i = 0; device < 0 && i < REGION_DEVICES; i++)
        if (!atomic_load(&r->devices[i].taken)) {
            r->devices[i].uuid = *uuid;
            atomic_store_explicit(&r->devices[i].taken, 1, memory_order_release);
            device = i;
        }
    unlock(fd);
    return device;
}
