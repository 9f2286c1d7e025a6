#include "image/image.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/vec.h"
#include "image/tar.h"
#include "image/tar_stream.h"
#include "shim/openin.h"
#include "tool/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DOCUMENT_BYTES (4 << 20) /* of an index, a manifest or a configuration */
#define INDEX_DEPTH    4         /* indexes of indexes */
#define LAYERS_MAX     512

#if defined(__aarch64__)
#    define ARCHITECTURE "arm64"
#else
#    define ARCHITECTURE "amd64"
#endif

/* ---- names ---- */

static struct str with_tag(struct arena *arena, struct str name)
{
    size_t slash = name.len;
    while (slash > 0 && name.p[slash - 1] != '/')
        slash--;
    struct str last = str_sub(name, slash, name.len);
    if (str_find(last, ':') < last.len || str_find(name, '@') < name.len)
        return str_dup(arena, name);
    return str_printf(arena, STR_FMT ":latest", STR_ARG(name));
}

/* Without the registry, and without the folder that official images are in. */
static struct str short_name(struct str name)
{
    size_t slash = str_find(name, '/');
    struct str first = str_sub(name, 0, slash);
    bool registry =
        slash < name.len && (str_find(first, '.') < first.len || str_find(first, ':') < first.len ||
                             str_is(first, "localhost"));
    if (registry)
        name = str_sub(name, slash + 1, name.len);
    return str_starts(name, STR("library/")) ? str_sub(name, 8, name.len) : name;
}

/* As a file's name: a slash becomes a plus, which no image's name has. */
static const char *name_path(struct arena *arena, const char *data_dir, struct str name)
{
    char *text = str_c(arena, name);
    for (char *p = text; *p; p++)
        *p = *p == '/' ? '+' : *p;
    return str_c(arena, str_printf(arena, "%s/images/names/%s", data_dir, text));
}

static bool name_is_fine(struct str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.p[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && !strchr("._-/:@", c))
            return false;
    }
    return name.len > 0 && name.len < 256 && name.p[0] != '.' && name.p[0] != '/';
}

/* ---- reading a layout ---- */

struct layout {
    struct arena *arena;
    int fd;
    struct err *err;
};

struct manifest {
    struct str name;
    struct str config;             /* path of the configuration */
    struct str digest;             /* of it; empty: not said */
    struct str layers[LAYERS_MAX]; /* paths */
    struct str digests[LAYERS_MAX];
    size_t layer_count;
};

/* A file of the layout; links cannot lead out of it. */
static int open_file(struct layout *layout, struct str path)
{
    int fd = open_beneath(layout->fd, str_c(layout->arena, path), O_RDONLY | O_NONBLOCK);
    if (fd < 0)
        return err_set(layout->err, fd, STR_FMT ": %s", STR_ARG(path), strerrordesc_np(-fd));
    return fd;
}

static int read_file(struct layout *layout, struct str path, struct str digest, struct str *ret)
{
    struct buf text = {.bytes_max = DOCUMENT_BYTES};
    char found[TAR_DIGEST_BYTES];
    int fd = open_file(layout, path);
    if (fd < 0)
        return fd;
    for (;;) {
        char *room = buf_room(&text, 65536);
        ssize_t n = room ? read(fd, room, 65536) : 0;
        if (n <= 0)
            break;
        text.len += (size_t)n;
    }
    close(fd);
    *ret = str_dup(layout->arena, buf_str(&text));
    bool whole = !text.overflow;
    buf_done(&text);
    tar_digest(*ret, found);
    if (!whole || (digest.len && !str_is(digest, found)))
        return err_set(layout->err, -EBADMSG, STR_FMT " is damaged: its content is %s",
                       STR_ARG(path), found);
    return 0;
}

static int read_json(struct layout *layout, struct str path, struct str digest, struct json **ret)
{
    struct str text;
    int r = read_file(layout, path, digest, &text);
    if (r == 0)
        r = json_parse(layout->arena, text, ret, layout->err);
    return r ? err_wrap(layout->err, r, STR_FMT, STR_ARG(path)) : 0;
}

