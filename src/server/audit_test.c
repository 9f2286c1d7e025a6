#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "server/audit.h"
#include "test.h"
#include "tool/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct str content(struct arena *arena, const char *folder, const char *name)
{
    struct str text = STR("");
    struct str path = str_printf(arena, "%s/%s", folder, name);

    return file_read(arena, path.p, &text, NULL) == 0 ? text : STR("none");
}

TEST(audit_log_is_rotated_and_bounded)
{
    _cleanup_(arena_done) struct arena arena = {0};
    char folder[] = "/tmp/muster-audit-XXXXXX";
    struct audit *audit = NULL;
    struct err err = {0};
    struct stat stat_of = {0};

    EXPECT(mkdtemp(folder));
    const char *path = str_printf(&arena, "%s/log", folder).p;
    EXPECT(audit_open(path, 10, NULL, &audit, &err) == 0);
    for (int i = 0; i < 13; i++)
        audit_line(audit, str_printf(&arena, "%03d\n", i));
    audit_close(audit);
    EXPECT(stat(path, &stat_of) == 0 && (stat_of.st_mode & 0777) == 0600);
    EXPECT(str_is(content(&arena, folder, "log"), "012\n"));
    EXPECT(str_is(content(&arena, folder, "log.1"), "010\n011\n"));
    EXPECT(str_is(content(&arena, folder, "log.3"), "006\n007\n"));
    EXPECT(str_is(content(&arena, folder, "log.4"), "none"));
    /* What is there is gone on with. */
    EXPECT(audit_open(path, 10, NULL, &audit, &err) == 0);
    audit_line(audit, STR("013\n"));
    audit_close(audit);
    EXPECT(str_is(content(&arena, folder, "log"), "012\n013\n"));
    EXPECT(audit_open("/proc/none/log", 0, NULL, &audit, &err) < 0 && err.text[0]);
    for (int i = 0; i < AUDIT_FILES; i++)
        (void)unlink(i ? str_printf(&arena, "%s/log.%d", folder, i).p : path);
    (void)rmdir(folder);
}
