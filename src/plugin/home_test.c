#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "plugin/home.h"
#include "plugin/home_record.h"
#include "test.h"

#include <errno.h>
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
        {"as it was when the job was submitted",
         {.there = true, .is_file = true, .changed_ns = 999},
         HOME_REPLACE},
        {"changed in the same moment",
         {.there = true, .is_file = true, .changed_ns = 1000},
         HOME_KEEP},
        {"changed since", {.there = true, .is_file = true, .changed_ns = 1001}, HOME_KEEP},
        {"a folder or a link, however old", {.there = true, .changed_ns = 1}, HOME_KEEP},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        EXPECT(home_judge(&rows[i].place, 1000) == rows[i].verdict);
    }
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
    char command[96];
    char id[HOME_ID_BYTES + 1];
    struct home_record record = {STR("ns"), STR("job"), STR("/home/me/train"),
                                 5,         7,          STR("https://here")};
    struct home_record found = {0};
    struct err err = {0};

    EXPECT(mkdtemp(state) && setenv("XDG_STATE_HOME", state, 1) == 0);
    EXPECT(home_record_name(id, &err) == 0 && strlen(id) == HOME_ID_BYTES);
    EXPECT(home_record_write(&arena, id, &record, &err) == 0);
    EXPECT(home_record_read(&arena, str_from(id), STR("ns"), STR("job"), &found, &err) == 0);
    EXPECT(str_is(found.folder, "/home/me/train") && found.since_ns == 5 && found.bytes_max == 7);
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
