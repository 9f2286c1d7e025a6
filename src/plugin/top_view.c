#include "plugin/top_view.h"

#include "api/gpu.h"
#include "api/gpus.h"
#include "api/object.h"
#include "api/pod.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "estimate/band.h"
#include "plugin/job.h"
#include "plugin/queues_view.h"
#include "plugin/view.h"
#include "tool/term.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ROWS_MAX  20000
#define HEAD_ROWS 3 /* panes, an empty line, the names of the columns */

#define KEY_ESCAPE    27
#define KEY_BACKSPACE 127

struct draft {
    struct arena *arena;
    struct table table;
    VEC(struct top_row) rows;
};

static struct str annotation(const struct json *object, const char *key)
{
    return json_str(json_get(json_at(object, "metadata.annotations"), key));
}

/* ---- jobs ---- */

static struct str estimate_words(struct draft *draft, const struct json *group, int64_t now_ms)
{
    return json_str_at(group, "status.message").len
               ? band_short(draft->arena, json_at(group, "status.explanation.estimate"), now_ms)
               : STR("");
}

static const struct object *group_of(const struct top_objects *objects, const struct object *job)
{
    for (size_t i = 0; i < objects->groups.count; i++) {
        const struct object_owner *owner = object_controller(objects->groups.items[i]);

        if (job->uid.len && owner && str_eq(owner->uid, job->uid))
            return objects->groups.items[i];
    }
    return NULL;
}

static bool job_is_shown(const struct top_objects *objects, struct str uid)
{
    for (size_t i = 0; i < objects->jobs.count; i++)
        if (str_eq(objects->jobs.items[i]->uid, uid))
            return true;
    return false;
}

static struct str number_words(struct draft *draft, const struct json *value)
{
    int64_t number = 0;

    if (json_str(value).len)
        return json_str(value);
    return json_i64(value, &number) ? str_printf(draft->arena, "%lld", (long long)number)
                                    : STR("0");
}

static void job_row(struct draft *draft,
                    const struct top_objects *objects,
                    const struct object *job)
{
    const struct object *group = group_of(objects, job);
    const struct json *tree = object_json(job, draft->arena);
    const struct json *of_group = group ? object_json(group, draft->arena) : NULL;
    struct str phase = json_str_at(tree, "status.phase");
    bool runs = str_is(phase, "Running") || str_is(phase, "Succeeded");

    table_add(&draft->table,
              str_printf(draft->arena, STR_FMT "/" STR_FMT, STR_ARG(job->ns), STR_ARG(job->name)));
    table_add(&draft->table, STR("TorchrunJob"));
    table_add(&draft->table, job_queue(tree));
    table_add(&draft->table, number_words(draft, json_at(tree, "status.numGPUs")));
    table_add(&draft->table, view_phase(phase));
    table_add(&draft->table, time_age(draft->arena, objects->now_ms - job->created_ms));
    table_add(&draft->table, estimate_words(draft, of_group, objects->now_ms));
    table_add(&draft->table, runs ? STR("") : json_str_at(tree, "status.message"));
    VEC_PUSH(draft->arena, &draft->rows,
             ((struct top_row){.ns = job->ns,
                               .name = job->name,
                               .uid = job->uid,
                               .group = group ? group->name : STR_NONE,
                               .queue = json_str_at(of_group, "spec.queue").len
                                            ? json_str_at(of_group, "spec.queue")
                                            : job_queue(tree)}));
}

/* A job of another kind, by its pod group. */
static void group_row(struct draft *draft,
                      const struct top_objects *objects,
                      const struct object *group)
{
    const struct json *tree = object_json(group, draft->arena);
    const struct object_owner *owner = object_controller(group);
    struct str name = owner ? owner->name : group->name;
    int64_t running = 0;

    if (owner && job_is_shown(objects, owner->uid))
        return;
    (void)json_i64(json_at(tree, "status.running"), &running);
    table_add(&draft->table,
              str_printf(draft->arena, STR_FMT "/" STR_FMT, STR_ARG(group->ns), STR_ARG(name)));
    table_add(&draft->table, owner ? owner->kind : STR("PodGroup"));
    table_add(&draft->table, json_str_at(tree, "spec.queue"));
    table_add(&draft->table,
              number_words(draft, json_get(json_at(tree, "status.resourcesStatus.requested"),
                                           "nvidia.com/gpu")));
    table_add(&draft->table, running ? STR("Running") : STR("Queued"));
    table_add(&draft->table, time_age(draft->arena, objects->now_ms - group->created_ms));
    table_add(&draft->table, estimate_words(draft, tree, objects->now_ms));
    table_add(&draft->table, running ? STR("") : json_str_at(tree, "status.message"));
    VEC_PUSH(draft->arena, &draft->rows,
             ((struct top_row){.ns = group->ns,
                               .name = name,
                               .uid = owner ? owner->uid : STR_NONE,
                               .group = group->name,
                               .queue = json_str_at(tree, "spec.queue")}));
}

