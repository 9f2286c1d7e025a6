#include "mover/gpu_copy.h"

#include "api/gpu_page.h"
#include "base/err.h"
#include "base/str.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PATH_BYTES 64
#define LOOK_MS    100 /* between looks at whether the process lives and copies */

/* ---- finding it ---- */

static bool page_is_named(const char *link)
{
    static const char name[] = "/memfd:" GPU_PAGE_NAME;

    return strncmp(link, name, sizeof(name) - 1) == 0;
}

/* The process's number in its own name space: a child that was forked has its parent's page. */
static int64_t pid_inside(pid_t pid)
{
    char path[PATH_BYTES], line[512];
    int64_t inside = pid;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, "NSpid:", 6) == 0) {
            const char *last = strrchr(line, '\t');

            if (!last || !str_to_i64(str_trim(str_from(last)), &inside))
                inside = pid;
        }
    if (file)
        (void)fclose(file);
    return inside;
}

static struct gpu_page *page_open(const char *path, pid_t pid)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat st;
    void *memory = MAP_FAILED;

    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size >= GPU_PAGE_BYTES)
        memory = mmap(NULL, GPU_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (memory == MAP_FAILED)
        return NULL;
    struct gpu_page *page = memory;
    if (atomic_load(&page->magic) == GPU_PAGE_MAGIC && page->pid == pid_inside(pid))
        return page;
    (void)munmap(memory, GPU_PAGE_BYTES);
    return NULL;
}

struct gpu_page *gpu_copy_find(pid_t pid)
{
    char path[PATH_BYTES + NAME_MAX], link[PATH_MAX];
    struct gpu_page *page = NULL;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && !page && (entry = readdir(folder));) {
        (void)snprintf(path, sizeof(path), "/proc/%d/fd/%s", pid, entry->d_name);
        ssize_t length = readlink(path, link, sizeof(link) - 1);

        link[length > 0 ? length : 0] = '\0';
        if (page_is_named(link))
            page = page_open(path, pid);
    }
    if (folder)
        closedir(folder);
    return page;
}

void gpu_copy_done(struct gpu_page *page)
{
    if (page)
        (void)munmap(page, GPU_PAGE_BYTES);
}

bool gpu_copy_is_away(const struct gpu_page *page)
{
    return page && atomic_load(&page->state) == GPU_STATE_AWAY;
}

int64_t gpu_copy_held_mib(const struct gpu_page *page)
{
    int64_t bytes = page && !gpu_copy_is_away(page) ? atomic_load(&page->held) : 0;

    return bytes > 0 ? bytes >> 20 : 0;
}

int64_t gpu_copy_away_mib(const struct gpu_page *page)
{
    int64_t bytes = gpu_copy_is_away(page) ? atomic_load(&page->moved) : 0;

    return bytes > 0 ? bytes >> 20 : 0;
}

int64_t gpu_copy_left_mib(const struct gpu_page *page)
{
    int64_t bytes = page ? atomic_load(&page->left) : 0;

    return bytes > 0 ? (bytes - 1) >> 20 : -1;
}

/* ---- orders ---- */

static int64_t copy_now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool process_lives(pid_t pid)
{
    char path[PATH_BYTES], line[512], state = 'X';

    (void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "State: %c", &state) == 1)
            break;
    if (file)
        (void)fclose(file);
    return state != 'X' && state != 'Z';
}

static void page_words(const struct gpu_page *page, char ret[static GPU_PAGE_WORDS_MAX])
{
    memcpy(ret, page->words, GPU_PAGE_WORDS_MAX);
    ret[GPU_PAGE_WORDS_MAX - 1] = '\0';
    for (char *at = ret; *at; at++)
        *at = (char)(isprint((unsigned char)*at) ? *at : '?');
}

/* The answer to the last order, whoever gave it. */
static int page_wait(struct gpu_page *page, pid_t pid, struct err *err)
{
    const struct timespec look = {.tv_nsec = LOOK_MS * 1000000L};
    int64_t since_ms = copy_now_ms(), copied = -1;

    for (;;) {
        uint32_t answered = atomic_load(&page->answered);
        int64_t copied_now = atomic_load(&page->copied);

        if (answered == atomic_load(&page->turn))
            return 0;
        if (!process_lives(pid))
            return err_set(err, -ESRCH, "process %d has ended", pid);
        if (copied_now != copied) {
            copied = copied_now;
            since_ms = copy_now_ms();
        }
        if (copy_now_ms() - since_ms > GPU_PAGE_STALLED_MS)
            return err_set(err, -ETIME, "process %d did not copy anything for %d s", pid,
                           GPU_PAGE_STALLED_MS / 1000);
        (void)syscall(SYS_futex, &page->answered, FUTEX_WAIT, answered, &look, NULL, 0);
    }
}

/* `state`: where it is to be. */
static int page_order(struct gpu_page *page,
                      pid_t pid,
                      uint32_t order,
                      uint32_t state,
                      struct err *err)
{
    char words[GPU_PAGE_WORDS_MAX];
    int r = page_wait(page, pid, err); /* one that an earlier helper gave */

    if (r < 0 || atomic_load(&page->state) == state)
        return r;
    atomic_store(&page->order, order);
    (void)atomic_fetch_add(&page->turn, 1);
    (void)syscall(SYS_futex, &page->turn, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    r = page_wait(page, pid, err);
    if (r < 0 || !atomic_load(&page->failed))
        return r;
    page_words(page, words);
    return err_set(err, -EIO, "process %d: %s", pid, words);
}

int gpu_copy_out(struct gpu_page *page, pid_t pid, int64_t *ret_mib, struct err *err)
{
    int r = page_order(page, pid, GPU_ORDER_OUT, GPU_STATE_AWAY, err);

    *ret_mib = r == 0 ? gpu_copy_away_mib(page) : 0;
    return r;
}

int gpu_copy_in(struct gpu_page *page, pid_t pid, struct err *err)
{
    return page_order(page, pid, GPU_ORDER_IN, GPU_STATE_HERE, err);
}
