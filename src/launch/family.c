#include "launch/family.h"

#include "base/str.h"
#include "base/vec.h"
#include "observe/threads.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

struct process {
    pid_t pid;
    pid_t parent;
    bool ours;
    bool catches; /* the signal that is asked about */
};

struct processes VEC_FIELDS(struct process);

/* The fourth field of /proc/PID/stat; the second is a name in brackets that may hold anything, and the
 * third is the state. 0 for what has ended and was not waited for yet: it does nothing any more. */
static pid_t parent_of(const char *pid)
{
    char path[64];
    char text[512];
    const char *bracket;
    int64_t parent = 0;
    ssize_t got;
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    got = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    bracket = strrchr(text, ')');
    if (bracket && strlen(bracket) > 4 && bracket[2] != 'Z') {
        struct str rest = str_from(bracket + 4);
        struct str word;

        if (str_cut(&rest, ' ', &word))
            (void)str_to_i64(word, &parent);
    }
    return (pid_t)parent;
}

static void processes_list(struct processes *all)
{
    DIR *dir = opendir("/proc");
    struct dirent *item;

    while (dir && (item = readdir(dir)) != NULL) {
        int64_t pid;

        if (str_to_i64(str_from(item->d_name), &pid) && pid > 0)
            VEC_PUSH(NULL, all,
                     (struct process){.pid = (pid_t)pid, .parent = parent_of(item->d_name)});
    }
    if (dir)
        closedir(dir);
}

bool family_has_child(pid_t pid)
{
    struct processes all = {0};
    bool found = false;

    processes_list(&all);
    for (size_t i = 0; i < all.count; i++)
        found = found || all.items[i].parent == pid;
    VEC_DONE(&all);
    return found;
}

static struct process *process_of(struct processes *all, pid_t pid)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->items[i].pid == pid)
            return &all->items[i];
    return NULL;
}

/* All processes; those that descend from this one are marked. */
static void family_list(struct processes *all)
{
    pid_t self = getpid();
    bool more = true;

    processes_list(all);
    while (more) {
        more = false;
        for (size_t i = 0; i < all->count; i++) {
            struct process *process = &all->items[i];
            const struct process *parent = process->ours ? NULL : process_of(all, process->parent);

            if (!process->ours && (process->parent == self || (parent && parent->ours)))
                process->ours = more = true;
        }
    }
}

static bool process_catches(pid_t pid, int number)
{
    uint64_t handled = 0;

    return threads_handle(pid, &handled) && (handled >> (number - 1) & 1);
}

bool family_hand_on(int number)
{
    struct processes all = {0};
    bool any = false;

    family_list(&all);
    for (size_t i = 0; i < all.count; i++)
        all.items[i].catches = all.items[i].ours && process_catches(all.items[i].pid, number);
    for (size_t i = 0; i < all.count; i++) {
        const struct process *above = process_of(&all, all.items[i].parent);
        size_t steps = 0;

        while (above && above->ours && !above->catches && steps++ < all.count)
            above = process_of(&all, above->parent);
        if (!all.items[i].catches || (above && above->catches))
            continue;
        any = kill(all.items[i].pid, number) == 0 || any;
    }
    VEC_DONE(&all);
    return any;
}

void family_kill(int number)
{
    struct processes all = {0};

    family_list(&all);
    for (size_t i = 0; i < all.count; i++)
        if (all.items[i].ours)
            (void)kill(all.items[i].pid, number);
    VEC_DONE(&all);
}
