#include "stacks/pod.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "stacks/flight.h"
#include "stacks/native.h"
#include "stacks/proc.h"
#include "stacks/process.h"

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ALL_PROCESSES_MAX 65536 /* of the machine, when its pods are looked for */
#define TASK_BYTES        160   /* of one thread and of one frame in the document, without texts */
#define FRAME_BYTES       48
#define RANK_BYTES_MAX    32 /* more digits no rank has */

struct member {
    int64_t pid;
    int64_t parent;
    size_t above; /* the member that is its parent; SIZE_MAX: none */
    struct str rank;
    struct str local;
    bool ours;
    bool leader;      /* a rank begins here */
    bool launcher;    /* and others begin below it */
    bool taken;       /* its rank has its main process */
    int64_t asked_ms; /* its flight recorder was asked, then; 0: it was not */
};

struct members VEC_FIELDS(struct member);

/* ---- which processes ---- */

static void members_list(struct arena *arena, struct members *all, const struct patience *patience)
{
    DIR *dir = opendir("/proc");
    struct dirent *item;

    while (dir && (item = readdir(dir)) != NULL && all->count < ALL_PROCESSES_MAX &&
           !patience_over(patience)) {
        int64_t pid;

        if (str_to_i64(str_from(item->d_name), &pid) && pid > 0 && pid != (int64_t)getpid())
            VEC_PUSH(arena, all,
                     (struct member){.pid = pid, .parent = process_parent(pid), .above = SIZE_MAX});
    }
    if (dir)
        closedir(dir);
}

static bool is_root(int64_t pid, const int64_t *roots, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (roots[i] == pid)
            return true;
    return count == 0;
}

/* Only those below the roots, and who is whose parent; parents come before their children. */
static void members_choose(struct members *all,
                           const int64_t *roots,
                           size_t count,
                           const struct patience *patience)
{
    size_t kept = 0;
    bool more = true;

    for (size_t i = 0; i < all->count; i++)
        all->items[i].ours = is_root(all->items[i].pid, roots, count);
    while (more && !patience_over(patience)) {
        more = false;
        for (size_t i = kept; i < all->count && !patience_over(patience); i++) {
            struct member member = all->items[i];

            for (size_t j = 0; j < kept && member.above == SIZE_MAX; j++)
                if (all->items[j].pid == member.parent)
                    member.above = j;
            if (!member.ours && member.above == SIZE_MAX)
                continue;
            all->items[i] = all->items[kept];
            all->items[kept++] = member;
            more = true;
        }
    }
    all->count = kept;
    /* Without roots any order was right; a parent that came later is found now. */
    for (size_t i = 0; i < kept && count == 0 && !patience_over(patience); i++)
        for (size_t j = 0; j < kept && all->items[i].above == SIZE_MAX; j++)
            if (j != i && all->items[j].pid == all->items[i].parent)
                all->items[i].above = j;
}

/* ---- which ranks ---- */

static void member_environment(struct arena *arena, struct member *member)
{
    static const char *const ranks[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                        "JAX_PROCESS_ID"};
    static const char *const locals[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                                         "MPI_LOCALRANKID"};
    _cleanup_(arena_done) struct arena scratch = {0}; /* anybody may have a large environment */
    struct str env = process_environ(&scratch, member->pid);

    for (size_t i = 0; i < COUNT_OF(ranks) && !member->rank.len; i++)
        member->rank = environ_get(env, ranks[i]);
    for (size_t i = 0; i < COUNT_OF(locals) && !member->local.len; i++)
        member->local = environ_get(env, locals[i]);
    member->rank = str_dup(arena, str_sub(member->rank, 0, RANK_BYTES_MAX));
    member->local = str_dup(arena, str_sub(member->local, 0, RANK_BYTES_MAX));
}

static bool members_leaders(struct arena *arena,
                            struct members *all,
                            const struct patience *patience)
{
    bool any = false;

    for (size_t i = 0; i < all->count && !patience_over(patience); i++)
        member_environment(arena, &all->items[i]);
    for (size_t i = 0; i < all->count; i++) {
        struct member *member = &all->items[i];
        const struct member *above = member->above == SIZE_MAX ? NULL : &all->items[member->above];

        member->leader = member->rank.len && (!above || !str_eq(above->rank, member->rank) ||
                                              !str_eq(above->local, member->local));
        any = any || member->leader;
    }
    for (size_t i = 0; i < all->count; i++) {
        size_t at = all->items[i].leader ? all->items[i].above : SIZE_MAX;

        for (size_t steps = 0; at != SIZE_MAX && steps < all->count; steps++) {
            all->items[at].launcher = true;
            at = all->items[at].above;
        }
    }
    return any;
}

