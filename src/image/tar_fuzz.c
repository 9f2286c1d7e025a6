#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "fuzz/fuzz.h"
#include "image/image.h"
#include "image/tar.h"
#include "image/tar_stream.h"
#include "tool/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Archives and image layouts of somebody else's: whatever the bytes, nothing outside the folder
 * they are unpacked to is made, changed or removed. */
#define BLOCK        512
#define MAGIC_AT     257
#define CHECKSUM_AT  148
#define CHECKSUM_LEN 8
#define FUZZ_BYTES   (1 << 20)
#define FUZZ_ENTRIES 64

struct place {
    char path[64];   /* of ours alone */
    char inside[96]; /* what is unpacked goes here; beside it, a file that must stay as it is */
    char canary[96];
};

static void place_open(struct place *place)
{
    (void)snprintf(place->path, sizeof(place->path), "%s/muster-fuzz-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    FUZZ_HOLDS(mkdtemp(place->path) != NULL);
    (void)snprintf(place->inside, sizeof(place->inside), "%s/inside", place->path);
    (void)snprintf(place->canary, sizeof(place->canary), "%s/canary", place->path);
    FUZZ_HOLDS(mkdir(place->inside, 0755) == 0);
    FUZZ_HOLDS(files_write(place->canary, STR("alive"), 0600, NULL) == 0);
}

static void place_close(const struct place *place)
{
    size_t count = 0;
    struct stat st;
    DIR *folder = opendir(place->path);
    for (struct dirent *e; folder && (e = readdir(folder));)
        count += e->d_name[0] != '.';
    FUZZ_HOLDS(folder && count == 2);
    closedir(folder);
    FUZZ_HOLDS(lstat(place->canary, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 5);
    FUZZ_HOLDS((st.st_mode & 07777) == 0600 && st.st_nlink == 1);
    files_remove(place->path);
}

/* A sum nobody guesses: blocks that look like headers get the right one. */
static void set_checksums(unsigned char *bytes, size_t len)
{
    for (size_t at = 0; at + BLOCK <= len; at += BLOCK) {
        unsigned char *header = bytes + at;
        unsigned sum = 0;
        if (memcmp(header + MAGIC_AT, "ustar", 5) != 0)
            continue;
        memset(header + CHECKSUM_AT, ' ', CHECKSUM_LEN);
        for (size_t i = 0; i < BLOCK; i++)
            sum += header[i];
        (void)snprintf((char *)header + CHECKSUM_AT, CHECKSUM_LEN, "%06o", sum);
    }
}

static void extract(const struct place *place, const void *bytes, size_t len)
{
    struct tar_limits limits = {FUZZ_BYTES, FUZZ_ENTRIES};
    struct err err = {0};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    int root = open(place->inside, O_PATH | O_DIRECTORY | O_CLOEXEC);
    FUZZ_HOLDS(fd >= 0 && root >= 0 && write(fd, bytes, len) == (ssize_t)len);
    FUZZ_HOLDS(lseek(fd, 0, SEEK_SET) == 0);
    int r = tar_extract(
        fd, &(struct tar_options){.root_fd = root, .layer = true, .limits = &limits}, &err);
    FUZZ_HOLDS(r <= 0 && (r == 0 || err.text[0]));
    FUZZ_HOLDS(limits.bytes >= 0 && limits.bytes <= FUZZ_BYTES && limits.entries >= -1);
    close(root);
    close(fd);
}

FUZZ(tar)
{
    struct place place;
    unsigned char *bytes = mem_alloc(input.len + 1);
    if (input.len)
        memcpy(bytes, input.p, input.len);
    place_open(&place);
    extract(&place, bytes, input.len);
    set_checksums(bytes, input.len);
    extract(&place, bytes, input.len);
    place_close(&place);
    mem_free(bytes);
}

static void write_blob(const char *folder, struct str bytes, char digest[static TAR_DIGEST_BYTES])
{
    char path[256];
    tar_digest(bytes, digest);
    (void)snprintf(path, sizeof(path), "%s/blobs/sha256/%s", folder, digest + strlen("sha256:"));
    FUZZ_HOLDS(files_write(path, bytes, 0600, NULL) == 0);
}

/* The bytes as the manifest of an OCI layout, and as that of a docker archive's folder; the
 * configuration both can name is there. */
FUZZ(image)
{
    struct place place;
    struct arena arena = {0};
    char layout[128], data[128], path[160], index[300], digest[TAR_DIGEST_BYTES];
    place_open(&place);
    (void)snprintf(layout, sizeof(layout), "%s/layout", place.inside);
    (void)snprintf(data, sizeof(data), "%s/data", place.inside);
    (void)snprintf(path, sizeof(path), "%s/blobs/sha256", layout);
    FUZZ_HOLDS(files_make_folder(path, 0755, NULL) == 0);
    (void)snprintf(path, sizeof(path), "%s/config.json", layout);
    FUZZ_HOLDS(files_write(path, STR("{}"), 0600, NULL) == 0);
    (void)snprintf(path, sizeof(path), "%s/manifest.json", layout);
    FUZZ_HOLDS(files_write(path, input, 0600, NULL) == 0);
    write_blob(layout, STR("{}"), digest);
    for (int oci = 0; oci < 2; oci++) {
        struct image image;
        struct err err = {0};
        if (oci) {
            write_blob(layout, input, digest);
            (void)snprintf(index, sizeof(index), "{\"manifests\":[{\"digest\":\"%s\"}]}", digest);
            (void)snprintf(path, sizeof(path), "%s/index.json", layout);
            FUZZ_HOLDS(files_write(path, str_from(index), 0600, NULL) == 0);
        }
        int r = image_import(&arena, data, layout, STR("fuzz:1"), &image, &err);
        FUZZ_HOLDS(r == 0 ? str_is(image.name, "fuzz:1") : err.text[0] != '\0');
    }
    place_close(&place);
    arena_done(&arena);
}
