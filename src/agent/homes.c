#include "agent/homes.h"

#include "base/buf.h"
#include "base/count.h"
#include "base/str.h"
#include "shim/record.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
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

void homes_masks(struct str passwd, int64_t uid, struct buf *records)
{
    struct str line, home;
    char path[PATH_MAX];
    int64_t whose;
    while (str_cut(&passwd, '\n', &line)) {
        if (!passwd_read(line, &whose, &home))
            continue;
        for (size_t i = 0; i < (whose == uid ? 1 : COUNT_OF(private_names)); i++) {
            int n = snprintf(path, sizeof(path), STR_FMT "/%s", STR_ARG(home), private_names[i]);
            if (n > 0 && (size_t)n < sizeof(path) && access(path, F_OK) == 0)
                record_add(records, "mask", str_from(path));
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
