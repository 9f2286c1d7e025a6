#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "test.h"
#include "tool/file.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TEST(file_is_replaced_whole_with_the_mode_asked_for)
{
    char folder[] = "/tmp/muster-file-XXXXXX";
    char path[64];
    struct arena arena = {0};
    struct str text = STR_NONE;
    struct stat status = {0};

    EXPECT(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/token", folder);
    EXPECT(file_replace(path, STR("one"), 0644, NULL) == 0);
    EXPECT(file_replace(path, STR("two\n"), 0600, NULL) == 0);
    EXPECT(file_read(&arena, path, &text, NULL) == 0 && str_is(text, "two\n"));
    EXPECT(stat(path, &status) == 0 && (status.st_mode & 0777) == 0600);

    struct err err = {0};
    EXPECT(unlink(path) == 0);
    EXPECT(file_read(&arena, path, &text, &err) == -ENOENT && strstr(err.text, path));
    EXPECT(rmdir(folder) == 0); /* nothing else was left in it */
    EXPECT(file_replace(path, STR("x"), 0600, &err) == -ENOENT && strstr(err.text, path));
    arena_done(&arena);
}