static void jobs_draft(struct draft *draft, const struct top_objects *objects)
{
    static const char *const headers[] = {"JOB", "KIND",   "QUEUE", "GPUS", "PHASE",
                                          "AGE", "STARTS", "SAYS",  NULL};

    table_init(&draft->table, draft->arena, headers);
    for (size_t i = 0; i < objects->jobs.count && draft->rows.count < ROWS_MAX; i++)
        job_row(draft, objects, objects->jobs.items[i]);
    for (size_t i = 0; i < objects->groups.count && draft->rows.count < ROWS_MAX; i++)
        group_row(draft, objects, objects->groups.items[i]);
}

/* ---- queues ---- */

static void queues_draft(struct draft *draft, const struct top_objects *objects)
{
    static const char *const headers[] = {"QUEUE",     "BELOW", "QUOTA",  "LIMIT", "IN USE",
                                          "ASKED FOR", "FAIR",  "QUEUED", NULL};

    table_init(&draft->table, draft->arena, headers);
    for (size_t i = 0; i < objects->queues.count && i < ROWS_MAX; i++) {
        const struct object *queue = objects->queues.items[i];
        const struct json *tree = object_json(queue, draft->arena);
        struct str parent = json_str_at(tree, "spec.parentQueue");

        table_add(&draft->table, queue->name);
        table_add(&draft->table, parent.len ? parent : STR("-"));
        table_add(&draft->table, queue_share(draft->arena, tree, "quota"));
        table_add(&draft->table, queue_share(draft->arena, tree, "limit"));
        table_add(&draft->table, queue_amount(draft->arena, tree, "allocated"));
        table_add(&draft->table, queue_amount(draft->arena, tree, "requested"));
        table_add(&draft->table, queue_amount(draft->arena, tree, "fairShare"));
        table_add(&draft->table, number_words(draft, json_at(tree, "status.pendingGroups")));
        VEC_PUSH(draft->arena, &draft->rows, ((struct top_row){.name = queue->name}));
    }
}

/* ---- GPUs ---- */

/* Whether "0,3" has a number. */
static bool devices_have(struct str devices, int64_t number)
{
    struct str part;

    while (str_cut(&devices, ',', &part)) {
        int64_t one = -1;

        if (str_to_i64(str_trim(part), &one) && one == number)
            return true;
    }
    return false;
}

static struct str device_users(struct draft *draft,
                               struct view_objects pods,
                               struct str node,
                               int64_t number)
{
    _cleanup_(buf_done) struct buf words = {0};

    for (size_t i = 0; i < pods.count; i++) {
        const struct json *pod = object_json(pods.items[i], draft->arena);

        if (!str_eq(json_str_at(pod, "spec.nodeName"), node) || pod_is_over(pod) ||
            !devices_have(annotation(pod, GPU_ANNOTATION_DEVICES), number))
            continue;
        struct str part = annotation(pod, GPU_ANNOTATION_FRACTION);
        buf_addf(&words, "%s" STR_FMT "/" STR_FMT "%s" STR_FMT, words.len ? ", " : "",
                 STR_ARG(pods.items[i]->ns), STR_ARG(pods.items[i]->name), part.len ? " " : "",
                 STR_ARG(part));
    }
    return str_dup(draft->arena, buf_str(&words));
}

/* The part of "87/40960,0/0" for a device: "87 %" and "40 GiB"; empty: nobody measured. */
static void device_use(struct draft *draft,
                       struct str told,
                       int64_t number,
                       struct str *ret_use,
                       struct str *ret_memory)
{
    struct str part = STR("");
    int64_t percent = 0;
    int64_t mib = 0;

