#include "observe/ranks.h"

#include "api/pace.h"
#include "api/rank_page.h"
#include "api/ranks.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "observe/processes.h"
#include "observe/threads.h"
#include "stacks/proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PAGES_LOOKED_MAX 1024 /* files in a folder that anybody in the pod may fill */
#define STARTING_TURNS   5    /* one that has made no step yet is looked at in every fifth turn */
#define INNER_OPENS_MAX  2000 /* files of processes opened in a turn, for all pods: their numbers */
#define WAIT_OPENS_MAX   4096 /* and what their threads wait in: eight ranks with many threads */
#define GREEDY_PART      4    /* a pod that took a quarter of it comes last in the next turn */
#define ALONE_TURNS      60   /* without a page: from then on it is asked why, */
#define ALONE_EVERY      15   /* in every so many turns */
#define BURST_MAX        2    /* a pod that changes all the time is told of every 2, 4, 8 s */

/* ---- pages ---- */

static struct observed_rank *one_of(struct observed *ranks, const struct rank_page *page)
{
    for (size_t i = 0; i < ranks->count; i++)
        if (ranks->items[i].pace.report.rank == (int64_t)page->rank)
            return &ranks->items[i];
    if (ranks->count == RANKS_MAX)
        return NULL;
    struct observed_rank *one = &ranks->items[ranks->count++];
    *one = (struct observed_rank){.pace = {.report = {.rank = (int64_t)page->rank}}};
    return one;
}

/* A rank that was started again has a page of its own: the newest is the one that counts. */
static void page_take(struct observed *ranks, const struct rank_page *page)
{
    struct observed_rank *one;

    if (page->magic != RANK_PAGE_MAGIC || page->rank > INT32_MAX || page->pid > INT32_MAX ||
        page->steps > INT64_MAX || page->phase >= RANK_PHASE_MEET || !page->started_ns ||
        page->started_ns > INT64_MAX || page->step_ns > INT64_MAX || page->phase_ns > INT64_MAX ||
        page->first_ns > INT64_MAX || page->save_ns > INT64_MAX || page->mark > INT64_MAX ||
        page->resumed > INT64_MAX || page->loaded_ms > INT64_MAX || page->own_ns > INT64_MAX ||
        page->late_ns > INT64_MAX || page->own_part > INT64_MAX || page->own_spread > INT64_MAX ||
        page->world > INT64_MAX || page->passes > INT64_MAX)
        return;
    one = one_of(ranks, page);
    if (!one || one->started_ns > page->started_ns)
        return;
    if (one->started_ns != page->started_ns) {
        one->pace =
            (struct pace){.report = {.rank = (int64_t)page->rank, .pid = (int64_t)page->pid}};
        one->started_ns = page->started_ns;
        one->inner_pid = (int64_t)page->pid;
        one->pid = 0;
        one->over = false;
        ranks->changed = true;
    }
    one->page = *page;
}

static void pages_read(struct observed *ranks, const char *path)
{
    DIR *folder = opendir(path);
    size_t looked = 0;

    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder)) && looked < PAGES_LOOKED_MAX; looked++) {
        struct rank_page page = {0};
        struct stat info;
        int fd =
            openat(dirfd(folder), entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

        if (fd < 0)
            continue;
        if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
            pread(fd, &page, sizeof(page), 0) == sizeof(page))
            page_take(ranks, &page);
        close(fd);
    }
    closedir(folder);
}

/* ---- processes ---- */

/* The process that wrote the page: below the container's own, with that number in there. NULL: there
 * is none, or *ret_unknown: too much would have to be opened for it in this turn. */
static const struct process *one_process(struct observed_rank *one,
                                         struct observed_look *look,
                                         int64_t container_pid,
                                         bool *ret_unknown)
{
    struct processes *all = &look->all;
    const struct process *known = one->pid ? process_find(all, one->pid) : NULL;

    *ret_unknown = false;
    if (known && known->born == one->born)
        return known;
    one->pid = 0;
    for (size_t i = 0; container_pid > 0 && i < all->count; i++) {
        struct process *process = &all->items[i];

        if ((process->inner && process->inner != one->inner_pid) ||
            !process_is_below(all, process, container_pid))
            continue;
        int64_t inner = process_inner_pid(process, &look->inner_opens);
        *ret_unknown = *ret_unknown || !inner;
        if (inner != one->inner_pid)
            continue;
        one->pid = process->pid;
        one->born = process->born;
        *ret_unknown = false;
        return process;
    }
    return NULL;
}

/* False: it could not be looked at in this turn. */
static bool process_sample(struct observed_rank *one,
                           struct observed_look *look,
                           int64_t container_pid,
                           struct pace_sample *ret)
{
    const struct processes *all = &look->all;
    bool unknown;
    const struct process *own = one_process(one, look, container_pid, &unknown);
    size_t children = 0;

