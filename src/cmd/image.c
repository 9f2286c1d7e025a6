#include "agent/image.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "cmd/datadir.h"
#include "cmd/muster.h"
#include "tool/option.h"

#include <errno.h>
#include <spawn.h>
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
     .help = "folder of muster up (default as for up)"},
    {"name", 0, OPTION_STR, offsetof(struct image_values, name), .value = "NAME",
     .help = "import: call it so (default: the name the archive has for it)"},
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

/* Registries, their logins and their mirrors are skopeo's trade. */
static int pull(const struct work *work, const char *name, struct err *err)
{
    char folder[] = "/tmp/muster-image-XXXXXX", program[] = "skopeo", verb[] = "copy";
    char from[512], to[64];
    pid_t pid;
    int status = -1;
    int n = snprintf(from, sizeof(from), "docker://%s", name);
    if (n < 0 || (size_t)n >= sizeof(from))
        return err_set(err, -ENAMETOOLONG, "%.40s...: too long for an image's name", name);
    if (!mkdtemp(folder))
        return err_set(err, -errno, "cannot make a folder in /tmp");
    (void)snprintf(to, sizeof(to), "oci:%s", folder);
    char *argv[] = {program, verb, from, to, NULL};
    int r = posix_spawnp(&pid, program, NULL, NULL, argv, environ);
    if (r == 0)
        (void)waitpid(pid, &status, 0);
    if (r)
        r = err_set(err, -r, "skopeo is not installed; or muster image import an archive of %s",
                    name);
    else if (!WIFEXITED(status) || WEXITSTATUS(status))
        r = err_set(err, -EIO, "skopeo could not fetch %s", name);
    struct image image;
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
        r = err_set(&err, -EINVAL, "%s%s: say list, import FILE, pull NAME or rm NAME", verb,
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
             "pull fetches one through skopeo. Layers are unpacked below the data folder: nothing "
             "in them can lead out of it, and every blob is checked against its digest.",
    .example = "muster image import pytorch.tar --name pytorch:2.5\nmuster image list",
    .options = image_options,
    .values_size = sizeof(struct image_values),
    .args_min = 1,
    .args_max = 2,
    .run = image_run,
};