    *ret_use = *ret_memory = STR("");
    for (int64_t i = 0; i <= number; i++)
        if (!str_cut(&told, ',', &part))
            return;
    size_t slash = str_find(part, '/');
    if (!str_to_i64(str_sub(part, 0, slash), &percent) ||
        !str_to_i64(str_sub(part, slash + 1, part.len), &mib))
        return;
    *ret_use = str_printf(draft->arena, "%lld %%", (long long)percent);
    *ret_memory = str_printf(draft->arena, "%lld.%lld GiB", (long long)(mib / 1024),
                             (long long)(mib % 1024 * 10 / 1024));
}

static void gpus_draft(struct draft *draft, const struct top_objects *objects)
{
    static const char *const headers[] = {"NODE", "GPU", "USE", "MEMORY", "HELD BY", NULL};

    table_init(&draft->table, draft->arena, headers);
    for (size_t i = 0; i < objects->nodes.count; i++) {
        const struct object *node = objects->nodes.items[i];
        const struct json *tree = object_json(node, draft->arena);
        int64_t count = gpus_of(json_at(tree, "status.capacity"));
        int64_t healthy = gpus_of(json_at(tree, "status.allocatable"));

        for (int64_t k = 0; k < count && draft->rows.count < ROWS_MAX; k++) {
            struct str use;
            struct str memory;
            struct str users = device_users(draft, objects->pods, node->name, k);

            device_use(draft, annotation(tree, GPU_ANNOTATION_USE), k, &use, &memory);
            table_add(&draft->table, node->name);
            table_add(&draft->table, str_printf(draft->arena, "%lld", (long long)k));
            table_add(&draft->table, use);
            table_add(&draft->table, memory);
            table_add(&draft->table, k >= healthy ? STR("cannot be used")
                                     : users.len  ? users
                                                  : STR("-"));
            VEC_PUSH(draft->arena, &draft->rows, ((struct top_row){.name = node->name}));
        }
    }
}

/* ---- rows ---- */

static bool line_matches(struct str line, const struct top_state *state)
{
    struct str word = {state->filter, state->filter_len};

    for (size_t i = 0; i + word.len <= line.len; i++) {
        size_t k = 0;

        while (k < word.len) {
            char a = line.p[i + k];
            char b = word.p[k];

            if ((a >= 'A' && a <= 'Z' ? a + 32 : a) != (b >= 'A' && b <= 'Z' ? b + 32 : b))
                break;
            k++;
        }
        if (k == word.len)
            return true;
    }
    return false;
}

/* A row is one line, whatever a message or an annotation has in it. */
static void cells_join(struct draft *draft)
{
    for (size_t i = 0; i < draft->table.cells.count; i++) {
        struct str *cell = &draft->table.cells.items[i];

        if (str_find(*cell, '\n') == cell->len)
            continue;
        char *text = str_c(draft->arena, *cell);
        for (size_t k = 0; k < cell->len; k++)
            text[k] = text[k] == '\n' ? ' ' : text[k];
        cell->p = text;
    }
}

void top_rows(struct arena *arena,
              const struct top_objects *objects,
              const struct top_state *state,
              struct top_rows *ret)
{
    _cleanup_(buf_done) struct buf text = {0};
    struct draft draft = {.arena = arena};
    struct str line;

    switch (state->pane) {
    case TOP_JOBS: jobs_draft(&draft, objects); break;
    case TOP_QUEUES: queues_draft(&draft, objects); break;
    case TOP_GPUS:
    case TOP_PANES: gpus_draft(&draft, objects); break;
    }
    *ret = (struct top_rows){.items = draft.rows.items};
    cells_join(&draft);
    table_write(&text, &draft.table, true);
    struct str rest = str_dup(arena, buf_str(&text));
    (void)str_cut(&rest, '\n', &ret->head);
    for (size_t i = 0; i < draft.rows.count && str_cut(&rest, '\n', &line); i++) {
        if (state->filter_len && !line_matches(line, state))
            continue;
        struct top_row row = draft.rows.items[i];
        row.line = line;
        ret->items[ret->count++] = row;
    }
}

/* ---- keys ---- */

