#include "base/count.h"
#include "shim/hidden.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void make_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    EXPECT(fd >= 0);
    close(fd);
}

/* The thing that `path` is or lies in; NULL: none. */
static const char *found(const struct hidden *hidden, const char *path)
{
    const struct hidden_thing *thing = NULL;
    int fd = open(path, O_PATH | O_CLOEXEC);
    EXPECT(fd >= 0);
    EXPECT(hidden_find(hidden, fd, &thing) == 0);
    close(fd);
    return thing ? thing->path : NULL;
}

static int take_place(void *user, const char *path)
{
    (void)snprintf(user, PATH_MAX, "%s", path);
    return -ECANCELED;
}

TEST(hidden_things_are_known_by_place_not_by_name)
{
    char top[] = "/tmp/muster hidden XXXXXX", place[PATH_MAX] = "";
    int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    EXPECT(mkdtemp(top) && chdir(top) == 0);
    EXPECT(mkdir("data", 0700) == 0 && mkdir("data/pods", 0700) == 0);
    EXPECT(mkdir("data-2", 0700) == 0 && symlink("data/pods", "link") == 0);
    make_file("data/token");
    make_file("config");
    EXPECT(link("config", "other") == 0);
    struct hidden hidden = {0};
    EXPECT(hidden_add(&hidden, "data") == 0 && hidden_add(&hidden, "config") == 0);
    EXPECT(hidden_add(&hidden, "missing") == 0 && hidden.count == 2);
    static const struct {
        const char *path;
        const char *thing;
        const char *why;
    } rows[] = {
        {"data", "data", "itself"},
        {"data/token", "data", "a file in it"},
        {"link", "data", "a link into it"},
        {"data-2/../data/pods", "data", "a way round"},
        {"config", "config", "a file"},
        {"other", "config", "a second name of the file"},
        {"data-2", NULL, "a name that begins alike"},
        {".", NULL, "the folder above"},
        {"/", NULL, "the root"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *thing = found(&hidden, rows[i].path);
        test_case(rows[i].why);
        EXPECT(rows[i].thing ? thing && strcmp(thing, rows[i].thing) == 0 : !thing);
    }
    /* Seen from the root, in the mount that it is on. */
    EXPECT(hidden_places(&hidden, "/", take_place, place) == -ECANCELED);
    EXPECT(strncmp(place, top, strlen(top)) == 0 && place[strlen(top)] == '/');
    EXPECT(hidden_places(&hidden, "/nowhere", take_place, place) == 0);
    hidden_done(&hidden);
    EXPECT(unlink("data/token") == 0 && unlink("config") == 0 && unlink("other") == 0);
    EXPECT(unlink("link") == 0 && rmdir("data/pods") == 0 && rmdir("data") == 0);
    EXPECT(rmdir("data-2") == 0 && fchdir(here) == 0 && rmdir(top) == 0);
    close(here);
}

TEST(blanks_in_mountinfo_are_undone)
{
    char text[] = "/a\\040b\\011c\\134d\\0";
    mountinfo_unescape(text);
    EXPECT(strcmp(text, "/a b\tc\\d\\0") == 0);
}
