#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "plugin/home.h"
#include "plugin/home_plan.h"
#include "plugin/home_record.h"
#include "plugin/results.h"
#include "test.h"
#include "workspace/disk.h"
#include "workspace/frame.h"
#include "workspace/hash.h"
#include "workspace/results.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TEST(a_file_that_changed_at_home_is_never_replaced)
{
    static const struct {
        const char *why;
        struct home_place place;
        enum home_verdict verdict;
    } rows[] = {
        {"nothing is there", {.there = false}, HOME_NEW},
        {"not sent, and as it was when the job was submitted",
         {.there = true, .is_file = true, .changed_ns = 999},
         HOME_REPLACE},
        {"changed in the same moment",
         {.there = true, .is_file = true, .changed_ns = 1000},
         HOME_ASIDE},
        {"changed since", {.there = true, .is_file = true, .changed_ns = 1001}, HOME_ASIDE},
        {"as old, in a folder that was moved there since",
         {.there = true, .is_file = true, .changed_ns = 1, .folders_ns = 1000},
         HOME_ASIDE},
        {"as old, in a folder as old",
         {.there = true, .is_file = true, .changed_ns = 1, .folders_ns = 999},
         HOME_REPLACE},
        {"sent, as old, and not what was sent: moved there",
         {.there = true, .is_file = true, .changed_ns = 1, .sent = HOME_NOT_AS_SENT},
         HOME_ASIDE},
        {"what was sent, touched since",
         {.there = true, .is_file = true, .changed_ns = 2000, .sent = HOME_AS_SENT},
         HOME_REPLACE},
        {"it came home before, whatever else did not",
         {.there = true, .is_file = true, .changed_ns = 2000, .brought = true},
         HOME_REPLACE},
        {"a folder or a link, however old", {.there = true, .changed_ns = 1}, HOME_ASIDE},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        EXPECT(home_judge(&rows[i].place, 1000) == rows[i].verdict);
    }
}

/* A folder, what its job has of it, and a person at work in it. */
#define MODEL_PATHS 6
#define MODEL_JOB   "job"
#define MODEL_QUICK 20  /* sequences; MUSTER_MODEL_SEQUENCES says another number */
#define MODEL_KILL  400 /* steps into and out of the kernel: a pull of six files takes as many */
struct model {
    char home[64];
    struct arena arena;
    struct home_record record;
    struct {
        char mine[16];    /* what the person has there; empty: nothing */
        char sent[16];    /* of it, what was shipped; empty: nothing */
        char written[16]; /* by the job, last; empty: nothing */
    } files[MODEL_PATHS];
    unsigned next;
    unsigned seed;
    char block[16]; /* what the person has in place of the folder d; empty: nothing */
    bool moved;
    bool named; /* the volume has no files without a name */
};
static const char *const model_paths[MODEL_PATHS] = {"a", "b", "d/x", "d/y", "e/f/w", "e/z"};

static unsigned model_random(struct model *m, unsigned below)
{
    m->seed = m->seed * 1103515245u + 12345u;
    return (m->seed >> 16) % below;
}