/* The member at which its rank begins; SIZE_MAX: it belongs to none. */
static size_t member_leader(const struct members *all, size_t at)
{
    for (size_t steps = 0; at != SIZE_MAX && steps < all->count; steps++) {
        if (all->items[at].leader)
            return all->items[at].launcher ? SIZE_MAX : at;
        at = all->items[at].above;
    }
    return SIZE_MAX;
}

/* ---- the document ---- */

struct account {
    struct arena *arena;
    struct json *list;
    struct json *root;
    size_t shown;
    size_t bytes;
    struct patience patience;
    struct patience flight; /* recorders are waited for */
};

static void add_frames(struct account *account, struct json *out, const struct process_task *task)
{
    struct arena *arena = account->arena;
    struct json *frames = json_add_array(arena, out, "frames");

    for (size_t i = 0; i < task->frame_count; i++) {
        const struct stack_frame *frame = &task->frames[i];
        struct json *item = json_push(frames, json_new_object(arena));

        json_add_str(arena, item, "function", frame->function);
        json_add_str(arena, item, "file", frame->file);
        if (frame->line > 0)
            json_add_i64(arena, item, "line", frame->line);
    }
    if (task->cut)
        json_add_bool(arena, out, "cut", true);
}

static void add_native(struct account *account, struct json *out, const struct process_task *task)
{
    struct arena *arena = account->arena;
    struct json *frames = task->native_count ? json_add_array(arena, out, "native") : NULL;

    for (size_t i = 0; i < task->native_count; i++) {
        const struct native_frame *frame = &task->native[i];
        struct json *item = json_push(frames, json_new_object(arena));

        if (frame->function.len)
            json_add_str(arena, item, "function", frame->function);
        if (frame->file.len)
            json_add_str(arena, item, "file", frame->file);
        json_add_str(
            arena, item, "at",
            str_printf(arena, "0x%llx",
                       (unsigned long long)(frame->file.len ? frame->offset : frame->address)));
    }
}

static void add_task(struct account *account, struct json *threads, const struct process_task *task)
{
    struct arena *arena = account->arena;
    struct json *item = json_push(threads, json_new_object(arena));
    char state[2] = {task->state, '\0'};

    if (task->tid)
        json_add_i64(arena, item, "tid", task->tid);
    if (task->name.len)
        json_add_str(arena, item, "name", task->name);
    json_add_str(arena, item, "state", str_dup(arena, str_from(state)));
    if (task->wchan.len)
        json_add_str(arena, item, "wchan", task->wchan);
    if (task->syscall.len)
        json_add_str(arena, item, "syscall", task->syscall);
    if (task->python)
        add_frames(account, item, task);
    add_native(account, item, task);
}

/* What the recorder of a rank says, with the environment that its rank began with. */
static void add_flight(struct account *account, struct json *item, const struct member *leader)
{
    struct json *flight = patience_over(&account->patience)
                              ? NULL
                              : flight_of(account->arena, leader->pid, leader->rank,
                                          leader->asked_ms, &account->flight);

    if (flight)
        (void)json_set(item, STR("flight"), flight);
}

static struct json *add_process(struct account *account,
                                const struct process_look *look,
                                struct str rank,
                                bool chief)
{
    struct arena *arena = account->arena;
    struct json *item = json_push(account->list, json_new_object(arena));
    char state[2] = {look->state, '\0'};
    int64_t number;

    json_add_i64(arena, item, "pid", look->pid);
    if (str_to_i64(rank, &number))
        json_add_i64(arena, item, "rank", number);
    if (chief)
        json_add_bool(arena, item, "main", true);
    json_add_str(arena, item, "command", look->command);
    json_add_str(arena, item, "state", str_dup(arena, str_from(state)));
    if (look->version)
        json_add_str(arena, item, "python",
                     str_printf(arena, "%u.%u.%u", look->version >> 24,
                                (look->version >> 16) & 0xff, (look->version >> 8) & 0xff));
    if (look->why.len)
        json_add_str(arena, item, "why", look->why);
    struct json *threads = json_add_array(arena, item, "threads");
    for (size_t i = 0; i < look->tasks.count; i++)
        add_task(account, threads, &look->tasks.items[i]);
    return item;
}