/* "sha256:abc" -> "blobs/sha256/abc". */
static struct str blob_path(struct layout *layout, struct str digest)
{
    return str_starts(digest, STR("sha256:")) ? str_printf(layout->arena, "blobs/sha256/" STR_FMT,
                                                           STR_ARG(str_sub(digest, 7, digest.len)))
                                              : STR("blobs/none");
}

/* The entry of an index for this machine; the first that does not say otherwise. */
static const struct json *choose(const struct json *index)
{
    JSON_FOREACH(json_get(index, "manifests"), entry) {
        const struct json *platform = json_get(entry, "platform");
        struct str os = json_str(json_get(platform, "os"));
        struct str architecture = json_str(json_get(platform, "architecture"));
        if ((!os.len || str_is(os, "linux")) &&
            (!architecture.len || str_is(architecture, ARCHITECTURE)))
            return entry;
    }
    return NULL;
}

static int add_layer(struct layout *layout,
                     struct manifest *ret,
                     struct str path,
                     struct str digest)
{
    if (ret->layer_count == LAYERS_MAX)
        return err_set(layout->err, -E2BIG, "more than %d layers", LAYERS_MAX);
    ret->layers[ret->layer_count] = path;
    ret->digests[ret->layer_count++] = digest;
    return 0;
}

static int read_oci(struct layout *layout, struct manifest *ret)
{
    struct json *document = NULL;
    int r = read_json(layout, STR("index.json"), STR(""), &document);
    for (int depth = 0; r == 0 && json_get(document, "manifests"); depth++) {
        const struct json *entry = choose(document);
        if (!entry || depth == INDEX_DEPTH)
            return err_set(layout->err, -ENOENT, "no image for linux on " ARCHITECTURE " in it");
        const struct json *notes = json_get(entry, "annotations");
        struct str whole = json_str(json_get(notes, "io.containerd.image.name"));
        struct str name = json_str(json_get(notes, "org.opencontainers.image.ref.name"));
        if (!ret->name.len)
            ret->name = whole.len ? whole : name;
        struct str digest = json_str(json_get(entry, "digest"));
        r = read_json(layout, blob_path(layout, digest), digest, &document);
    }
    if (r)
        return r;
    ret->digest = json_str_at(document, "config.digest");
    ret->config = blob_path(layout, ret->digest);
    JSON_FOREACH(json_get(document, "layers"), layer) {
        struct str digest = json_str(json_get(layer, "digest"));
        r = r ? r : add_layer(layout, ret, blob_path(layout, digest), digest);
    }
    return r;
}

static int read_docker(struct layout *layout, struct manifest *ret)
{
    struct json *list = NULL;
    int r = read_json(layout, STR("manifest.json"), STR(""), &list);
    if (r)
        return r;
    const struct json *first = json_index(list, 0);
    ret->name = json_str(json_index(json_get(first, "RepoTags"), 0));
    ret->config = json_str(json_get(first, "Config"));
    JSON_FOREACH(json_get(first, "Layers"), layer)
        r = r ? r : add_layer(layout, ret, json_str(layer), STR(""));
    if (r == 0 && !ret->config.len)
        r = err_set(layout->err, -EBADMSG, "manifest.json names no configuration");
    return r;
}

/* ---- unpacking ---- */

