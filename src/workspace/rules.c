#include "workspace/rules.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "workspace/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define IGNORE_BYTES_MAX ((size_t)1 << 20)
#define EXCLUDE_FILE     ".git/info/exclude"
#define VENV_FILE        "pyvenv.cfg"
#define OWN_FILE         ".torchrunignore"

static void rules_note(const struct rules *rules,
                       struct str path,
                       const char *file,
                       const char *why)
{
    char text[2 * WS_PATH_MAX + 256];

    if (!rules->options.note)
        return;
    (void)snprintf(text, sizeof(text), STR_FMT "%s%s: %s", STR_ARG(path), path.len ? "/" : "", file,
                   why);
    rules->options.note(rules->options.user, text);
}

/* `base` is in the repository. */
static void read_file(struct rules *rules, int folder, struct str base, const char *name)
{
    _cleanup_(buf_done) struct buf text = {0};
    _cleanup_(disk_closep) int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    ssize_t got = 1;

    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        rules_note(rules, base, name, "cannot be read, and its rules do not count");
        return;
    }
    while (got > 0 && text.len <= IGNORE_BYTES_MAX) {
        got = read(fd, buf_room(&text, IGNORE_BYTES_MAX), IGNORE_BYTES_MAX);
        text.len += got > 0 ? (size_t)got : 0;
    }
    if (text.len > IGNORE_BYTES_MAX ||
        !ignore_add(&rules->ignore, &rules->arena, base, str_from(name), buf_str(&text)))
        rules_note(rules, base, name, "has too many rules, and not all of them count");
}

static void read_both(struct rules *rules, int folder, struct str base)
{
    read_file(rules, folder, base, ".gitignore");
    read_file(rules, folder, base, OWN_FILE);
}

/* ---- above the folder ---- */

/* How many bytes of `path` are the top of the repository that it lies in; 0: it is in none. As git,
 * not beyond the file system that it is on. */
static size_t find_top(const char *path)
{
    char git[PATH_MAX + 8];
    struct stat own;
    struct stat st;
    size_t len = strlen(path);

    if (stat(path, &own) < 0)
        return 0;
    while (len > 0) {
        (void)snprintf(git, sizeof(git), "%.*s/", (int)len, path);
        if (stat(git, &st) < 0 || st.st_dev != own.st_dev)
            return 0;
        (void)snprintf(git, sizeof(git), "%.*s/.git", (int)len, path);
        if (lstat(git, &st) == 0 && (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)))
            return len;
        while (len > 0 && path[len - 1] != '/')
            len--;
        len -= len > 0;
    }
    return 0;
}

/* From the top down to the folder, which does not count itself. */
static void read_above(struct rules *rules, const char *path, size_t top)
{
    struct str rest = str_from(path + top + (path[top] == '/'));
    char folder[PATH_MAX];
    struct str part;

    for (size_t at = 0; rest.len; at += part.len + 1) {
        (void)snprintf(folder, sizeof(folder), "%.*s/%.*s", (int)top, path, (int)at, rules->above);
        _cleanup_(disk_closep) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0)
            read_both(rules, fd, str_sub(str_from(rules->above), 0, at ? at - 1 : 0));
        (void)str_cut(&rest, '/', &part);
        if (ignore_matches(&rules->ignore, str_sub(str_from(rules->above), 0, at + part.len),
                           true)) {
            /* Whoever sends what the repository leaves out means it. */
            ignore_cut(&rules->ignore, 0);
            rules->above_len = 0;
            rules->above[0] = '\0';
            rules_note(rules, str_from(path), "",
                       "the repository's .gitignore leaves out this very folder, so its rules do "
                       "not count");
            return;
        }
    }
}

