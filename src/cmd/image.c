#include "image/image.h"

#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "cmd/datadir.h"
#include "cmd/muster.h"
#include "tool/option.h"

#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* muster image: the images that `muster up --images=oci` runs pods from. Works on the data folder,
 * whether muster up runs or not. */

struct image_values {
    const char *data_dir;
    const char *name;
};

static const struct option image_options[] = {
    {"data-dir", 0, OPTION_STR, offsetof(struct image_values, data_dir), .value = "DIR",
     .help = "data folder of muster up (default: the same as for up)"},
    {"name", 0, OPTION_STR, offsetof(struct image_values, name), .value = "NAME",
     .help =
         "import, pull: name of the image (default: the name in the archive, or the name pulled)"},
    {0},
};

struct work {
    struct arena *arena;
    const char *data_dir;
    const struct image_values *values;
};

static void print_image(const struct image *image)
{
    (void)printf("%-48.*s  %.12s  %8.1f MiB\n", (int)image->name.len, image->name.p, image->id.p,
                 (double)image->bytes / (1 << 20));
}

static int import(const struct work *work, const char *path, struct err *err)
{
    struct image image;
    struct str name = str_from(work->values->name ? work->values->name : "");
    int r = image_import(work->arena, work->data_dir, path, name, &image, err);
    if (r == 0)
        print_image(&image);
    return r;
}

/* The places other than registries that skopeo copies from. */
static bool has_transport(const char *name)
{
    static const char *const transports[] = {
        "oci:", "oci-archive:", "docker-archive:", "dir:", "docker-daemon:", "containers-storage:"};
    for (size_t i = 0; i < COUNT_OF(transports); i++)
        if (strncmp(name, transports[i], strlen(transports[i])) == 0)
            return true;
    return false;
}

/* Registries, their logins and their mirrors are skopeo's trade. */
static int run_skopeo(const char *from, const char *folder, struct err *err)
{
    char program[] = "skopeo", verb[] = "copy", quiet[] = "--quiet", source[PATH_MAX], to[64];
    pid_t pid;
    int status = -1;
    int n = snprintf(source, sizeof(source), "%s%s", has_transport(from) ? "" : "docker://", from);
    if (n < 0 || (size_t)n >= sizeof(source))
        return err_set(err, -ENAMETOOLONG, "%.40s...: too long for an image's name", from);
    (void)snprintf(to, sizeof(to), "oci:%s", folder);
    char *argv[] = {program, verb, quiet, source, to, NULL};
    int r = posix_spawnp(&pid, program, NULL, NULL, argv, environ);
    if (r)
        return err_set(err, -r,
                       "skopeo is not installed; install it, or import an archive of %s with "
                       "muster image import",
                       from);
    (void)waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0
               ? 0
               : err_set(err, -EIO, "skopeo could not fetch %s", from);
}

static int pull(const struct work *work, const char *from, struct err *err)
{
    char folder[] = "/tmp/muster-image-XXXXXX";
    const char *name = work->values->name ? work->values->name : from;
    if (!work->values->name && has_transport(from))
        return err_set(err, -EINVAL, "%s is a location, not an image name: set --name NAME", from);
    if (!mkdtemp(folder))
        return err_set(err, -errno, "cannot create a folder in /tmp");
    struct image image;
    int r = run_skopeo(from, folder, err);
    if (r == 0)
        r = image_import(work->arena, work->data_dir, folder, str_from(name), &image, err);
    if (r == 0)
        print_image(&image);
    image_discard(folder);
    return r;
}

static int list(const struct work *work)
{
    struct image *images;
    size_t count = image_list(work->arena, work->data_dir, &images);

    (void)printf("%-48s  %-12s  %12s\n", "NAME", "ID", "SIZE");
    for (size_t i = 0; i < count; i++)
        print_image(&images[i]);
    return 0;
}

static int image_run(struct invocation *invocation)
{
    struct work work = {.arena = invocation->arena, .values = invocation->values};
    const char *verb = invocation->args[0];
    const char *what = invocation->arg_count > 1 ? invocation->args[1] : NULL;
    struct err err = {0};
    int r;

    work.data_dir =
        work.values->data_dir ? work.values->data_dir : datadir_default(invocation->arena);
    if (strcmp(verb, "list") == 0 || strcmp(verb, "ls") == 0)
        r = list(&work);
    else if (strcmp(verb, "import") == 0 && what)
        r = import(&work, what, &err);
    else if (strcmp(verb, "pull") == 0 && what)
        r = pull(&work, what, &err);
    else if ((strcmp(verb, "rm") == 0 || strcmp(verb, "remove") == 0) && what)
        r = image_remove(work.arena, work.data_dir, str_from(what), &err);
    else
        r = err_set(&err, -EINVAL, "%s%s: use list, import FILE, pull NAME or rm NAME", verb,
                    what ? "" : " without an argument");
    if (r < 0)
        (void)fprintf(stderr, "muster image: %s\n", err.text);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

const struct command command_image = {
    .name = "image",
    .summary = "images for muster up --images=oci: list, import, pull, rm",
    .usage = "list | import FILE | pull NAME | rm NAME",
    .about = "import takes an OCI layout or a docker archive, a folder or a (compressed) tar file; "
             "pull fetches one through skopeo, from a registry or from another place it reads "
             "(oci:DIR, docker-archive:FILE, ... with --name). Layers are unpacked below the data "
             "folder: nothing "
             "in them can lead out of it, and every blob is checked against its digest.",
    .example = "muster image import pytorch.tar --name pytorch:2.5\nmuster image list",
    .options = image_options,
    .values_size = sizeof(struct image_values),
    .args_min = 1,
    .args_max = 2,
    .run = image_run,
};