static void key_type(struct top_state *state, char key)
{
    if (key == '\r' || key == '\n') {
        state->typing = false;
        return;
    }
    state->chosen = 0;
    if (key == KEY_ESCAPE) {
        state->typing = false;
        state->filter_len = 0;
    } else if (key == KEY_BACKSPACE || key == '\b') {
        state->filter_len -= state->filter_len > 0;
    } else if (key >= 0x20 && state->filter_len < TOP_FILTER_MAX) {
        state->filter[state->filter_len++] = key;
    }
    state->filter[state->filter_len] = '\0';
}

/* CSI: ESC [, numbers, and a letter; or ESC O and a letter, as terminals in application mode send. */
char top_key_cut(struct str *bytes)
{
    char key = bytes->p[0];
    size_t at = 2;

    if (key != KEY_ESCAPE || bytes->len < 3 || (bytes->p[1] != '[' && bytes->p[1] != 'O')) {
        *bytes = str_sub(*bytes, 1, bytes->len);
        return key;
    }
    while (bytes->p[1] == '[' && at + 1 < bytes->len && bytes->p[at] < '@')
        at++;
    key = bytes->p[at];
    *bytes = str_sub(*bytes, at + 1, bytes->len);
    return key == 'A' ? TOP_KEY_UP : key == 'B' ? TOP_KEY_DOWN : '\0';
}

static void key_choose(struct top_state *state, bool down, size_t rows)
{
    if (state->open)
        return;
    if (down && state->chosen + 1 < rows)
        state->chosen++;
    else if (!down && state->chosen > 0)
        state->chosen--;
}

static void key_pane(struct top_state *state, enum top_pane pane)
{
    state->pane = pane;
    state->chosen = 0;
    state->open = state->log = false;
}

bool top_key(struct top_state *state, char key, size_t rows)
{
    if (key == 3) /* Ctrl-C, whatever is open */
        return false;
    if (key == TOP_KEY_UP || key == TOP_KEY_DOWN) {
        key_choose(state, key == TOP_KEY_DOWN, rows);
        return true;
    }
    if (state->typing) {
        key_type(state, key);
        return true;
    }
    switch (key) {
    case 'q': return false;
    case KEY_ESCAPE:
        if (!state->open && !state->filter_len)
            return false;
        if (!state->open)
            state->filter_len = 0;
        state->open = state->log = false;
        break;
    case '/': state->typing = true; break;
    case '\t': key_pane(state, (enum top_pane)((state->pane + 1) % TOP_PANES)); break;
    case '1':
    case '2':
    case '3': key_pane(state, (enum top_pane)(key - '1')); break;
    case 'j': key_choose(state, true, rows); break;
    case 'k': key_choose(state, false, rows); break;
    case '\r':
    case '\n':
        state->open = rows > 0;
        state->log = false;
        break;
    case 'l': state->open = state->log = rows > 0 && state->pane == TOP_JOBS; break;
    default: break;
    }
    return true;
}

/* ---- the screen ---- */

/* What a pod prints or is called does not reach the terminal as a command. */
static void text_add(struct buf *out, struct str text, size_t width)
{
    size_t columns = 0;

    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.p[i];
        bool follows = (c & 0xc0) == 0x80; /* of a character that has begun */

        if (!follows && columns++ >= width)
            return;
        if (c == 0xc2 && i + 1 < text.len && (text.p[i + 1] & 0xe0) == 0x80) {
            buf_addc(out, '?'); /* one of U+0080 to U+009F: terminals take them for commands too */
            i++;
        } else if (c == '\t')
            buf_addc(out, ' ');
        else
            buf_addc(out, c < 0x20 || c == 0x7f ? '?' : (char)c);
    }
}

static void line_add(struct buf *out, struct str text, size_t width, bool reverse)
{
    if (reverse)
        buf_add(out, STR("\033[7m"));
    text_add(out, text, width);
    buf_add(out, reverse ? STR("\033[m\033[K\r\n") : STR("\033[K\r\n"));
}

static void panes_add(struct buf *out, const struct top_state *state, size_t count)
{
    static const char *const names[TOP_PANES] = {"1 Jobs", "2 Queues", "3 GPUs"};

    for (size_t i = 0; i < TOP_PANES; i++)
        buf_addf(out, "%s %s \033[m ", i == (size_t)state->pane ? "\033[7m" : "", names[i]);
    buf_addf(out, " %zu", count);
    if (state->typing || state->filter_len) {
        buf_add(out, STR("  /"));
        text_add(out, (struct str){state->filter, state->filter_len}, TOP_FILTER_MAX);
        buf_add(out, state->typing ? STR("_") : STR(""));
    }
    buf_add(out, STR("\033[K\r\n\033[K\r\n"));
}