static int unpack(struct layout *layout,
                  const struct manifest *manifest,
                  const char *rootfs,
                  int64_t *ret_bytes)
{
    struct tar_limits limits = {IMAGE_BYTES_MAX, IMAGE_ENTRIES_MAX};
    int r = files_make_folder(rootfs, 0755, layout->err);
    int root = r ? r : open(rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return r ? r : err_set(layout->err, -errno, "cannot open %s", rootfs);
    for (size_t i = 0; r == 0 && i < manifest->layer_count; i++) {
        int fd = open_file(layout, manifest->layers[i]);
        if (fd < 0) {
            r = fd;
            break;
        }
        r = tar_extract(fd,
                        &(struct tar_options){.root_fd = root,
                                              .layer = true,
                                              .owners = geteuid() == 0,
                                              .digest = manifest->digests[i],
                                              .limits = &limits},
                        layout->err);
        close(fd);
        if (r)
            r = err_wrap(layout->err, r, "layer " STR_FMT, STR_ARG(manifest->layers[i]));
    }
    close(root);
    *ret_bytes = IMAGE_BYTES_MAX - limits.bytes;
    return r;
}

static int write_name(struct arena *arena,
                      const char *data_dir,
                      const struct image *image,
                      struct err *err)
{
    const char *folder = str_c(arena, str_printf(arena, "%s/images/names", data_dir));
    int r = files_make_folder(folder, 0755, err);
    return r ? r
             : files_write(name_path(arena, data_dir, image->name),
                           str_printf(arena, STR_FMT "\n" STR_FMT "\n%lld\n", STR_ARG(image->name),
                                      STR_ARG(image->id), (long long)image->bytes),
                           0644, err);
}

/* Into images/<id>, whole or not at all. */
static int keep(struct layout *layout,
                const struct manifest *manifest,
                const char *data_dir,
                struct image *image)
{
    struct arena *arena = layout->arena;
    struct str text;
    char digest[TAR_DIGEST_BYTES];
    int r = read_file(layout, manifest->config, manifest->digest, &text);
    if (r)
        return r;
    tar_digest(text, digest);
    image->id = str_dup(arena, str_sub(str_from(digest), 7, strlen(digest)));
    const char *final =
        str_c(arena, str_printf(arena, "%s/images/" STR_FMT, data_dir, STR_ARG(image->id)));
    const char *next = str_c(arena, str_printf(arena, "%s.new", final));
    if (access(final, F_OK) == 0)
        return 0; /* the same one is here already */
    files_remove(next);
    r = unpack(layout, manifest, str_c(arena, str_printf(arena, "%s/rootfs", next)), &image->bytes);
    if (r == 0)
        r = files_write(str_c(arena, str_printf(arena, "%s/config.json", next)), text, 0644,
                        layout->err);
    if (r == 0 && rename(next, final) < 0)
        r = err_set(layout->err, -errno, "cannot keep the image: %s", strerrordesc_np(errno));
    if (r)
        files_remove(next);
    return r;
}

static int import_folder(struct arena *arena,
                         const char *data_dir,
                         const char *path,
                         struct image *image,
                         struct err *err)
{
    struct layout layout = {.arena = arena, .err = err};
    struct manifest *manifest = ARENA_NEW(arena, struct manifest);
    layout.fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (layout.fd < 0)
        return err_set(err, -errno, "cannot open it: %s", strerrordesc_np(errno));
    bool oci = faccessat(layout.fd, "index.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    int r = oci ? read_oci(&layout, manifest) : read_docker(&layout, manifest);
    if (r == 0)
        r = keep(&layout, manifest, data_dir, image);
    close(layout.fd);
    if (!image->name.len)
        image->name = manifest->name;
    return r;
}

/* An archive becomes a folder first. */
static int import_archive(struct arena *arena,
                          const char *data_dir,
                          const char *path,
                          struct image *image,
                          struct err *err)
{
    char *folder = str_c(arena, str_printf(arena, "%s/images/tmp.XXXXXX", data_dir));
    struct tar_limits limits = {IMAGE_BYTES_MAX, IMAGE_ENTRIES_MAX};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || !mkdtemp(folder)) {
        int r = err_set(err, -errno, "%s", strerrordesc_np(errno));
        if (fd >= 0)
            close(fd);
        return r;
    }
    int root = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = tar_extract(fd, &(struct tar_options){.root_fd = root, .limits = &limits}, err);
    if (r == 0)
        r = import_folder(arena, data_dir, folder, image, err);
    close(root);
    close(fd);
    files_remove(folder);
    return r;
}

int image_import(struct arena *arena,
                 const char *data_dir,
                 const char *path,
                 struct str name,
                 struct image *ret,
                 struct err *err)
{
    struct stat st;
    struct image image = {.name = name};
    int r = files_make_folder(str_c(arena, str_printf(arena, "%s/images", data_dir)), 0755, err);
    if (r == 0 && stat(path, &st) < 0)
        r = err_set(err, -errno, "%s", strerrordesc_np(errno));
    if (r == 0)
        r = S_ISDIR(st.st_mode) ? import_folder(arena, data_dir, path, &image, err)
                                : import_archive(arena, data_dir, path, &image, err);
    if (r)
        return err_wrap(err, r, "%s", path);
    if (!name_is_fine(image.name))
        return err_set(err, -EINVAL,
                       "%s has no name for the image, or an odd one (" STR_FMT "): set --name",
                       path, STR_ARG(image.name));
    image.name = with_tag(arena, image.name);
    r = write_name(arena, data_dir, &image, err);
    return r ? r : image_find(arena, data_dir, image.name, ret, err);
}

/* ---- finding ---- */

static int load(struct arena *arena,
                const char *data_dir,
                const char *path,
                struct image *ret,
                struct err *err)
{
    _cleanup_(buf_done) struct buf text = {0};
    if (!files_read(path, 1024, &text))
        return -ENOENT;
    struct str rest = str_dup(arena, buf_str(&text)), size;
    struct image image = {0};
    if (!str_cut(&rest, '\n', &image.name) || !str_cut(&rest, '\n', &image.id) ||
        !str_cut(&rest, '\n', &size))
        return -ENOENT;
    (void)str_to_i64(size, &image.bytes);
    const char *folder =
        str_c(arena, str_printf(arena, "%s/images/" STR_FMT, data_dir, STR_ARG(image.id)));
    image.rootfs = str_c(arena, str_printf(arena, "%s/rootfs", folder));
    struct json *config = NULL;
    if (!files_read(str_c(arena, str_printf(arena, "%s/config.json", folder)), DOCUMENT_BYTES,
                    &text))
        return -ENOENT;
    int r = json_parse(arena, str_dup(arena, buf_str(&text)), &config, err);
    if (r)
        return err_wrap(err, r, "image " STR_FMT, STR_ARG(image.name));
    image.config = json_get(config, "config");
    *ret = image;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct image *x = a, *y = b;
    return str_cmp(x->name, y->name);
}

size_t image_list(struct arena *arena, const char *data_dir, struct image **ret)
{
    VEC(struct image) list = {0};
    const char *path = str_c(arena, str_printf(arena, "%s/images/names", data_dir));
    DIR *folder = opendir(path);
    for (struct dirent *e; folder && (e = readdir(folder));) {
        struct image image;
        const char *file = str_c(arena, str_printf(arena, "%s/%s", path, e->d_name));
        if (e->d_name[0] != '.' && load(arena, data_dir, file, &image, NULL) == 0)
            VEC_PUSH(arena, &list, image);
    }
    if (folder)
        closedir(folder);
    if (list.count)
        qsort(list.items, list.count, sizeof(*list.items), by_name);
    *ret = list.items;
    return list.count;
}

int image_find(struct arena *arena,
               const char *data_dir,
               struct str name,
               struct image *ret,
               struct err *err)
{
    struct image *list;
    if (!name_is_fine(name))
        return err_set(err, -EINVAL, "\"" STR_FMT "\" is not an image name", STR_ARG(name));
    name = with_tag(arena, name);
    int r = load(arena, data_dir, name_path(arena, data_dir, name), ret, err);
    if (r != -ENOENT)
        return r;
    size_t count = image_list(arena, data_dir, &list);
    for (size_t i = 0; i < count; i++)
        if (str_eq(short_name(list[i].name), short_name(name))) {
            *ret = list[i];
            return 0;
        }
    return err_set(err, -ENOENT,
                   "image \"" STR_FMT "\" is not in this node's store: muster image pull " STR_FMT
                   ", or muster image import FILE",
                   STR_ARG(name), STR_ARG(name));
}

int image_remove(struct arena *arena, const char *data_dir, struct str name, struct err *err)
{
    struct image image = {0}, *list;
    int r = image_find(arena, data_dir, name, &image, err);
    if (r)
        return r;
    if (unlink(name_path(arena, data_dir, image.name)) < 0)
        return err_set(err, -errno, "image " STR_FMT ": %s", STR_ARG(image.name),
                       strerrordesc_np(errno));
    size_t count = image_list(arena, data_dir, &list);
    for (size_t i = 0; i < count; i++)
        if (str_eq(list[i].id, image.id))
            return 0;
    files_remove(
        str_c(arena, str_printf(arena, "%s/images/" STR_FMT, data_dir, STR_ARG(image.id))));
    return 0;
}

void image_discard(const char *folder)
{
    files_remove(folder);
}
