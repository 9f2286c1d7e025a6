#include "agent/homes.h"

#include "base/buf.h"
#include "base/count.h"
#include "base/str.h"
#include "shim/openin.h"
#include "shim/record.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PERSON_UID_MIN 1000 /* below it are the system's own accounts */

/* The first is hidden from its own user's pods, too: it leads to clusters, not to data. */
static const char *const private_names[] = {".kube",
                                            ".ssh",
                                            ".gnupg",
                                            ".aws",
                                            ".azure",
                                            ".config/gcloud",
                                            ".config/gh",
                                            ".oci",
                                            ".docker",
                                            ".netrc",
                                            ".pypirc",
                                            ".git-credentials",
                                            ".pgpass",
                                            ".password-store",
                                            ".cache/huggingface/token"};

/* "name:x:1000:1000:Words:/home/name:/bin/sh" */
static bool passwd_read(struct str line, int64_t *ret_uid, struct str *ret_home)
{
    struct str fields[6] = {0};
    size_t count = 0;
    while (count < COUNT_OF(fields) && str_cut(&line, ':', &fields[count]))
        count++;
    *ret_home = fields[5];
    return count == COUNT_OF(fields) && str_to_i64(fields[2], ret_uid) && ret_home->len > 1 &&
           ret_home->p[0] == '/';
}

/* A folder or file of whom the home belongs to, and no link: whoever owns the home chooses where a link leads,
 * and would choose what nobody else's pods see. */
static bool is_private_thing(const char *path, uid_t owner)
{
    struct stat st;
    int fd = open_exact(path, O_PATH);
    bool is = fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == owner;
    if (fd >= 0)
        close(fd);
    return is;
}

void homes_masks(struct str passwd, int64_t uid, struct buf *records)
{
    struct str line, said;
    char path[PATH_MAX], name[PATH_MAX], home[PATH_MAX];
    struct stat st;
    int64_t whose;
    while (str_cut(&passwd, '\n', &line)) {
        if (!passwd_read(line, &whose, &said) || said.len >= sizeof(name))
            continue;
        (void)snprintf(name, sizeof(name), STR_FMT, STR_ARG(said));
        if (!realpath(name, home) ||
            stat(home, &st) < 0) /* /home may be a link, which is the machine's own */
            continue;
        for (size_t i = 0; i < (whose == uid ? 1 : COUNT_OF(private_names)); i++) {
            int n = snprintf(path, sizeof(path), "%s/%s", home, private_names[i]);
            if (n > 0 && (size_t)n < sizeof(path) && is_private_thing(path, st.st_uid))
                record_add(records, "mask.exact", str_from(path));
        }
    }
}

void homes_shut(struct str passwd, int64_t uid, struct buf *records)
{
    struct str line, home;
    int64_t whose;
    while (str_cut(&passwd, '\n', &line))
        if (passwd_read(line, &whose, &home) && whose >= PERSON_UID_MIN && whose != uid)
            record_add(records, "shut", home);
}
