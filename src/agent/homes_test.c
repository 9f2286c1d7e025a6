#include "agent/homes.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "test.h"
#include "tool/files.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void home_make(const char *top, const char *path)
{
    char full[PATH_MAX];
    (void)snprintf(full, sizeof(full), "%s/%s", top, path);
    EXPECT(files_make_folder(full, 0700, NULL) == 0);
}

/* Is the path below the top masked? */
static bool home_hides(const struct buf *records, const char *top, const char *path)
{
    char record[PATH_MAX];
    int n = snprintf(record, sizeof(record), "mask.exact=%s/%s", top, path);
    return memmem(records->p, records->len, record, (size_t)n + 1) != NULL;
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
    homes_masks(str_from(passwd), 1001, &records);
    EXPECT(home_hides(&records, top, "alice/.kube"));
    EXPECT(!home_hides(&records, top, "alice/.ssh"));
    EXPECT(home_hides(&records, top, "bob/.kube"));
    EXPECT(home_hides(&records, top, "bob/.config/gcloud"));
    EXPECT(!home_hides(&records, top, "bob/data"));
    EXPECT(!home_hides(&records, top, "bob/.ssh")); /* is not there */
    EXPECT(!home_hides(&records, top, "bob/.aws"));
    files_remove(top);
}