static void account_count(struct account *account, const struct process_look *look)
{
    account->shown += look->python;
    for (size_t i = 0; i < look->tasks.count; i++) {
        const struct process_task *task = &look->tasks.items[i];

        account->bytes += TASK_BYTES;
        for (size_t j = 0; j < task->frame_count; j++)
            account->bytes += FRAME_BYTES + task->frames[j].file.len + task->frames[j].function.len;
        for (size_t j = 0; j < task->native_count; j++)
            account->bytes += FRAME_BYTES + task->native[j].file.len + task->native[j].function.len;
    }
}

/* False: no more room or time. */
static bool account_open(struct account *account)
{
    const char *left = NULL;

    if (account->shown >= POD_STACKS_PROCESSES_MAX)
        left = "the pod has more processes of Python than are shown";
    else if (account->bytes > POD_STACKS_BYTES_MAX)
        left = "the stacks are longer than what is shown";
    else if (patience_over(&account->patience))
        left = "reading took too long: not all processes are shown";
    if (left)
        json_add_c(account->arena, account->root, "left", left);
    return !left;
}

/* Is there a process of Python among those above it, up to where its rank begins? */
static bool looks_python_above(const struct members *all,
                               const struct process_look *looks,
                               size_t at)
{
    for (size_t steps = 0; steps < all->count; steps++) {
        at = all->items[at].above;
        if (at == SIZE_MAX)
            return false;
        if (looks[at].python)
            return true;
    }
    return false;
}

static void account_ranks(struct account *account, struct members *all, struct process_look *looks)
{
    for (size_t i = 0; i < all->count; i++) {
        size_t leader = member_leader(all, i);

        if (leader == SIZE_MAX || !looks[i].python)
            continue;
        struct json *item =
            add_process(account, &looks[i], all->items[leader].rank, !all->items[leader].taken);
        if (!all->items[leader].taken)
            add_flight(account, item, &all->items[leader]);
        all->items[leader].taken = true;
    }
    for (size_t i = 0; i < all->count; i++)
        if (all->items[i].leader && !all->items[i].launcher && !all->items[i].taken) {
            if (!looks[i].why.len)
                looks[i].why = STR("no process of this rank is Python");
            (void)add_process(account, &looks[i], all->items[i].rank, true);
        }
}

static void account_others(struct account *account,
                           const struct members *all,
                           struct process_look *looks)
{
    for (size_t i = 0; i < all->count; i++)
        if (looks[i].python)
            (void)add_process(account, &looks[i], STR(""), !looks_python_above(all, looks, i));
    if (json_count(account->list) || !all->count)
        return;
    if (!looks[0].why.len)
        looks[0].why = STR("no process of this pod is Python");
    (void)add_process(account, &looks[0], STR(""), true);
}

/* All are asked before anything is read: they write meanwhile. */
static void ask_recorders(struct account *account, struct members *all)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    for (size_t i = 0; i < all->count && !patience_over(&account->patience); i++)
        if (all->items[i].leader && !all->items[i].launcher &&
            flight_ask(all->items[i].pid, all->items[i].rank))
            all->items[i].asked_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    account->flight = account->patience;
    account->flight.until_ms = patience_now_ms() + POD_FLIGHT_MS_MAX;
}

void pod_stacks(const struct pod_stacks_request *request, struct buf *out)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct account account = {.arena = &arena,
                              .patience = {.until_ms = patience_now_ms() + POD_STACKS_MS_MAX,
                                           .given_up = request->given_up}};
    struct members all = {0};

    account.root = json_new_object(&arena);
    account.list = json_add_array(&arena, account.root, "processes");
    members_list(&arena, &all, &account.patience);
    members_choose(&all, request->roots, request->root_count, &account.patience);
    bool ranks = members_leaders(&arena, &all, &account.patience);
    ask_recorders(&account, &all);
    struct process_look *looks = ARENA_ARRAY(&arena, struct process_look, all.count + 1);
    if (!all.count)
        (void)account_open(&account); /* it may be for want of time */
    for (size_t i = 0; i < all.count; i++) {
        if (!account_open(&account)) {
            all.count = i;
            break;
        }
        if (ranks && member_leader(&all, i) == SIZE_MAX)
            continue;
        process_look(all.items[i].pid, &account.patience, &arena, &looks[i]);
        account_count(&account, &looks[i]);
    }
    if (ranks)
        account_ranks(&account, &all, looks);
    else
        account_others(&account, &all, looks);
    json_write(out, account.root);
}
