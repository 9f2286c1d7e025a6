#pragma once

#include "base/str.h"

#include <stdint.h>

struct image;
struct json;

/* config: what an image says about its containers, where they do not say it themselves. */

/* Whom it runs as. A name is looked up in the image's own /etc/passwd; one that is not there is
 * nobody, never root. */
void image_user(const struct image *image, int64_t *uid, int64_t *gid);
/* The folder it starts in; "/" where the image has none. */
struct str image_folder(const struct image *image);
/* The image's own command, where the container has none: Entrypoint unless `command`, Cmd unless
 * one of both is there. */
const struct json *image_command(const struct image *image, const struct json *container);
const struct json *image_args(const struct image *image, const struct json *container);
