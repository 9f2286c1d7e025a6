#include "agent/homes.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "test.h"
#include "tool/clock.h"
#include "tool/files.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void home_make(const char *top, const char *path)
{
    char full[PATH_MAX];
    (void)snprintf(full, sizeof(full), "%s/%s", top, path);
    EXPECT(files_make_folder(full, 0700, NULL) == 0);
}

static bool home_says(const struct buf *records,
                      const char *what,
                      const char *top,
                      const char *path)
{
    char record[PATH_MAX];
    int n = snprintf(record, sizeof(record), "%s=%s/%s", what, top, path);
    return memmem(records->p, records->len, record, (size_t)n + 1) != NULL;
}

/* Is the path below the top masked? */
static bool home_hides(const struct buf *records, const char *top, const char *path)
{
    return home_says(records, "mask.exact", top, path);
}

/* Is it not there, and will not be seen when it comes? */
static bool home_lacks(const struct buf *records, const char *top, const char *path)
{
    return home_says(records, "absent", top, path);
}

TEST(homes_of_others_keep_their_keys)
{
    char top[] = "/tmp/muster-homes-XXXXXX", passwd[512];
    EXPECT(mkdtemp(top) != NULL);
    home_make(top, "alice/.kube");
    home_make(top, "alice/.ssh");
    home_make(top, "bob/.kube");
    home_make(top, "bob/.config/gcloud");
    home_make(top, "bob/data");
    (void)snprintf(passwd, sizeof(passwd),
                   "alice:x:1001:1001:Alice,,,:%s/alice:/bin/sh\n"
                   "broken line\n"
                   "daemon:x:1:1::/:/bin/false\n"
                   "bob:x:1002:1002::%s/bob:/bin/sh",
                   top, top);
    /* Bob would hide what is alice's from everybody else's pods. */
    char link[PATH_MAX], target[PATH_MAX];
    (void)snprintf(link, sizeof(link), "%s/bob/.aws", top);
    (void)snprintf(target, sizeof(target), "%s/alice", top);
    EXPECT(symlink(target, link) == 0);
    _cleanup_(buf_done) struct buf records = {0};
    struct homes homes = {0};
    homes_masks(&homes, str_from(passwd), 1001, 0, &records);
    EXPECT(home_hides(&records, top, "alice/.kube"));
    EXPECT(!home_hides(&records, top, "alice/.ssh"));
    EXPECT(home_hides(&records, top, "bob/.kube"));
    EXPECT(home_hides(&records, top, "bob/.config/gcloud"));
    EXPECT(!home_hides(&records, top, "bob/data"));
    EXPECT(!home_hides(&records, top, "bob/.ssh")); /* is not there */
    EXPECT(!home_hides(&records, top, "bob/.aws"));
    files_remove(top);
}

TEST(a_name_that_is_not_there_yet_is_not_seen_when_it_comes)
{
    char top[] = "/tmp/muster-homes-XXXXXX", passwd[512];
    EXPECT(mkdtemp(top) != NULL);
    home_make(top, "alice/.ssh");
    home_make(top, "bob/.config");
    home_make(top, "mail");
    (void)snprintf(passwd, sizeof(passwd),
                   "alice:x:1001:1001::%s/alice:/bin/sh\nbob:x:1002:1002::%s/bob:/bin/sh\n"
                   "carol:x:1003:1003::%s/none:/bin/sh\nmail:x:8:8::%s/mail:/bin/false\n",
                   top, top, top, top);
    _cleanup_(buf_done) struct buf records = {0};
    struct homes homes = {0};
    homes_masks(&homes, str_from(passwd), 1001, 0, &records);
    EXPECT(home_lacks(&records, top, "alice/.kube"));
    EXPECT(!home_lacks(&records, top, "alice/.aws")); /* her own pods' */
    EXPECT(home_lacks(&records, top, "bob/.kube") && home_lacks(&records, top, "bob/.netrc"));
    EXPECT(home_lacks(&records, top, "bob/.config/gcloud"));
    EXPECT(
        home_lacks(&records, top, "bob/.cache")); /* no part of .cache/huggingface/token is there */
    EXPECT(!home_lacks(&records, top, "none/.kube") && !home_lacks(&records, top, "mail/.kube"));
    files_remove(top);
}

TEST(a_key_that_comes_later_is_hidden_though_the_home_was_seen_before)
{
    char top[] = "/tmp/muster-homes-XXXXXX", passwd[512], path[PATH_MAX];
    struct stat st;
    EXPECT(mkdtemp(top) != NULL && stat(top, &st) == 0);
    struct homes homes = {.dev = st.st_dev};
    home_make(top, "alice/.config");
    (void)snprintf(passwd, sizeof(passwd), "alice:x:1001:1001::%s/alice:/bin/sh\n", top);
    (void)snprintf(path, sizeof(path), "%s/alice", top);
    int64_t later_ms = clock_now_ms() + 60000;
    for (int i = 0; i < 3; i++) {
        _cleanup_(buf_done) struct buf records = {0};
        homes_masks(&homes, str_from(passwd), 0, later_ms, &records);
        EXPECT(!home_hides(&records, top, "alice/.ssh") && homes.looked == 1 && homes.count == 1);
    }
    /* One word of it was there: below it nothing is known. */
    home_make(top, "alice/.config/gcloud");
    _cleanup_(buf_done) struct buf below = {0};
    homes_masks(&homes, str_from(passwd), 0, later_ms, &below);
    EXPECT(home_hides(&below, top, "alice/.config/gcloud") && homes.looked == 1);
    EXPECT(stat(path, &st) == 0);
    int64_t before_ns = (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec;
    home_make(top, "alice/.ssh");
    for (int64_t now_ns = before_ns; now_ns == before_ns;) { /* a clock has its steps */
        EXPECT(chmod(path, 0700) == 0 && stat(path, &st) == 0);
        now_ns = (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec;
    }
    _cleanup_(buf_done) struct buf after = {0};
    homes_masks(&homes, str_from(passwd), 0, later_ms, &after);
    EXPECT(home_hides(&after, top, "alice/.ssh") && homes.looked == 2);
    files_remove(top);
}

TEST(a_home_that_changed_just_now_or_is_elsewhere_is_looked_through_each_time)
{
    char top[] = "/tmp/muster-homes-XXXXXX", passwd[512];
    struct stat st;
    EXPECT(mkdtemp(top) != NULL && stat(top, &st) == 0);
    home_make(top, "alice");
    (void)snprintf(passwd, sizeof(passwd), "alice:x:1001:1001::%s/alice:/bin/sh\n", top);
    struct homes young = {.dev = st.st_dev}, elsewhere = {.dev = st.st_dev + 1};
    for (uint64_t i = 1; i < 3; i++) {
        _cleanup_(buf_done) struct buf records = {0};
        homes_masks(&young, str_from(passwd), 0, clock_now_ms(), &records);
        homes_masks(&elsewhere, str_from(passwd), 0, clock_now_ms() + 60000, &records);
        EXPECT(young.looked == i && elsewhere.looked == i);
    }
    files_remove(top);
}
