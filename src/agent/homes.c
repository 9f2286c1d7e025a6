#include "agent/homes.h"

#include "base/buf.h"
#include "base/count.h"
#include "base/str.h"
#include "shim/openin.h"
#include "shim/record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PERSON_UID_MIN 1000 /* below it are the system's own accounts */
#define SETTLED_MS     2000

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

/* A bit for each of the names whose first word is in the folder. */
static uint32_t names_in(int fd)
{
    uint32_t names = 0;
    char word[32];
    for (size_t i = 0; i < COUNT_OF(private_names); i++) {
        (void)snprintf(word, sizeof(word), "%.*s", (int)strcspn(private_names[i], "/"),
                       private_names[i]);
        if (faccessat(fd, word, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
            names |= 1U << i;
    }
    return names;
}

static uint32_t home_names(struct homes *homes, int fd, const struct stat *st, int64_t now_ms)
{
    int64_t changed_ns = (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec;
    struct home_seen *seen = NULL;
    for (size_t i = 0; i < homes->count && !seen; i++)
        if (homes->seen[i].ino == st->st_ino)
            seen = &homes->seen[i];
    if (seen && st->st_dev == homes->dev && seen->changed_ns == changed_ns)
        return seen->names;
    uint32_t names = names_in(fd);
    homes->looked++;
    /* One that changed just now may change again and have the same time. */
    if (st->st_dev != homes->dev || changed_ns / 1000000 > now_ms - SETTLED_MS)
        return names;
    if (!seen && homes->count < HOMES_SEEN_MAX)
        seen = &homes->seen[homes->count++];
    if (seen)
        *seen = (struct home_seen){st->st_ino, changed_ns, names};
    return names;
}

/* What is missing of the name in a home, if anything is: the first word, or the whole. */
static bool missing_of(char path[static PATH_MAX], size_t home_len, bool begins)
{
    char *slash = strchr(path + home_len + 1, '/');
    if (begins)
        return slash && faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
    if (slash)
        *slash = '\0';
    return true;
}

struct home {
    int fd;
    bool own;    /* of the pods' own user */
    bool person; /* who may put a key there later; the system's own accounts do not */
};

/* /home may be a link, which is the machine's own. */
static void home_masks(struct homes *homes,
                       const struct home *home,
                       int64_t now_ms,
                       struct buf *records)
{
    char path[PATH_MAX], link[32], top[PATH_MAX];
    struct stat st;
    if (fstat(home->fd, &st) < 0)
        return;
    uint32_t names = home_names(homes, home->fd, &st, now_ms);
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", home->fd);
    ssize_t len = readlink(link, top, sizeof(top) - 1);
    top[len > 0 ? len : 0] = '\0';
    for (size_t i = 0; len > 1 && i < (home->own ? 1 : COUNT_OF(private_names)); i++) {
        bool begins = names & 1U << i;
        int n = snprintf(path, sizeof(path), "%s/%s", top, private_names[i]);
        if (n < 0 || (size_t)n >= sizeof(path))
            continue;
        if (begins && is_private_thing(path, st.st_uid))
            record_add(records, "mask.exact", str_from(path));
        else if (home->person && missing_of(path, (size_t)len, begins))
            record_add(records, "absent", str_from(path));
    }
}

void homes_masks(struct homes *homes,
                 struct str passwd,
                 int64_t uid,
                 int64_t now_ms,
                 struct buf *records)
{
    struct str line, said;
    char name[PATH_MAX];
    int64_t whose;
    while (str_cut(&passwd, '\n', &line)) {
        if (!passwd_read(line, &whose, &said) || said.len >= sizeof(name))
            continue;
        (void)snprintf(name, sizeof(name), STR_FMT, STR_ARG(said));
        int fd = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            continue;
        home_masks(homes,
                   &(struct home){.fd = fd,
                                  .own = whose == uid,
                                  .person = whose == 0 || whose >= PERSON_UID_MIN},
                   now_ms, records);
        close(fd);
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
