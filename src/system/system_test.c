#include "base/cleanup.h"
#include "base/count.h"
#include "system/errors.h"
#include "system/files.h"
#include "system/process.h"
#include "system/random.h"
#include "system/sockets.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

TEST(words_for_an_errno_are_the_usual_ones_and_leave_it_alone)
{
    errno = EAGAIN;
    EXPECT(strcmp(errno_words(ENOENT), "No such file or directory") == 0);
    EXPECT(strcmp(errno_words(EACCES), "Permission denied") == 0);
    EXPECT(errno == EAGAIN);
}

TEST(random_bytes_fill_what_they_are_given_and_no_more)
{
    unsigned char bytes[RANDOM_BYTES_MAX + 1] = {0};
    size_t set = 0;

    EXPECT(random_bytes(bytes, RANDOM_BYTES_MAX));
    for (size_t i = 0; i < RANDOM_BYTES_MAX; i++)
        set += bytes[i] != 0;
    EXPECT(set > RANDOM_BYTES_MAX / 2);
    EXPECT(bytes[RANDOM_BYTES_MAX] == 0);
}

struct place {
    char folder[32];
    int fd;
};

static void place_write(const struct place *place, const char *name, const char *text)
{
    int fd = openat(place->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    EXPECT(fd >= 0);
    EXPECT(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    (void)close(fd);
}

static struct place place_open(void)
{
    struct place place = {.folder = "/tmp/muster-system-XXXXXX"};

    EXPECT(mkdtemp(place.folder) != NULL);
    place.fd = open(place.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    EXPECT(place.fd >= 0);
    return place;
}

static void place_done(struct place *place)
{
    static const char *const names[] = {"file", "other", "link", "pipe"};

    for (size_t i = 0; i < COUNT_OF(names); i++)
        (void)unlinkat(place->fd, names[i], 0);
    (void)close(place->fd);
    EXPECT(rmdir(place->folder) == 0);
}

TEST(only_a_regular_file_of_the_same_volume_is_opened)
{
    _cleanup_(place_done) struct place place = place_open();
    struct stat here;
    struct stat st;

    EXPECT(fstat(place.fd, &here) == 0);
    place_write(&place, "file", "text");
    EXPECT(symlinkat("file", place.fd, "link") == 0);
    EXPECT(mkfifoat(place.fd, "pipe", 0600) == 0);

    int fd = file_open_regular(place.fd, "file", here.st_dev, &st);
    EXPECT(fd >= 0 && st.st_size == 4);
    (void)close(fd);
    EXPECT(file_open_regular(place.fd, "link", here.st_dev, &st) == -FILE_OTHER_KIND);
    EXPECT(S_ISLNK(st.st_mode));
    EXPECT(file_open_regular(place.fd, "pipe", here.st_dev, &st) == -FILE_OTHER_KIND);
    EXPECT(S_ISFIFO(st.st_mode));
    EXPECT(file_open_regular(place.fd, "file", here.st_dev + 1, &st) == -FILE_OTHER_KIND);
    EXPECT(S_ISREG(st.st_mode));
    EXPECT(file_open_regular(place.fd, "nothing", here.st_dev, &st) == -ENOENT);
}

TEST(a_file_takes_a_new_name_only_where_nothing_has_it)
{
    _cleanup_(place_done) struct place place = place_open();

    place_write(&place, "file", "text");
    place_write(&place, "other", "kept");
    struct file_name file = {place.fd, "file"};
    struct file_name other = {place.fd, "other"};
    EXPECT(file_rename_new(file, other) < 0 && errno == EEXIST);
    EXPECT(unlinkat(place.fd, "other", 0) == 0);
    EXPECT(file_rename_new(file, other) == 0);
    EXPECT(faccessat(place.fd, "file", F_OK, 0) < 0);
    int fd = file_open_nameless(place.fd);
    if (fd < 0) /* not every file system has such files */
        return;
    EXPECT(file_give_name(fd, place.fd, "other") < 0 && errno == EEXIST);
    EXPECT(file_give_name(fd, place.fd, "file") == 0 && close(fd) == 0);
    EXPECT(faccessat(place.fd, "file", F_OK, 0) == 0);
}

TEST(times_of_a_file_are_those_that_it_was_given)
{
    _cleanup_(place_done) struct place place = place_open();
    const struct timespec times[2] = {{.tv_sec = 5, .tv_nsec = 6}, {.tv_sec = 7, .tv_nsec = 8}};
    struct timespec before = file_clock();
    struct stat st;

    place_write(&place, "file", "text");
    EXPECT(utimensat(place.fd, "file", times, 0) == 0);
    EXPECT(fstatat(place.fd, "file", &st, 0) == 0);
    EXPECT(file_modified(&st).tv_sec == 7 && file_modified(&st).tv_nsec == 8);
    EXPECT(file_changed(&st).tv_sec >= before.tv_sec);
    int fd = file_open_unnamed(place.folder);
    EXPECT(fd >= 0 || errno == EOPNOTSUPP); /* not every file system has such files */
    if (fd >= 0)
        (void)close(fd);
}

TEST(a_private_file_is_read_by_its_path_from_its_beginning_every_time)
{
    struct private_file file = {.fd = -1};
    char text[8] = {0};

    private_file_close(&file);
    EXPECT(private_file_open(&file, "muster-test") == 0);
    EXPECT(write(file.fd, "secret", 6) == 6);
    for (int i = 0; i < 2; i++) {
        int fd = open(file.path, O_RDONLY | O_CLOEXEC);

        EXPECT(fd >= 0 && read(fd, text, sizeof(text)) == 6);
        EXPECT(memcmp(text, "secret", 6) == 0);
        (void)close(fd);
    }
    private_file_close(&file);
    EXPECT(file.fd == -1);
}

TEST(a_socket_is_not_inherited_and_notices_a_dead_peer)
{
    int fd = socket_open(AF_INET, SOCK_STREAM, 0);
    unsigned int unanswered_ms = 0;
    int idle_s = 0;
    int on = 0;
    socklen_t size = sizeof(int);

    EXPECT(fd >= 0);
    EXPECT(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    socket_be_patient(fd,
                      &(struct socket_patience){.unanswered_ms = 4000, .idle_s = 9, .probes = 2});
    EXPECT(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, &size) == 0);
    EXPECT(unanswered_ms == 4000);
    EXPECT(getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, &size) == 0 && idle_s == 9);
    EXPECT(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &size) == 0 && on != 0);
    (void)close(fd);
}

TEST(the_environment_is_that_of_the_process)
{
    bool found = false;

    EXPECT(setenv("MUSTER_SYSTEM_TEST", "here", 1) == 0);
    for (char **at = process_environment(); *at; at++)
        found |= strcmp(*at, "MUSTER_SYSTEM_TEST=here") == 0;
    EXPECT(found);
    EXPECT(unsetenv("MUSTER_SYSTEM_TEST") == 0);
}