static void model_write(const struct model *m, const char *path, const char *text)
{
    char whole[256];

    (void)snprintf(whole, sizeof(whole), "%s/%s", m->home, path);
    for (char *slash = whole + strlen(m->home) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        (void)mkdir(whole, 0755);
        *slash = '/';
    }
    _cleanup_(disk_closep) int fd = open(whole, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    EXPECT(fd >= 0 && disk_write(fd, str_from(text)) == 0);
}

/* Whether the text is the content of some file below. */
static bool model_has(const char *folder, const char *text)
{
    DIR *dir = opendir(folder);
    bool found = false;

    for (struct dirent *e; dir && !found && (e = readdir(dir));) {
        char path[512];
        char bytes[32] = "";

        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%.200s", folder, e->d_name);
        _cleanup_(disk_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
        found = fd >= 0 && read(fd, bytes, sizeof(bytes) - 1) > 0 ? strcmp(bytes, text) == 0
                                                                  : model_has(path, text);
    }
    if (dir)
        closedir(dir);
    return found;
}

static void model_name(struct model *m, const char *who, char out[16])
{
    (void)snprintf(out, 16, "%s%u", who, m->next++);
}

/* The person writes, removes, or moves a folder of older files in. */
static void model_edit(struct model *m)
{
    size_t i = model_random(m, MODEL_PATHS);
    char whole[256];
    char other[256];

    (void)snprintf(whole, sizeof(whole), "%s/d", m->home);
    (void)snprintf(other, sizeof(other), "%s/old-%u", m->home, m->next++);
    switch (model_random(m, 5)) {
    case 0:
        (void)snprintf(whole, sizeof(whole), "%s/%s", m->home, model_paths[i]);
        (void)unlink(whole);
        m->files[i].mine[0] = '\0';
        break;
    case 1: /* d is put aside, and another one takes its place, with times of long ago */
        (void)rename(whole, other);
        (void)snprintf(other, sizeof(other), "%s-moved", m->home);
        EXPECT(rename(other, whole) == 0);
        (void)snprintf(m->files[2].mine, 16, "%s", m->moved ? "" : "moved-x");
        (void)snprintf(m->files[3].mine, 16, "%s", m->moved ? "" : "moved-y");
        m->moved = true;
        EXPECT(mkdir(other, 0755) == 0); /* empty, the next time */
        break;
    case 2: /* d is put aside, and a file or a link takes its place */
        (void)rename(whole, other);
        m->files[2].mine[0] = m->files[3].mine[0] = '\0';
        if (model_random(m, 2)) {
            EXPECT(symlink(strrchr(other, '/') + 1, whole) == 0);
            break;
        }
        model_name(m, "block", m->block);
        model_write(m, "d", m->block);
        break;
    default:
        if (unlink(whole) == 0) /* for what stands there otherwise */
            m->block[0] = '\0';
        model_name(m, "user", m->files[i].mine);
        model_write(m, model_paths[i], m->files[i].mine);
    }
}

/* Each file of the job's is at home, or is named as one that could not come. */
static void model_check_pull(const struct model *m, const struct home_plan *plan)
{
    size_t missing = 0;

    for (size_t i = 0; i < plan->list.files.count; i++) {
        struct str path = plan->list.files.items[i].path;
        bool named = false;
        size_t at = 0;

        while (!str_is(path, model_paths[at]))
            at++;
        if (plan->items[i].came || plan->items[i].verdict == HOME_SAME) {
            EXPECT(model_has(m->home, m->files[at].written));
            continue;
        }
        missing++;
        for (size_t f = 0; f < plan->failed_count && f < HOME_FAILED_MAX; f++)
            named = named || str_contains(plan->failed[f], path);
        EXPECT(named || missing > HOME_FAILED_MAX);
    }
    EXPECT(missing == plan->failed_count);
}

/* What the job wrote comes home; in between, now and then, somebody edits: then something may be in the way. */
static void model_pull(struct model *m, bool edits)
{
    struct home_plan plan = {.arena = &m->arena, .job = MODEL_JOB, .record = &m->record};
    struct results_sink sink;
    struct err err = {0};

    for (size_t i = 0; i < MODEL_PATHS; i++) {
        const char *sent = m->files[i].sent;

        if (m->files[i].written[0])
            VEC_PUSH(&m->arena, &plan.list.files,
                     (struct result_file){.path = str_from(model_paths[i]),
                                          .size = strlen(m->files[i].written),
                                          .shipped = sent[0] ? hash_of(str_from(sent))
                                                             : (struct hash){0}});
    }
    EXPECT(home_plan_make(&plan, m->home, &err) == 0);
    if (edits)
        model_edit(m);
    EXPECT(results_sink_open(&sink, m->home, false, &err) == 0);
    sink.named = m->named;
    home_plan_sink(&plan, &sink);
    for (size_t i = 0; i < plan.list.files.count; i++) {
        struct result_file *file = &plan.list.files.items[i];
        size_t at = 0;
        struct frame_blob blob = {.size = file->size};

        while (!str_is(file->path, model_paths[at]))
            at++;
        blob.bytes = str_from(m->files[at].written);
        EXPECT(home_plan_wants(&plan, file->path, &blob.path));
        EXPECT(results_put(&sink, &blob, &err) == 0);
    }
    results_sink_done(&sink);
    home_record_sort(&m->record);
    EXPECT(edits || !plan.failed_count);
    model_check_pull(m, &plan);
}

static void model_pull_alone(void *user)
{
    model_pull(user, false);
}

/* Something has a name that only a copy under way gives. */
static bool model_is_left(const char *folder)
{
    DIR *dir = opendir(folder);
    bool left = false;

    for (struct dirent *e; dir && !left && (e = readdir(dir));) {
        char path[512];

        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%.200s", folder, e->d_name);
        left = strncmp(e->d_name, ".muster-pull-", 13) == 0 || model_is_left(path);
    }
    if (dir)
        closedir(dir);
    return left;
}

/* Nothing that the person has there is lost. */
static void model_check(const struct model *m)
{
    if (m->block[0])
        EXPECT(model_has(m->home, m->block));
    for (size_t i = 0; i < MODEL_PATHS; i++) {
        const char *mine = m->files[i].mine;

        if (mine[0])
            EXPECT(model_has(m->home, mine));
    }
}

TEST(nothing_of_the_persons_or_the_jobs_is_lost_by_edits_moves_and_pulls)
{
    const char *begin = getenv("MUSTER_MODEL_SEED");
    const char *many = getenv("MUSTER_MODEL_SEQUENCES");
    uint64_t first = 1;
    uint64_t sequences = MODEL_QUICK;

    EXPECT(!begin || str_to_u64(str_from(begin), &first));
    EXPECT(!many || str_to_u64(str_from(many), &sequences));
    for (unsigned seed = (unsigned)first; seed < first + sequences; seed++) {
        struct model m = {.home = "/tmp/muster-model-XXXXXX", .seed = seed, .named = seed % 4 == 0};
        char command[320];
        char words[32];

        (void)snprintf(words, sizeof(words), "seed %u", seed);
        test_case(words);
        EXPECT(mkdtemp(m.home) != NULL);
        (void)snprintf(command, sizeof(command),
                       "mkdir %s-moved && printf moved-x >%s-moved/x && printf moved-y >%s-moved/y",
                       m.home, m.home, m.home);
        EXPECT(system(command) == 0);
        for (size_t i = 0; i < MODEL_PATHS; i++)
            if (model_random(&m, 3)) {
                model_name(&m, "user", m.files[i].mine);
                model_write(&m, model_paths[i], m.files[i].mine);
                if (model_random(&m, 2))
                    memcpy(m.files[i].sent, m.files[i].mine, sizeof(m.files[i].sent));
            }
        m.record.since_ns = home_moment(m.home) + 1;
        for (int step = 0; step < 12; step++) {
            unsigned what = model_random(&m, 5);

            if (what == 0)
                model_edit(&m);
            else if (what < 3)
                model_name(&m, "job", m.files[model_random(&m, MODEL_PATHS)].written);
            else if (what == 3)
                model_pull(&m, model_random(&m, 2));
            else /* it is killed, at any moment, and nobody has noted what it brought */
                EXPECT(test_killed(model_pull_alone, &m, model_random(&m, MODEL_KILL)) >= 0);
            model_check(&m);
            EXPECT(m.named || !model_is_left(m.home));
        }
        (void)snprintf(command, sizeof(command), "rm -rf %s %s-moved", m.home, m.home);
        EXPECT(system(command) == 0);
        arena_done(&m.arena);
    }
}

/* What has no place here is named, and what comes after it comes. */
TEST(a_file_that_cannot_be_put_in_its_place_does_not_keep_others_from_theirs)
{
    static const char *const paths[] = {"d/x", "l/y", "n/", "z"};
    char home[] = "/tmp/muster-home-XXXXXX";
    char name[WS_NAME_MAX + 1];
    char command[512];
    _cleanup_(arena_done) struct arena arena = {0};
    struct home_record record = {.since_ns = 1};
    struct home_plan plan = {.arena = &arena, .job = "job", .record = &record};
    struct results_sink sink;
    struct err err = {0};

    EXPECT(mkdtemp(home) != NULL);
    (void)snprintf(name, sizeof(name), "%0*d", WS_NAME_MAX - 1,
                   0); /* and .job is too long for it */
    (void)snprintf(
        command, sizeof(command),
        "cd %s && mkdir n elsewhere && echo mine >d && ln -s elsewhere l && echo mine >n/%s", home,
        name);
    EXPECT(system(command) == 0);
    for (size_t i = 0; i < COUNT_OF(paths); i++)
        VEC_PUSH(&arena, &plan.list.files,
                 (struct result_file){
                     .path = str_printf(&arena, "%s%s", paths[i],
                                        str_ends(str_from(paths[i]), STR("/")) ? name : ""),
                     .size = 5});
    EXPECT(home_plan_make(&plan, home, &err) == 0);
    EXPECT(results_sink_open(&sink, home, false, &err) == 0);
    home_plan_sink(&plan, &sink);
    for (size_t i = 0; i < plan.list.files.count; i++)
        for (uint64_t at = 0; at < 5; at += 3) {
            struct frame_blob blob = {
                .size = 5, .offset = at, .bytes = str_sub(STR("job's"), at, 3)};

            EXPECT(home_plan_wants(&plan, plan.list.files.items[i].path, &blob.path));
            EXPECT(results_put(&sink, &blob, &err) == 0);
        }
    results_sink_done(&sink);
    EXPECT(sink.file_count == 3 && sink.cut_count == 0);
    EXPECT(plan.failed_count == 1 && str_contains(plan.failed[0], STR("'n/000")));
    EXPECT(plan.aside_count == 2 && str_is(plan.items[0].as, "d.job/x"));
    (void)snprintf(command, sizeof(command),
                   "cd %s && grep -q mine d && grep -q mine n/0* && ! ls -A elsewhere | grep . && "
                   "[ $(cat d.job/x l.job/y z) = \"job'sjob'sjob's\" ] && rm -r %s",
                   home, home);
    EXPECT(system(command) == 0);
}

TEST(what_was_replaced_is_kept_for_seven_days_each_file_from_when_it_was)
{
    char home[] = "/tmp/muster-home-XXXXXX";
    char command[512];
    int64_t now_s = home_moment("/tmp") / 1000000000;

    EXPECT(mkdtemp(home) != NULL);
    /* The folders of a job are older than what has come last. */
    (void)snprintf(
        command, sizeof(command),
        "cd %s && mkdir -p .muster/replaced/job/d && echo mine >.muster/replaced/job/d/x && "
        "touch -d '2 weeks ago' .muster/replaced/job/d/x .muster/replaced/job/d "
        ".muster/replaced/job",
        home);
    EXPECT(system(command) == 0);
    (void)snprintf(command, sizeof(command), "test -e %s/.muster/replaced/job/d/x", home);
    home_plan_forget(home, now_s + HOME_REPLACED_S - 60);
    EXPECT(system(command) == 0);
    home_plan_forget(home, now_s + HOME_REPLACED_S + 60);
    (void)snprintf(command, sizeof(command), "rmdir %s/.muster/replaced %s/.muster %s", home, home,
                   home);
    EXPECT(system(command) == 0);
}

TEST(the_moment_is_that_of_the_folders_own_file_system)
{
    char folder[] = "/tmp/muster-home-XXXXXX";
    struct stat st;

    EXPECT(mkdtemp(folder) != NULL);
    EXPECT(stat(folder, &st) == 0);
    EXPECT(home_moment(folder) >= (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec);
    EXPECT(home_moment("/nowhere") > 0);
    (void)rmdir(folder);
}

TEST(one_copy_at_a_time_comes_into_a_folder)
{
    char folder[] = "/tmp/muster-home-XXXXXX";

    EXPECT(mkdtemp(folder) != NULL);
    int first = home_lock(folder, false);
    EXPECT(first >= 0 && home_lock(folder, false) == -EWOULDBLOCK);
    EXPECT(close(first) == 0);
    int second = home_lock(folder, true);
    EXPECT(second >= 0 && close(second) == 0);
    EXPECT(rmdir(folder) == 0 && home_lock(folder, false) == -ENOENT);
}

TEST(folders_outside_that_a_command_names_are_found)
{
    static const struct {
        const char *command;
        const char *first;
        const char *second;
    } rows[] = {
        {"python train.py --out /data/run", "/data/run", ""},
        {"python train.py --out=/data/run --log '/var/log/x'", "/data/run", "/var/log/x"},
        {"python /home/me/project/train.py > /tmp/log", "/tmp/log", ""},
        {"python /home/me/project-2/train.py", "/home/me/project-2/train.py", ""},
        {"python train.py data/x http://example.com/x", "", ""},
        {"", "", ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        size_t at = 0;

        test_case(rows[i].command);
        EXPECT(str_is(home_outside(str_from(rows[i].command), "/home/me/project", &at),
                      rows[i].first));
        EXPECT(str_is(home_outside(str_from(rows[i].command), "/home/me/project", &at),
                      rows[i].second));
    }
}

TEST(what_comes_home_has_a_limit_and_a_warning_before_it)
{
    EXPECT(home_weigh(0, 100) == HOME_FITS && home_weigh(80, 100) == HOME_FITS);
    EXPECT(home_weigh(81, 100) == HOME_NEARLY && home_weigh(100, 100) == HOME_NEARLY);
    EXPECT(home_weigh(101, 100) == HOME_TOO_MUCH);
    EXPECT(home_weigh(HOME_BYTES_MAX, 0) == HOME_NEARLY);
    EXPECT(home_weigh(HOME_BYTES_MAX + 1, 0) == HOME_TOO_MUCH);
    EXPECT(home_weigh(UINT64_MAX, INT64_MAX) == HOME_TOO_MUCH);
}

/* Who may write a job may write its annotations: they must not choose where files go. */
TEST(home_records_are_for_the_job_they_were_made_for)
{
    _cleanup_(arena_done) struct arena arena = {0};
    char state[] = "/tmp/muster-homes-XXXXXX";
    char command[160];
    char id[HOME_ID_BYTES + 1];
    char other[HOME_ID_BYTES + 1];
    struct home_record record = {.ns = STR("ns"),
                                 .job = STR("job"),
                                 .folder = STR("/home/me/train"),
                                 .since_ns = 5,
                                 .bytes_max = 7,
                                 .server = STR("https://here")};
    struct results_id came = {1, 2, 3, 4};
    struct home_record found = {0};
    struct err err = {0};

    EXPECT(mkdtemp(state) && setenv("XDG_STATE_HOME", state, 1) == 0);
    EXPECT(home_record_name(id, &err) == 0 && strlen(id) == HOME_ID_BYTES);
    home_record_add(&arena, &record, STR("out/model"), &came);
    EXPECT(home_record_write(&arena, id, &record, &err) == 0);
    EXPECT(home_record_find(&arena, &record, other, &err) == 0 && strcmp(id, other) == 0);
    EXPECT(home_record_find(&arena, &(struct home_record){.ns = STR("ns"), .job = STR("no")}, other,
                            &err) == -ENOENT);
    EXPECT(home_record_read(&arena, str_from(id), STR("ns"), STR("job"), &found, &err) == 0);
    EXPECT(str_is(found.folder, "/home/me/train") && found.since_ns == 5 && found.bytes_max == 7);
    EXPECT(results_id_eq(home_record_file(&found, STR("out/model")), &came));
    EXPECT(!home_record_file(&found, STR("out")));
    /* Names are bytes, and a job may run for months. */
    record.folder = STR("/home/me/caf\xe9");
    home_record_add(&arena, &record, STR("mod\xe8le\n\"%"), &came);
    EXPECT(home_record_write(&arena, id, &record, &err) == 0);
    EXPECT(home_record_read(&arena, str_from(id), STR("ns"), STR("job"), &found, &err) == 0);
    EXPECT(str_is(found.folder, "/home/me/caf\xe9"));
    EXPECT(results_id_eq(home_record_file(&found, STR("mod\xe8le\n\"%")), &came));
    EXPECT(results_id_eq(home_record_file(&found, STR("out/model")), &came));
    (void)snprintf(command, sizeof(command), "touch -d '100 days ago' %s/muster/homes/%s", state,
                   id);
    EXPECT(system(command) == 0 && home_record_name(other, &err) == 0);
    EXPECT(home_record_write(&arena, other, &(struct home_record){.job = STR("x")}, &err) == 0);
    EXPECT(home_record_read(&arena, str_from(id), STR("ns"), STR("job"), &found, &err) == 0);
    (void)snprintf(command, sizeof(command), "rm %s/muster/homes/%s", state, other);
    EXPECT(system(command) == 0);
    EXPECT(home_record_read(&arena, str_from(id), STR("ns"), STR("other"), &found, &err) ==
           -ENOENT);
    EXPECT(home_record_read(&arena, str_from(id), STR("theirs"), STR("job"), &found, &err) ==
           -ENOENT);
    EXPECT(home_record_read(&arena, STR_NONE, STR("ns"), STR("job"), &found, &err) == -ENOENT);
    EXPECT(home_record_read(&arena, STR("../../../../../../../../etc/passw"), STR("ns"), STR("job"),
                            &found, &err) == -ENOENT);
    EXPECT(strstr(err.text, "you did not submit job job") != NULL);
    home_record_remove_of(&arena, "https://other");
    EXPECT(home_record_read(&arena, str_from(id), STR("ns"), STR("job"), &found, &err) == 0);
    EXPECT(str_is(found.server, "https://here"));
    home_record_remove_of(&arena, "https://here");
    (void)snprintf(command, sizeof(command), "rmdir %s", state); /* nothing is left in it */
    EXPECT(unsetenv("XDG_STATE_HOME") == 0 && system(command) == 0);
}