void top_screen(struct buf *out,
                const struct top_state *state,
                const struct top_rows *rows,
                struct str detail,
                size_t height,
                size_t width)
{
    size_t room = height > HEAD_ROWS + 1 ? height - HEAD_ROWS - 1 : 1;
    size_t from = state->chosen >= room ? state->chosen - room + 1 : 0;
    struct str line;

    buf_add(out, STR("\033[H"));
    panes_add(out, state, rows->count);
    if (state->open) {
        for (size_t i = 0; i <= room && str_cut(&detail, '\n', &line); i++)
            line_add(out, line, width, false);
    } else {
        line_add(out, rows->head, width, false);
        for (size_t i = from; i < rows->count && i < from + room; i++)
            line_add(out, rows->items[i].line, width, i == state->chosen);
        if (!rows->count)
            line_add(out, state->filter_len ? STR("Nothing matches.") : STR("There is nothing."),
                     width, false);
    }
    buf_add(out, STR("\033[J\033[7m"));
    text_add(out,
             state->open ? STR(" Esc goes back  l log  q quits ")
                         : STR(" Tab panes  / filters  Enter opens  l log  q quits "),
             width);
    buf_add(out, STR("\033[m"));
}

/* ---- a row ---- */

struct view_objects top_pods(struct arena *arena,
                             const struct top_objects *objects,
                             const struct top_row *row)
{
    VEC(const struct object *) found = {0};

    for (size_t i = 0; i < objects->pods.count; i++) {
        const struct object *pod = objects->pods.items[i];
        const struct object_owner *owner = object_controller(pod);

        if (!str_eq(pod->ns, row->ns))
            continue;
        if ((owner && row->uid.len && str_eq(owner->uid, row->uid)) ||
            (row->group.len && str_eq(pod->group, row->group)))
            VEC_PUSH(arena, &found, pod);
    }
    return (struct view_objects){found.items, found.count};
}

static struct view_objects pods_on(struct arena *arena,
                                   const struct top_objects *objects,
                                   struct str node)
{
    VEC(const struct object *) found = {0};

    for (size_t i = 0; i < objects->pods.count; i++)
        if (str_eq(json_str_at(object_json(objects->pods.items[i], arena), "spec.nodeName"), node))
            VEC_PUSH(arena, &found, objects->pods.items[i]);
    return (struct view_objects){found.items, found.count};
}

void top_open(struct buf *out,
              struct arena *arena,
              const struct top_objects *objects,
              const struct top_state *state,
              const struct top_row *row)
{
    struct draft draft = {.arena = arena};

    if (state->pane == TOP_JOBS) {
        view_line(out, "Job:",
                  str_printf(arena, STR_FMT "/" STR_FMT, STR_ARG(row->ns), STR_ARG(row->name)));
        for (size_t i = 0; i < objects->groups.count; i++) {
            const struct object *group = objects->groups.items[i];
            const struct json *tree = object_json(group, arena);

            if (!str_eq(group->ns, row->ns) || !str_eq(group->name, row->group))
                continue;
            view_line(out, "Queue:", json_str_at(tree, "spec.queue"));
            view_line(out, "Waits for:", json_str_at(tree, "status.message"));
            view_line(out, "Would help:", json_str_at(tree, "status.explanation.change"));
            view_line(out, "Starts:", estimate_words(&draft, tree, objects->now_ms));
        }
        view_pods(out, arena, top_pods(arena, objects, row), 0);
    } else if (state->pane == TOP_QUEUES) {
        view_line(out, "Queue:", row->name);
        buf_add(out, STR("\n"));
        struct top_state jobs = {.pane = TOP_JOBS};
        struct top_rows rows;

        top_rows(arena, objects, &jobs, &rows);
        buf_addf(out, STR_FMT "\n", STR_ARG(rows.head));
        for (size_t i = 0; i < rows.count; i++)
            if (str_eq(rows.items[i].queue, row->name))
                buf_addf(out, STR_FMT "\n", STR_ARG(rows.items[i].line));
    } else {
        view_line(out, "Node:", row->name);
        view_pods(out, arena, pods_on(arena, objects, row->name), 0);
    }
}
