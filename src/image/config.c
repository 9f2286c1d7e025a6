#include "image/config.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "image/image.h"
#include "tool/files.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#define PASSWD_BYTES (1 << 20)

/* The third and fourth field of the line that begins with the name. */
static bool look_up(const struct image *image, struct str name, int64_t *uid, int64_t *gid)
{
    char path[PATH_MAX];
    _cleanup_(buf_done) struct buf text = {0};
    (void)snprintf(path, sizeof(path), "%s/etc/passwd", image->rootfs);
    if (!files_read(path, PASSWD_BYTES, &text))
        return false;
    struct str rest = buf_str(&text), line, field[4];
    while (str_cut(&rest, '\n', &line)) {
        bool whole = true;
        for (size_t i = 0; i < 4; i++)
            whole = whole && str_cut(&line, ':', &field[i]);
        if (whole && str_eq(field[0], name))
            return str_to_i64(field[2], uid) && str_to_i64(field[3], gid);
    }
    return false;
}

void image_user(const struct image *image, int64_t *uid, int64_t *gid)
{
    struct str user = json_str(json_get(image->config, "User"));
    size_t colon = str_find(user, ':');
    struct str name = str_sub(user, 0, colon), group = str_sub(user, colon + 1, user.len);
    int64_t number;
    *uid = *gid = 0;
    if (!str_to_i64(name, uid) && name.len && !look_up(image, name, uid, gid))
        *uid = *gid = 65534; /* nobody: a name that the image does not know is no reason for root */
    if (colon < user.len && str_to_i64(group, &number))
        *gid = number;
}

struct str image_folder(const struct image *image)
{
    struct str folder = json_str(json_get(image->config, "WorkingDir"));
    return folder.len ? folder : STR("/");
}

const struct json *image_command(const struct image *image, const struct json *container)
{
    const struct json *own = json_get(container, "command");
    return json_count(own) ? own : json_get(image->config, "Entrypoint");
}

const struct json *image_args(const struct image *image, const struct json *container)
{
    const struct json *own = json_get(container, "args");
    bool alone = !json_count(own) && !json_count(json_get(container, "command"));
    return alone ? json_get(image->config, "Cmd") : own;
}
