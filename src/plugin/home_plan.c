#include "plugin/home_plan.h"

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "plugin/home_record.h"
#include "system/errors.h"
#include "system/files.h"
#include "tool/clock.h"
#include "workspace/disk.h"
#include "workspace/hash.h"
#include "workspace/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum home_verdict home_judge(const struct home_place *place, int64_t since_ns)
{
    if (!place->there)
        return HOME_NEW;
    if (place->brought)
        return HOME_REPLACE;
    if (!place->is_file || place->sent == HOME_NOT_AS_SENT)
        return HOME_ASIDE;
    if (place->sent == HOME_AS_SENT)
        return HOME_REPLACE;
    return place->changed_ns < since_ns && place->folders_ns < since_ns ? HOME_REPLACE : HOME_ASIDE;
}

/* The newest change of the folders between the root and the file. */
static int64_t folders_changed(int root_fd, struct str path)
{
    int64_t newest = 0;

    for (struct str above = manifest_parent(path); above.len; above = manifest_parent(above)) {
        _cleanup_(disk_closep) int fd = results_folder(root_fd, above);
        struct stat st;

        if (fd >= 0 && fstat(fd, &st) == 0 && results_ns(file_changed(&st)) > newest)
            newest = results_ns(file_changed(&st));
    }
    return newest;
}

static bool content_is(int parent, const char *name, dev_t device, struct hash wanted)
{
    struct stat st;
    struct hash hash;
    int fd = file_open_regular(parent, name, device, &st);
    bool same = fd >= 0 && hash_fd(fd, &hash) >= 0 && hash_eq(hash, wanted);

    if (fd >= 0)
        close(fd);
    return same;
}

/* What is there, by all that decides; `shipped` zero: it was not sent. */
static struct home_place home_look(const struct home_plan *plan,
                                   int root_fd,
                                   struct str path,
                                   struct hash shipped,
                                   struct results_id *ret)
{
    struct disk_walk walk = DISK_WALK_NONE;
    char text[WS_PATH_MAX + 1];
    const char *name;
    struct stat st;
    struct home_place place = {0};

    *ret = (struct results_id){0};
    (void)snprintf(text, sizeof(text), STR_FMT, STR_ARG(path));
    int parent = disk_parent(&walk, root_fd, str_from(text), 0, &name, NULL);
    if (parent < 0 || fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        place.there = (parent < 0 ? -parent : errno) != ENOENT;
    } else {
        const struct results_id *came =
            home_record_file(plan->record, str_printf(plan->arena, STR_FMT STR_FMT,
                                                      STR_ARG(plan->below), STR_ARG(path)));

        *ret = results_id(&st);
        place = (struct home_place){.there = true,
                                    .is_file = S_ISREG(st.st_mode),
                                    .brought = came && results_id_eq(came, ret),
                                    .changed_ns = ret->changed_ns,
                                    .folders_ns = folders_changed(root_fd, path)};
        if (place.is_file && !place.brought && !hash_is_zero(shipped))
            place.sent =
                content_is(parent, name, st.st_dev, shipped) ? HOME_AS_SENT : HOME_NOT_AS_SENT;
    }
    disk_walk_done(&walk);
    return place;
}

static bool link_is(int root_fd, struct str path, struct str target)
{
    char text[WS_PATH_MAX + 1];
    char found[WS_PATH_MAX + 1];

    (void)snprintf(text, sizeof(text), STR_FMT, STR_ARG(path));
    ssize_t len = readlinkat(root_fd, text, found, sizeof(found));
    return len >= 0 && str_eq((struct str){found, (size_t)len}, target);
}

/* Beside it; or beside the folder of it that is none here, which the person, or the job, has made something else. */
static struct str home_aside(const struct home_plan *plan, int root_fd, struct str path)
{
    size_t end = path.len;

    for (size_t i = 0; i < path.len; i++) {
        int fd = path.p[i] == '/' ? results_folder(root_fd, str_sub(path, 0, i)) : -ENOENT;

        if (fd >= 0)
            close(fd);
        if (fd >= 0 || fd == -ENOENT)
            continue;
        end = i;
        break;
    }
    return str_printf(plan->arena, STR_FMT ".%s" STR_FMT, STR_ARG(str_sub(path, 0, end)), plan->job,
                      STR_ARG(str_sub(path, end, path.len)));
}

