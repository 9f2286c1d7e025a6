#include "workspace/keep.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "workspace/disk.h"
#include "workspace/httpd.h"
#include "workspace/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOGS_DIR   WS_PRIVATE_DIR "/logs"
#define NAME_BYTES 64

static const char *name_of(uint64_t generation, uint64_t rank, char out[static NAME_BYTES])
{
    (void)snprintf(out, NAME_BYTES, "%llu-%llu", (unsigned long long)generation,
                   (unsigned long long)rank);
    return out;
}

static bool parse_name(const char *name, uint64_t *ret_generation, uint64_t *ret_rank)
{
    struct str rest = str_from(name);
    struct str word;

    return str_cut(&rest, '-', &word) && str_to_u64(word, ret_generation) &&
           str_to_u64(rest, ret_rank);
}

static int logs_folder(int root_fd)
{
    if (mkdirat(root_fd, WS_PRIVATE_DIR, 0700) < 0 && errno != EEXIST)
        return -errno;
    if (mkdirat(root_fd, LOGS_DIR, 0700) < 0 && errno != EEXIST)
        return -errno;
    int fd = openat(root_fd, LOGS_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* A generation that is new: those far behind it go. */
static void drop_old(int folder, uint64_t newest)
{
    int fd = fcntl(folder, F_DUPFD_CLOEXEC, 3);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *item;
    uint64_t generation;
    uint64_t rank;

    while (dir && (item = readdir(dir)) != NULL)
        if (parse_name(item->d_name, &generation, &rank) &&
            generation + KEEP_GENERATIONS_MAX <= newest)
            (void)unlinkat(folder, item->d_name, 0);
    if (dir)
        closedir(dir);
}

int keep_add(int root_fd,
             uint64_t generation,
             uint64_t rank,
             uint64_t offset,
             struct str text,
             struct err *err)
{
    _cleanup_(disk_closep) int folder = logs_folder(root_fd);
    _cleanup_(disk_closep) int fd = -1;
    char name[NAME_BYTES];
    struct stat st = {0};
    int r = folder < 0 ? folder : 0;

    if (r == 0) {
        fd = openat(folder, name_of(generation, rank, name),
                    O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
        r = fd < 0 || fstat(fd, &st) < 0 ? -errno : 0;
    }
    if (r == 0) {
        uint64_t have = (uint64_t)st.st_size;
        uint64_t known = have > offset ? have - offset : 0; /* of the text: here already */

        if (have == 0)
            drop_old(folder, generation);
        text = str_sub(text, known < text.len ? (size_t)known : text.len, text.len);
        if (have + text.len <= KEEP_FILE_MAX) {
            r = disk_write(fd, text);
        } else if (have <= KEEP_FILE_MAX) { /* else that was said already */
            r = disk_write(fd, str_sub(text, 0, (size_t)(KEEP_FILE_MAX - have)));
            r = r < 0 ? r : disk_write(fd, STR(KEEP_CUT_TEXT));
        }
    }
    return r < 0 ? err_set(err, r, "%s: %s", LOGS_DIR, strerrordesc_np(-r)) : 0;
}

static void answer_list(int folder, uint64_t generation, struct httpd_conn *conn)
{
    _cleanup_(buf_done) struct buf text = {0};
    int fd = folder < 0 ? -1 : fcntl(folder, F_DUPFD_CLOEXEC, 3);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *item;
    uint64_t found;
    uint64_t rank;

    while (dir && (item = readdir(dir)) != NULL)
        if (parse_name(item->d_name, &found, &rank) && found == generation)
            buf_addf(&text, "%llu\n", (unsigned long long)rank);
    if (dir)
        closedir(dir);
    httpd_reply(conn, 200, "", "text/plain", buf_str(&text));
}

static void answer_text(int folder, const char *name, struct httpd_conn *conn)
{
    _cleanup_(disk_closep) int fd =
        folder < 0 ? -1 : openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    _cleanup_(buf_done) struct buf text = {0};
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0) {
        httpd_reply(conn, 404, "", "text/plain", STR("no such log is kept\n"));
        return;
    }
    while (text.len < (size_t)st.st_size) {
        size_t want = (size_t)st.st_size - text.len;
        ssize_t got = read(fd, buf_room(&text, want + 1), want);

        if (got <= 0)
            break;
        text.len += (size_t)got;
    }
    httpd_reply(conn, 200, "", "text/plain", buf_str(&text));
}

static bool query_number(struct httpd_conn *conn, const char *name, uint64_t *ret)
{
    char text[32];

    return httpd_query(conn, name, text, sizeof(text)) && str_to_u64(str_from(text), ret);
}

void keep_answer(int root_fd, struct httpd_conn *conn, struct str body)
{
    bool put = str_is(httpd_request(conn)->method, "POST");
    uint64_t generation = 0;
    uint64_t offset = 0;
    uint64_t rank = 0;
    bool one = query_number(conn, "rank", &rank);
    struct err err = {0};

    if (!query_number(conn, "generation", &generation) ||
        (put && (!one || !query_number(conn, "offset", &offset)))) {
        httpd_reply(conn, 400, "", "text/plain",
                    STR("generation, rank and offset must be numbers\n"));
    } else if (put) {
        if (keep_add(root_fd, generation, rank, offset, body, &err) < 0)
            httpd_reply(conn, 507, "", "text/plain", str_from(err.text));
        else
            httpd_reply(conn, 200, "", "text/plain", STR("ok\n"));
    } else {
        _cleanup_(disk_closep) int folder = logs_folder(root_fd);
        char name[NAME_BYTES];

        if (one)
            answer_text(folder, name_of(generation, rank, name), conn);
        else
            answer_list(folder, generation, conn);
    }
}