    ret->looked = true;
    ret->there = own != NULL;
    if (!own)
        return !unknown;
    ret->state = own->state;
    ret->failed = own->failed;
    for (size_t i = 0; i < all->count; i++) {
        const struct process *process = &all->items[i];

        if (!process_is_below(all, process, own->pid))
            continue;
        children += process != own;
        ret->cpu_ms += process->cpu_ms;
        ret->working = ret->working || process->state == 'R' || process->state == 'D';
    }
    ret->io_bytes = process_io_bytes(own->pid, &look->wait_opens);
    struct threads_wait wait = threads_look(own->pid, &look->wait_opens);
    memcpy(ret->wait, wait.in, sizeof(ret->wait));
    /* What a limit raises in the backward pass ends the training; elsewhere it may be caught. */
    bool helped = (children || wait.limited) && ret->phase != RANK_PHASE_BACKWARD;
    ret->locked = wait.locked && !helped;
    ret->unsure = wait.unsure && !helped;
    ret->meets = wait.meets;
    return look->wait_opens > 0;
}

/* ---- samples ---- */

/* A moment of the page's clock; what lies in the future is now. */
static int64_t page_moment(const struct observed_look *look, uint64_t ns)
{
    int64_t ago_ns = look->clock_ns - (int64_t)ns;

    return ns ? look->now_ms - (ago_ns > 0 ? ago_ns / 1000000 : 0) : 0;
}

/* What only grows, and changes nothing about how it gets on. */
static void one_count(struct observed_rank *one, const struct observed_look *look)
{
    struct rank_report *report = &one->pace.report;
    const struct rank_page *page = &one->page;

    if (!report->began_ms) /* once: two clocks are compared here, and it tells runs apart */
        report->began_ms = page_moment(look, page->started_ns);
    if (!report->first_ms)
        report->first_ms = page_moment(look, page->first_ns);
    report->saving_ms = (int64_t)(page->save_ns / 1000000);
    report->mark = (int64_t)page->mark;
    report->resumed = (int64_t)page->resumed;
    report->loaded_ms = (int64_t)page->loaded_ms;
    report->late_ms = page_moment(look, page->late_ns);
    report->world = (int64_t)page->world;
    report->passes = (int64_t)page->passes;
}

/* What a gang may be taken for hung by, and is no longer when it is over. */
static bool is_urgent(enum rank_act act)
{
    return act == RANK_IDLE || act == RANK_LOCKED || act == RANK_STOPPED || act == RANK_ZOMBIE;
}

static void one_look(struct observed *ranks,
                     struct observed_rank *one,
                     struct observed_look *look,
                     int64_t pid)
{
    struct pace_sample sample = {.now_ms = look->now_ms,
                                 .steps = one->page.steps,
                                 .last_ms = page_moment(look, one->page.step_ns),
                                 .started_ms = page_moment(look, one->page.started_ns),
                                 .phase = (enum rank_phase)one->page.phase,
                                 .own_us = (int64_t)one->page.own_ns / 1000,
                                 .own_part = (int64_t)one->page.own_part,
                                 .own_spread = (int64_t)one->page.own_spread};

    one_count(one, look);
    if (sample.last_ms && sample.last_ms < ranks->awake_ms)
        sample.last_ms = ranks->awake_ms;
    if (sample.steps ? pace_is_silent(&one->pace, &sample) : look->fifth) {
        if (!look->scanned)
            processes_read(&look->all);
        look->scanned = true;
        if (!process_sample(one, look, pid, &sample))
            return; /* what was said of it stays; the next turn may tell more */
    }
    enum rank_act before = one->pace.report.act;
    if (pace_take(&one->pace, &sample)) {
        ranks->changed = true;
        ranks->urgent = ranks->urgent || is_urgent(before) || is_urgent(one->pace.report.act);
    }
}

/* ---- why there is no page ---- */

/* The value of a variable in "A=1\0B=2\0"; an empty string, if there is none. */
static struct str environ_get(struct str text, struct str name)
{
    struct str entry;

    while (str_cut(&text, '\0', &entry))
        if (entry.len > name.len && str_starts(entry, name) && entry.p[name.len] == '=')
            return str_sub(entry, name.len + 1, entry.len);
    return STR_NONE;
}

/* Whether our folder is one of a list; its last part is always the same. */
static bool has_hook(struct str list)
{
    struct str folder;

    while (str_cut(&list, ':', &folder))
        if (str_ends(folder, STR("/hook")))
            return true;
    return false;
}