void rules_open(struct rules *rules, const char *root, const struct rules_options *options)
{
    char path[PATH_MAX];
    char git[PATH_MAX];
    size_t top;

    *rules = (struct rules){.options = *options};
    if (!options->repository || !realpath(root, path) || (top = find_top(path)) == 0)
        return;
    (void)snprintf(git, sizeof(git), "%.*s", (int)top, path);
    _cleanup_(disk_closep) int fd = open(git, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        read_file(rules, fd, STR(""), EXCLUDE_FILE);
    if (path[top] == '\0')
        return;
    rules->above_len = (size_t)snprintf(rules->above, sizeof(rules->above), "%s/", path + top + 1);
    read_above(rules, path, top);
}

void rules_done(struct rules *rules)
{
    ignore_cut(&rules->ignore, 0);
    arena_done(&rules->arena);
}

/* ---- in the folder ---- */

/* A path of the folder as its repository calls it. */
static struct str in_repository(const struct rules *rules,
                                struct str path,
                                char out[static 2 * WS_PATH_MAX + 4])
{
    int len;

    if (!rules->above_len)
        return path;
    len = snprintf(out, 2 * WS_PATH_MAX + 4, "%s" STR_FMT, rules->above, STR_ARG(path));
    if (path.len == 0)
        len--; /* the slash */
    return (struct str){out, (size_t)len};
}

void rules_read(struct rules *rules, int folder_fd, struct str path)
{
    char whole[2 * WS_PATH_MAX + 4];

    read_both(rules, folder_fd, in_repository(rules, path, whole));
}

size_t rules_count(const struct rules *rules)
{
    return rules->ignore.rules.count;
}

void rules_cut(struct rules *rules, size_t count)
{
    if (count < rules->ignore.rules.count)
        ignore_cut(&rules->ignore, count);
}

static bool has_file(int parent, const char *folder, const char *name)
{
    char path[2 * WS_NAME_MAX + 2];

    return snprintf(path, sizeof(path), "%s/%s", folder, name) < (int)sizeof(path) &&
           faccessat(parent, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Does the command say where in this folder it finds its Python? */
static bool command_names(const struct rules *rules, struct str path)
{
    const char *command = rules->options.command;
    const char *at = command;

    while (at && (at = memmem(at, strlen(at), path.p, path.len)) != NULL) {
        bool begins = at == command || at[-1] == '/' ||
                      !strchr("abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "0123456789._-",
                              at[-1]);

        if (begins && at[path.len] == '/')
            return true;
        at++;
    }
    return false;
}

/* What our own rules call it; NULL: nothing. `asked`: a rule of the person's takes it back. */
static const char *own_rule(const struct rules *rules,
                            int parent,
                            struct str path,
                            bool folder,
                            bool asked)
{
    struct str above = manifest_parent(path);
    const char *name = path.p + above.len + (above.len ? 1 : 0);
    struct stat st;

    for (size_t i = 0; i < rules->options.hidden_count; i++) {
        const struct rules_hidden *hidden = &rules->options.hidden[i];

        if (strcmp(name, hidden->name) == 0 &&
            fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_dev == hidden->device &&
            st.st_ino == hidden->inode)
            return hidden->what;
    }
    if (!folder)
        return str_starts(str_from(name), STR(RULES_CUT_NAME)) ? "a copy that was cut" : NULL;
    if (has_file(parent, name, "store.db") && has_file(parent, name, "lock"))
        return "the data folder of a muster";
    if (!asked && has_file(parent, name, VENV_FILE) && !command_names(rules, path))
        return "an environment of Python; \"!NAME/\" in .torchrunignore sends it";
    return NULL;
}

static bool counts(const struct ignore_rule *rule, enum rules_thing thing)
{
    return !rule->negated && (thing != RULES_LINK_OUT || str_is(rule->file, OWN_FILE));
}

bool rules_leave_out(struct rules *rules, int parent, struct str path, enum rules_thing thing)
{
    bool folder = thing == RULES_FOLDER;
    char whole[2 * WS_PATH_MAX + 4];
    struct str above = manifest_parent(path);
    const struct ignore_rule *rule;
    struct rules_left left = {.path = path, .folder = folder};
    const char *own;

    if (folder && str_is(str_sub(path, above.len + (above.len ? 1 : 0), path.len), ".git"))
        return true; /* that is no news */
    rule = ignore_find(&rules->ignore, in_repository(rules, path, whole), folder);
    if (rule && counts(rule, thing)) {
        left.file = rule->file;
        left.rule = rule->line;
    } else {
        own = own_rule(rules, parent, path, folder, rule != NULL);
        if (!own)
            return false;
        left.rule = str_from(own);
    }
    if (rules->options.left)
        rules->options.left(rules->options.user, &left);
    return true;
}
