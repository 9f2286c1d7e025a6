#include "base/buf.h"
#include "base/count.h"
#include "base/err.h"
#include "image/tar.h"
#include "test.h"
#include "tool/files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Archives written by hand: one header a row, the file's content behind it. */
#define BLOCK 512

struct row {
    char type; /* 0: the last row */
    const char *name;
    const char *link;
    const char *content;
    const char *size; /* instead of the content's */
};

struct archive {
    char folder[32]; /* what is unpacked goes to folder/in */
    int root_fd;
    int fd;
    struct tar_limits limits;
    struct err err;
};

static void add_row(int fd, const struct row *row)
{
    unsigned char block[BLOCK] = {0};
    const char *content = row->content ? row->content : "";
    unsigned sum = 0;
    (void)snprintf((char *)block, 100, "%s", row->name);
    (void)snprintf((char *)block + 100, 8, "0000644");
    (void)snprintf((char *)block + 124, 12, "%011o", (unsigned)strlen(content) & 0777u);
    if (row->size)
        memcpy(block + 124, row->size, 12);
    block[156] = (unsigned char)row->type;
    (void)snprintf((char *)block + 157, 100, "%s", row->link ? row->link : "");
    memcpy(block + 257, "ustar", 6);
    memset(block + 148, ' ', 8);
    for (size_t i = 0; i < BLOCK; i++)
        sum += block[i];
    (void)snprintf((char *)block + 148, 8, "%06o", sum);
    EXPECT(write(fd, block, BLOCK) == BLOCK);
    memset(block, 0, BLOCK);
    memcpy(block, content, strlen(content));
    if (*content)
        EXPECT(write(fd, block, BLOCK) == BLOCK);
}

static int unpack(struct archive *archive, const struct row *rows)
{
    char path[64];
    *archive = (struct archive){.limits = {4096, 16}};
    (void)snprintf(archive->folder, sizeof(archive->folder), "/tmp/muster-tar-XXXXXX");
    EXPECT(mkdtemp(archive->folder) != NULL);
    (void)snprintf(path, sizeof(path), "%s/in", archive->folder);
    EXPECT(mkdir(path, 0755) == 0);
    (void)snprintf(path, sizeof(path), "%s/out", archive->folder);
    EXPECT(files_write(path, STR("safe"), 0600, NULL) == 0);
    (void)snprintf(path, sizeof(path), "%s/in", archive->folder);
    archive->root_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    archive->fd = memfd_create("tar", MFD_CLOEXEC);
    for (; rows->type; rows++)
        add_row(archive->fd, rows);
    EXPECT(lseek(archive->fd, 0, SEEK_SET) == 0);
    return tar_extract(archive->fd,
                       &(struct tar_options){
                           .root_fd = archive->root_fd, .layer = true, .limits = &archive->limits},
                       &archive->err);
}

/* Content of a file below the folder that archive was unpacked beside; "-": there is none. */
static const char *content(const struct archive *archive, const char *name)
{
    static char text[64];
    char path[128];
    struct buf found = {0};
    (void)snprintf(path, sizeof(path), "%s/%s", archive->folder, name);
    bool there = files_read(path, sizeof(text) - 1, &found);
    (void)snprintf(text, sizeof(text), STR_FMT, STR_ARG(there ? buf_str(&found) : STR("-")));
    buf_done(&found);
    return text;
}

static void done(struct archive *archive)
{
    close(archive->root_fd);
    close(archive->fd);
    files_remove(archive->folder);
}

TEST(tar_unpacks_and_never_outside_its_folder)
{
    static const struct {
        struct row rows[5];
        int code;
        const char *file;
        const char *content;
        const char *why;
    } cases[] = {
        {{{'5', "d/", NULL, NULL, NULL}, {'0', "d/f", NULL, "hi", NULL}},
         0,
         "in/d/f",
         "hi",
         "a file"},
        {{{'0', "a/b/c", NULL, "hi", NULL}}, 0, "in/a/b/c", "hi", "folders nobody listed"},
        {{{'0', "f", NULL, "old", NULL}, {'0', "f", NULL, "new", NULL}}, 0, "in/f", "new", "twice"},
        {{{'0', "../out", NULL, "bad", NULL}}, 0, "out", "safe", "a name that leads out"},
        {{{'0', "/out", NULL, "in", NULL}}, 0, "in/out", "in", "an absolute name"},
        {{{'2', "l", "..", NULL, NULL}, {'0', "l/out", NULL, "bad", NULL}},
         0,
         "out",
         "safe",
         "through a link that leads out"},
        {{{'1', "h", "../out", NULL, NULL}}, -2, "out", "safe", "a hard link to outside"},
        {{{'0', "f", NULL, "x", NULL}, {'0', ".wh.f", NULL, NULL, NULL}},
         0,
         "in/f",
         "-",
         "a whiteout"},
        {{{'2', "l", "..", NULL, NULL}, {'0', "l/.wh.out", NULL, NULL, NULL}},
         0,
         "out",
         "safe",
         "a whiteout of something outside"},
        {{{'2', "l", "..", NULL, NULL}, {'0', "l/.wh..wh..opq", NULL, NULL, NULL}},
         0,
         "out",
         "safe",
         "everything outside whited out"},
        {{{'3', "null", NULL, NULL, NULL}}, 0, "in/null", "-", "a device is left out"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct archive archive;
        test_case(cases[i].why);
        EXPECT(unpack(&archive, cases[i].rows) == cases[i].code);
        EXPECT(strcmp(content(&archive, cases[i].file), cases[i].content) == 0);
        EXPECT(strcmp(content(&archive, "out"), "safe") == 0);
        done(&archive);
    }
}

TEST(tar_refuses_what_is_damaged_or_too_large)
{
    static const struct {
        struct row rows[3];
        const char *words;
        const char *why;
    } cases[] = {
        {{{'0', "f", NULL, "x", "00000100000"}}, "too large", "more bytes than the limit"},
        {{{'0', "f", NULL, "x", "00000002000"}}, "ends inside f", "cut short"},
        {{{'0', "f", NULL, "x", "\377\377\377\377\377\377\377\377\377\377\377\377"}},
         "too large",
         "a size below zero"},
        {{{'x', "f", NULL, "x", "\377\377\377\377\377\377\377\377\377\377\377\377"}},
         "record of -1",
         "a record of a size below zero"},
        {{{'L', "f", NULL, "x", "00100000000"}}, "record of", "a record that is no name"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct archive archive;
        test_case(cases[i].why);
        EXPECT(unpack(&archive, cases[i].rows) < 0);
        EXPECT(strstr(archive.err.text, cases[i].words) != NULL);
        done(&archive);
    }
}

TEST(tar_counts_records_among_its_entries)
{
    struct row rows[18] = {0};
    struct archive archive;
    for (size_t i = 0; i < 17; i++)
        rows[i] = (struct row){.type = 'g', .name = "g"};
    EXPECT(unpack(&archive, rows) < 0);
    EXPECT(strstr(archive.err.text, "too many files") != NULL);
    done(&archive);
}