static void home_judge_one(struct home_plan *plan, int root_fd, size_t i)
{
    const struct result_file *file = &plan->list.files.items[i];
    struct home_item *item = &plan->items[i];
    struct home_place place = home_look(plan, root_fd, file->path, file->shipped, &item->old);

    item->as = file->path;
    item->own = place.brought;
    item->verdict = home_judge(&place, plan->record->since_ns);
    if (file->target.len && place.there && link_is(root_fd, file->path, file->target)) {
        item->verdict = HOME_SAME;
        plan->same_count++;
        return;
    }
    if (item->verdict == HOME_ASIDE) {
        item->as = home_aside(plan, root_fd, file->path);
        /* What came there before is replaced; anything else has a name that nobody expects. */
        place = home_look(plan, root_fd, item->as, (struct hash){0}, &item->old);
        item->own = place.brought;
        if (!place.brought)
            item->old = (struct results_id){0};
        plan->aside_count++;
    } else if (item->verdict == HOME_NEW) {
        item->old = (struct results_id){0};
    }
    plan->bytes += file->size;
}

int home_plan_make(struct home_plan *plan, const char *folder, struct err *err)
{
    _cleanup_(disk_closep) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return err_set(err, -errno, "the folder %s that job %s came from: %s", folder, plan->job,
                       errno_words(errno));
    plan->aside_count = plan->same_count = 0;
    plan->bytes = 0;
    plan->items = ARENA_ARRAY(plan->arena, struct home_item, plan->list.files.count + 1);
    for (size_t i = 0; i < plan->list.files.count; i++)
        home_judge_one(plan, fd, i);
    return 0;
}

/* Which of the contents that come are wanted, and where they go. */
bool home_plan_wants(void *user, struct str path, struct str *ret_as)
{
    struct home_plan *plan = user;
    size_t low = 0;
    size_t high = plan->list.files.count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = str_cmp(plan->list.files.items[middle].path, path);

        if (order == 0) {
            struct home_item *item = &plan->items[middle];
            struct str above = manifest_parent(path);

            plan->now = item;
            plan->sink->expect = item->old.inode ? &item->old : NULL;
            plan->sink->drop = item->own;
            plan->sink->twin = item->verdict == HOME_ASIDE && !item->own
                                   ? str_c(plan->arena, path) + above.len + (above.len ? 1 : 0)
                                   : NULL;
            *ret_as = item->as;
            return item->verdict != HOME_SAME;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false; /* written after the list was made */
}

static void home_placed(void *user, const char *path, const struct results_id *id)
{
    struct home_plan *plan = user;
    struct home_item *item = plan->now;

    item->came = true;
    if (!str_is(item->as, path)) { /* somebody was quicker: it is beside that */
        plan->aside_count += item->verdict != HOME_ASIDE;
        item->verdict = HOME_ASIDE;
        item->as = str_dup(plan->arena, str_from(path));
    }
    home_record_add(plan->arena, plan->record,
                    str_printf(plan->arena, STR_FMT "%s", STR_ARG(plan->below), path), id);
    if (plan->id && clock_monotonic_ms() - plan->noted_ms >= HOME_NOTE_MS) {
        _cleanup_(arena_done) struct arena arena = {0};

        (void)home_record_write(&arena, plan->id, plan->record, NULL);
        plan->noted_ms = clock_monotonic_ms();
    }
}

/* Both have written the same, or an earlier copy was killed before it could note what it brought. */
static void home_same(void *user)
{
    struct home_plan *plan = user;

    plan->now->verdict = HOME_SAME;
    plan->aside_count--;
    plan->same_count++;
}

static void home_failed(void *user, const struct err *err)
{
    struct home_plan *plan = user;

    plan->aside_count -= plan->now->verdict == HOME_ASIDE;
    plan->now->verdict = HOME_NEW;
    plan->now->failed = true;
    if (plan->failed_count < HOME_FAILED_MAX)
        plan->failed[plan->failed_count] = str_dup(plan->arena, str_from(err->text));
    plan->failed_count++;
}

/* Takes the descriptor. What came here, by the moment that no program can set back, before that; and folders that are
 * empty then. */
static void forget_below(int fd, int64_t before_s, int depth)
{
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct stat st;

    if (fd >= 0 && !dir)
        close(fd);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        bool folder = S_ISDIR(st.st_mode);
        if (folder && depth > 0)
            forget_below(openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                         before_s, depth - 1);
        if (folder || (int64_t)file_changed(&st).tv_sec < before_s)
            (void)unlinkat(fd, entry->d_name, folder ? AT_REMOVEDIR : 0);
    }
    if (dir)
        closedir(dir);
}

/* Each file in RESULTS_REPLACED for HOME_REPLACED_S. */
void home_plan_forget(const char *folder, int64_t now_s)
{
    const char *below = RESULTS_REPLACED;
    _cleanup_(disk_closep) int root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    forget_below(root < 0 ? -1 : results_folder(root, str_from(below)), now_s - HOME_REPLACED_S,
                 RESULTS_DEPTH_MAX);
}

void home_plan_sink(struct home_plan *plan, struct results_sink *sink)
{
    plan->sink = sink;
    sink->aside = str_printf(plan->arena, ".%s", plan->job).p;
    sink->placed = home_placed;
    sink->same = home_same;
    sink->failed = home_failed;
    sink->placed_user = plan;
}