/* Whether Python was told not to look at its environment, or not to import sitecustomize. */
static bool is_apart(struct str command)
{
    struct str word;

    (void)str_cut(&command, '\0', &word);
    while (str_cut(&command, '\0', &word) && word.len > 1 && word.p[0] == '-' && word.p[1] != '-') {
        if (str_find(word, 'E') < word.len || str_find(word, 'I') < word.len ||
            str_find(word, 'S') < word.len)
            return true;
        if (str_find(word, 'c') < word.len || str_find(word, 'm') < word.len)
            break;
    }
    return false;
}

/* By its name: not a shell that starts one, whose environment and flags are not yet those that count. */
static bool is_python(struct str command)
{
    struct str word;

    return str_cut(&command, '\0', &word) && str_starts(proc_base(word), STR("python"));
}

/* Of a process that has a RANK; NULL: it has none. */
static const char *why_unwatched(int64_t pid, size_t *opens, bool *ret_python)
{
    _cleanup_(buf_done) struct buf environment = {0}, command = {0};

    *opens -= *opens < 2 ? *opens : 2;
    if (!process_read(pid, "environ", &environment, PROCESS_FILE_BYTES) ||
        !environ_get(buf_str(&environment), STR("RANK")).len ||
        !process_read(pid, "cmdline", &command, PROCESS_FILE_BYTES))
        return NULL;
    *ret_python = is_python(buf_str(&command));
    if (!environ_get(buf_str(&environment), STR(RANK_PAGE_ENV)).len)
        return "they are started without the environment of their container; keep " RANK_PAGE_ENV
               " and PYTHONPATH";
    if (!has_hook(environ_get(buf_str(&environment), STR("PYTHONPATH"))))
        return "PYTHONPATH is set anew; put what it was behind it, as in "
               "PYTHONPATH=src:$PYTHONPATH";
    if (is_apart(buf_str(&command)))
        return "Python is started with -E, -I or -S, which keep out what counts steps; leave it "
               "out";
    return "none has made an optimizer of torch.optim so far";
}

static void look_for_why(struct observed *ranks, struct observed_look *look, int64_t pid)
{
    const char *why = NULL, *before = ranks->unwatched;
    bool python = false;

    if (ranks->count || pid <= 0) {
        ranks->alone = 0;
        ranks->unwatched = NULL;
        return;
    }
    if (ranks->alone++ < ALONE_TURNS || ranks->alone % ALONE_EVERY)
        return;
    if (!look->scanned)
        processes_read(&look->all);
    look->scanned = true;
    for (size_t i = 0; !python && look->wait_opens && i < look->all.count; i++) {
        if (!process_is_below(&look->all, &look->all.items[i], pid))
            continue;
        const char *one = why_unwatched(look->all.items[i].pid, &look->wait_opens, &python);
        if (one && (python || !why))
            why = one;
    }
    ranks->unwatched = why ? why : "no process of it has a RANK, as torchrun gives its ranks";
    ranks->changed = ranks->changed || !before || strcmp(before, ranks->unwatched) != 0;
}

/* ---- turns ---- */

struct observed_look observed_look_begin(int64_t now_ms, unsigned long turn)
{
    struct observed_look look = {.now_ms = now_ms,
                                 .fifth = turn % STARTING_TURNS == 0,
                                 .inner_opens = INNER_OPENS_MAX,
                                 .wait_opens = WAIT_OPENS_MAX};
    struct timespec clock;

    (void)clock_gettime(CLOCK_MONOTONIC, &clock);
    look.clock_ns = (int64_t)clock.tv_sec * 1000000000 + clock.tv_nsec;
    return look;
}

void observed_look_end(struct observed_look *look)
{
    VEC_DONE(&look->all);
}

/* torchrun may start its ranks anew with other numbers: whoever ended before the newest began is not
 * missed by its gang. */
static void forget_earlier(struct observed *ranks)
{
    uint64_t newest_ns = 0;

    for (size_t i = 0; i < ranks->count; i++)
        if (ranks->items[i].started_ns > newest_ns)
            newest_ns = ranks->items[i].started_ns;
    for (size_t i = 0; i < ranks->count; i++) {
        struct observed_rank *one = &ranks->items[i];

        if (!one->over && one->pace.report.act == RANK_GONE && one->page.step_ns < newest_ns &&
            one->page.phase_ns < newest_ns)
            one->over = ranks->changed = true;
    }
}

