#include "base/cleanup.h"
#include "base/str.h"
#include "test.h"
#include "workspace/manifest.h"
#include "workspace/sync_log.h"

#include <stdio.h>
#include <string.h>

static void take_line(void *user, const char *text)
{
    (void)snprintf(user, 400, "%s", text);
}

TEST(the_sync_log_says_who_sent_which_revision_and_when)
{
    char line[400] = "";
    struct sync_log log = {take_line, line};
    _cleanup_(manifest_unrefp) struct manifest *now = manifest_new();

    manifest_add(now,
                 &(struct ws_entry){.type = WS_FILE, .path = STR("a"), .size = 7, .mode = 0644});
    EXPECT(manifest_finish(now, NULL) == 0);
    sync_log_commit(&log, 0, now, "ada@laptop");
    EXPECT(strncmp(line, "1970-01-01T00:00:00Z revision ", 30) == 0);
    EXPECT(strstr(line, " from ada@laptop: 1 entry, 7 bytes"));
    sync_log_commit(&log, 0, now, "");
    EXPECT(!strstr(line, "from"));
    sync_log_commit(&log, 0, now, "a\nb\033[1m");
    EXPECT(strstr(line, "from a_b_[1m:"));
    sync_log_worker(&log, 0, 3, now->revision);
    EXPECT(strstr(line, "worker 3 has revision "));
}

TEST(a_sync_log_that_nobody_reads_is_no_error)
{
    sync_log_say(&(struct sync_log){0}, 0, "%s", "words");
}
