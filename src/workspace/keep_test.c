#include "base/err.h"
#include "base/str.h"
#include "test.h"
#include "workspace/disk.h"
#include "workspace/keep.h"
#include "workspace/manifest.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool holds(int root, const char *name, const char *text)
{
    char path[64];
    char have[64] = "";
    int fd;

    (void)snprintf(path, sizeof(path), WS_PRIVATE_DIR "/logs/%s", name);
    fd = openat(root, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return text == NULL;
    ssize_t got = read(fd, have, sizeof(have) - 1);
    close(fd);
    return text && got == (ssize_t)strlen(text) && strcmp(have, text) == 0;
}

TEST(keep_says_where_a_log_was_cut)
{
    char folder[] = "/tmp/muster-keep-XXXXXX";
    char last[sizeof(KEEP_CUT_TEXT)] = "";
    size_t size = (size_t)KEEP_FILE_MAX - 2;
    char *much = malloc(size);
    struct stat st = {0};
    int root;
    int fd;

    EXPECT(mkdtemp(folder) != NULL);
    root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    memset(much, 'x', size);
    EXPECT(keep_add(root, 0, 0, 0, (struct str){much, size}, NULL) == 0);
    EXPECT(keep_add(root, 0, 0, size, STR("ab"), NULL) == 0); /* that is all there is room for */
    fd = openat(root, WS_PRIVATE_DIR "/logs/0-0", O_RDONLY | O_CLOEXEC);
    EXPECT(fstat(fd, &st) == 0 && st.st_size == (off_t)KEEP_FILE_MAX);
    for (int i = 0; i < 2; i++) /* said once */
        EXPECT(keep_add(root, 0, 0, KEEP_FILE_MAX, STR("more\n"), NULL) == 0);
    EXPECT(fstat(fd, &st) == 0 && st.st_size == (off_t)(KEEP_FILE_MAX + strlen(KEEP_CUT_TEXT)));
    EXPECT(pread(fd, last, sizeof(last) - 1, (off_t)KEEP_FILE_MAX) == (ssize_t)sizeof(last) - 1);
    EXPECT(strcmp(last, KEEP_CUT_TEXT) == 0);
    close(fd);
    close(root);
    free(much);
    (void)disk_remove_path(folder);
}

TEST(keep_takes_pieces_once_and_drops_old_generations)
{
    char folder[] = "/tmp/muster-keep-XXXXXX";
    int root;

    EXPECT(mkdtemp(folder) != NULL);
    root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    EXPECT(keep_add(root, 0, 3, 0, STR("one\n"), NULL) == 0);
    EXPECT(keep_add(root, 0, 3, 4, STR("two\n"), NULL) == 0);
    EXPECT(keep_add(root, 0, 3, 4, STR("two\n"), NULL) == 0);        /* sent again */
    EXPECT(keep_add(root, 0, 3, 4, STR("two\nthree\n"), NULL) == 0); /* and with more */
    EXPECT(holds(root, "0-3", "one\ntwo\nthree\n"));
    EXPECT(keep_add(root, KEEP_GENERATIONS_MAX - 1, 0, 0, STR("x"), NULL) == 0);
    EXPECT(holds(root, "0-3", "one\ntwo\nthree\n"));
    EXPECT(keep_add(root, KEEP_GENERATIONS_MAX, 0, 0, STR("y"), NULL) == 0);
    EXPECT(holds(root, "0-3", NULL) && holds(root, "15-0", "x") && holds(root, "16-0", "y"));
    close(root);
    (void)disk_remove_path(folder);
}
