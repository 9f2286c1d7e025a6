#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/mem.h"
#include "test.h"
#include "workspace/watch.h"
#include "workspace/watch_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Both ways of watching have to tell the same. */
enum way {
    WAY_USUAL,
    WAY_POLL,
};

struct yard {
    enum way way;
    char root[32];
    int fd;
    struct watch watch;
};

static void yard_write(const struct yard *yard, const char *name, const char *text)
{
    int fd = openat(yard->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    EXPECT(fd >= 0);
    EXPECT(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    (void)close(fd);
}

static void yard_open(struct yard *yard, enum way way)
{
    struct err err;

    *yard = (struct yard){.way = way, .root = "/tmp/muster-watch-XXXXXX"};
    EXPECT(mkdtemp(yard->root) != NULL);
    yard->fd = open(yard->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    EXPECT(yard->fd >= 0);
    EXPECT(mkdirat(yard->fd, "src", 0700) == 0);
    EXPECT(mkdirat(yard->fd, ".git", 0700) == 0);
    yard_write(yard, "src/a", "one");
    yard_write(yard, "b", "two");
    if (way == WAY_POLL) {
        yard->watch = (struct watch){.fd = -1, .root = mem_alloc(sizeof(yard->root))};
        memcpy(yard->watch.root, yard->root, sizeof(yard->root));
        watch_poll_open(&yard->watch);
    } else
        EXPECT(watch_open(&yard->watch, yard->root, &err) == 0);
}

static void yard_done(struct yard *yard)
{
    static const char *const files[] = {"src/a", "src/new/c", "b", ".git/index", ".gitignore"};
    static const char *const folders[] = {"src/new", "src", ".git"};

    watch_done(&yard->watch);
    for (size_t i = 0; i < COUNT_OF(files); i++)
        (void)unlinkat(yard->fd, files[i], 0);
    for (size_t i = 0; i < COUNT_OF(folders); i++)
        (void)unlinkat(yard->fd, folders[i], AT_REMOVEDIR);
    (void)close(yard->fd);
    EXPECT(rmdir(yard->root) == 0);
}

/* What changed, one after another; "everything" when that is all that is known. */
static const char *yard_take(struct yard *yard, struct arena *arena)
{
    struct str *paths;
    bool everything;
    struct str text = STR("");

    if (yard->way == WAY_POLL)
        watch_poll_read(&yard->watch);
    else
        (void)watch_read(&yard->watch);
    size_t count = watch_take(&yard->watch, arena, &paths, &everything);
    if (everything)
        return "everything";
    for (size_t i = 0; i < count; i++)
        text =
            str_printf(arena, STR_FMT "%s" STR_FMT, STR_ARG(text), i ? " " : "", STR_ARG(paths[i]));
    return str_c(arena, text);
}

#define EXPECT_TOLD(words) EXPECT(strcmp(yard_take(&yard, &arena), words) == 0)

static void yard_play(enum way way)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(yard_done) struct yard yard;

    yard_open(&yard, way);
    EXPECT_TOLD("");
    yard_write(&yard, "src/a", "longer");
    EXPECT_TOLD("src/a");
    EXPECT_TOLD("");
    yard_write(&yard, ".git/index", "never told");
    EXPECT_TOLD("");
    EXPECT(unlinkat(yard.fd, "b", 0) == 0);
    EXPECT_TOLD("b");
    EXPECT(fchmodat(yard.fd, "src/a", 0700, 0) == 0);
    EXPECT_TOLD("src/a");
    EXPECT(mkdirat(yard.fd, "src/new", 0700) == 0);
    EXPECT_TOLD("src/new");
    yard_write(&yard, "src/new/c", "in a new folder");
    EXPECT_TOLD("src/new/c");
    yard_write(&yard, ".gitignore", "*.o");
    EXPECT_TOLD("everything");
}

TEST(a_watch_tells_what_was_written_removed_and_made)
{
    yard_play(WAY_USUAL);
}

TEST(a_watch_without_a_kernel_that_tells_finds_the_same)
{
    yard_play(WAY_POLL);
}