bool observed_look(struct observed *ranks,
                   struct observed_look *look,
                   const char *folder,
                   int64_t pid,
                   bool *ret_said)
{
    size_t inner_opens = look->inner_opens, wait_opens = look->wait_opens;

    pages_read(ranks, folder);
    for (size_t i = 0; i < ranks->count; i++)
        if (!ranks->items[i].over)
            one_look(ranks, &ranks->items[i], look, pid);
    look_for_why(ranks, look, pid);
    inner_opens -= look->inner_opens;
    wait_opens -= look->wait_opens;
    forget_earlier(ranks);
    *ret_said = inner_opens || wait_opens;
    return inner_opens >= INNER_OPENS_MAX / GREEDY_PART ||
           wait_opens >= WAIT_OPENS_MAX / GREEDY_PART;
}

void observed_line(struct observed *ranks,
                   int64_t pid,
                   int64_t born,
                   const struct observed_place *place,
                   int64_t now_ms)
{
    for (size_t i = 0; i < ranks->count; i++)
        if (ranks->items[i].pid == pid && ranks->items[i].born == born)
            pace_line(&ranks->items[i].pace, place->stack, place->line, now_ms);
}

void observed_last(struct observed *ranks, const char *folder, int64_t now_ms)
{
    const struct observed_look look = observed_look_begin(now_ms, 0);

    pages_read(ranks, folder);
    for (size_t i = 0; i < ranks->count; i++) {
        struct observed_rank *one = &ranks->items[i];

        one_count(one, &look);
        one->pace.report.steps = (int64_t)one->page.steps;
        one->pace.report.last_ms = page_moment(&look, one->page.step_ns);
    }
}

bool observed_has_steps(const char *folder)
{
    struct observed *ranks = MEM_NEW(struct observed);
    bool found = false;

    pages_read(ranks, folder);
    for (size_t i = 0; i < ranks->count; i++)
        found = found || ranks->items[i].page.steps > 0;
    mem_free(ranks);
    return found;
}

void observed_clear(struct observed *ranks)
{
    ranks->count = 0;
    ranks->alone = 0;
    ranks->unwatched = NULL;
    ranks->burst = 0;
    if (ranks->sent)
        ranks->sent[0] = '\0';
}

/* ---- telling ---- */

static bool any_is_held(const struct observed *ranks)
{
    for (size_t i = 0; i < ranks->count; i++)
        if (ranks->items[i].pace.report.seen_ms)
            return true;
    return false;
}

bool observed_is_due(const struct observed *ranks, int64_t now_ms)
{
    int64_t waited_ms = now_ms - ranks->told_ms;

    if (!ranks->changed)
        return ranks->count && (waited_ms >= RANKS_REFRESH_MS ||
                                (waited_ms >= RANKS_STILL_MS && ranks->still < RANKS_STILL_TIMES &&
                                 any_is_held(ranks)));
    return waited_ms >=
           (ranks->urgent ? OBSERVED_TELL_MS : (int64_t)OBSERVED_TELL_MS << ranks->burst);
}

struct str observed_tell(struct observed *ranks,
                         int64_t now_ms,
                         const uint32_t *gpus,
                         size_t gpu_count,
                         struct arena *arena)
{
    struct rank_report *reports = ARENA_ARRAY(arena, struct rank_report, RANKS_MAX);
    size_t count = 0;

    for (size_t i = 0; i < ranks->count; i++) {
        uint64_t local = ranks->items[i].page.local_rank;

        if (ranks->items[i].over)
            continue;
        struct rank_report report = ranks->items[i].pace.report;
        if (gpu_count == 1) /* its ranks share it */
            local = 0;
        report.gpu = local < gpu_count ? gpus[local] + 1 : 0;
        size_t at = count++; /* by number, however their pages were found */
        for (; at && reports[at - 1].rank > report.rank; at--)
            reports[at] = reports[at - 1];
        reports[at] = report;
    }
    struct str text = !count && ranks->unwatched ? ranks_unwatched_text(arena, ranks->unwatched)
                                                 : ranks_text(arena, reports, count);
    bool calm = now_ms - ranks->told_ms >= RANKS_REFRESH_MS;
    if (ranks->changed || calm)
        ranks->burst = calm ? 0 : ranks->burst < BURST_MAX ? ranks->burst + 1 : BURST_MAX;
    ranks->still = ranks->changed ? 0 : ranks->still + 1;
    ranks->changed = ranks->urgent = false;
    ranks->told_ms = now_ms;
    if (ranks->sent && str_is(text, ranks->sent))
        return STR_NONE;
    mem_free(ranks->sent);
    ranks->sent = mem_alloc(text.len + 1);
    memcpy(ranks->sent, text.p, text.len);
    return text;
}

void observed_lost(struct observed *ranks)
{
    ranks->changed = true;
    if (ranks->sent)
        ranks->sent[0] = '\0';
}

void observed_done(struct observed *ranks)
{
    mem_free(ranks->sent);
    ranks->sent = NULL;
}
