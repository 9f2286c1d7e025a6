#pragma once

#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;
struct json;

/* image: container images kept in the data folder, for --images=oci.
 *
 *     images/<id>/rootfs/      all layers, one above the other
 *     images/<id>/config.json  as the image has it: entry point, environment, user, folder
 *     images/names/<name>      whose first line is the name and second the id
 *
 * <id> is the SHA-256 of the configuration. Images come from OCI layouts and docker archives, as
 * folders or as (compressed) tar files; every blob is checked against its digest. Names are kept as
 * given, with ":latest" where there is no tag; a name without a registry finds an image that has
 * one. Nothing here talks to a network. */
struct image {
    struct str name;
    struct str id;
    const char *rootfs;
    int64_t bytes;
    struct json *config; /* .config of the configuration: Entrypoint, Cmd, Env, User, WorkingDir */
};

#define IMAGE_BYTES_MAX   ((int64_t)256 << 30)
#define IMAGE_ENTRIES_MAX 8000000

/* `path`: a layout's folder or an archive. `name` empty: the one it says itself. */
int image_import(struct arena *arena,
                 const char *data_dir,
                 const char *path,
                 struct str name,
                 struct image *ret,
                 struct err *err);
/* -ENOENT: there is none of that name. */
int image_find(struct arena *arena,
               const char *data_dir,
               struct str name,
               struct image *ret,
               struct err *err);
/* Every image, by name. */
size_t image_list(struct arena *arena, const char *data_dir, struct image **ret);
/* Removes a folder that an image was fetched to. */
void image_discard(const char *folder);
/* The name, and the image when no other name leads to it. */
int image_remove(struct arena *arena, const char *data_dir, struct str name, struct err *err);
