#include "plugin/ship.h"

#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "plugin/local.h"
#include "plugin/plugin.h"
#include "workspace/manifest.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMED_MAX      3   /* things named of one file's rules */
#define NAME_BYTES_MAX 120 /* of a path or a rule that is named */

/* Below a home folder. */
static const struct {
    const char *path;
    const char *what;
} home_hidden[] = {
    {".ssh", "your keys"},
    {".gnupg", "your keys"},
    {".password-store", "credentials"},
    {".local/share/keyrings", "credentials"},
    {".aws", "credentials"},
    {".azure", "credentials"},
    {".config/gcloud", "credentials"},
    {".config/gh", "credentials"},
    {".config/hub", "credentials"},
    {".kube", "credentials"},
    {".docker", "credentials"},
    {".netrc", "credentials"},
    {".pgpass", "credentials"},
    {".git-credentials", "credentials"},
    {".config/git/credentials", "credentials"},
    {".pypirc", "credentials"},
    {".npmrc", "credentials"},
    {".s3cfg", "credentials"},
    {".boto", "credentials"},
    {".vault-token", "credentials"},
    {".huggingface", "credentials"},
    {".mozilla", "a browser's data"},
    {".config/google-chrome", "a browser's data"},
    {".config/chromium", "a browser's data"},
    {".cache", "caches"},
    {".local/state/muster", "Muster's own state"},
    {".local/share/muster", "Muster's data folder"},
};

static void hide(struct ship *ship, const char *path, const char *what)
{
    char whole[PATH_MAX];
    struct stat st;
    const char *slash;

    if (ship->hidden_count == SHIP_HIDDEN_MAX || !path || path[0] != '/' ||
        !realpath(path, whole) || stat(whole, &st) < 0 || !(slash = strrchr(whole, '/')))
        return;
    ship->hidden[ship->hidden_count++] =
        (struct rules_hidden){.name = str_printf(&ship->session->arena, "%s", slash + 1).p,
                              .what = what,
                              .device = st.st_dev,
                              .inode = st.st_ino};
}

static void hide_below(struct ship *ship, const char *variable, const char *name, const char *what)
{
    const char *folder = getenv(variable);

    if (folder && folder[0] == '/')
        hide(ship, str_printf(&ship->session->arena, "%s/%s", folder, name).p, what);
}

static const char *home_folder(char out[static PATH_MAX])
{
    const char *home = getenv("HOME");
    const struct passwd *person = home && home[0] == '/' ? NULL : getpwuid(geteuid());

    return realpath(person ? person->pw_dir : home ? home : "/", out) ? out : NULL;
}

static void on_note(void *user, const char *text)
{
    const struct ship *ship = user;

    session_say(ship->session, "warning: %s", text);
}

static void on_left(void *user, const struct rules_left *left)
{
    struct ship *ship = user;
    struct arena *arena = &ship->session->arena;
    struct ship_left *of = NULL;

    for (size_t i = 0; i < ship->left.count; i++)
        if (str_eq(ship->left.items[i].file, left->file))
            of = &ship->left.items[i];
    if (!of) {
        VEC_PUSH(arena, &ship->left, (struct ship_left){.file = str_dup(arena, left->file)});
        of = &ship->left.items[ship->left.count - 1];
    }
    if (of->count++ < NAMED_MAX)
        of->names =
            str_printf(arena, STR_FMT "%s" STR_FMT "%s (" STR_FMT ")", STR_ARG(of->names),
                       of->names.len ? ", " : "", STR_ARG(str_sub(left->path, 0, NAME_BYTES_MAX)),
                       left->folder ? "/" : "", STR_ARG(str_sub(left->rule, 0, NAME_BYTES_MAX)));
}

void ship_open(struct ship *ship, struct session *session)
{
    char home[PATH_MAX];

    *ship = (struct ship){.session = session};
    hide(ship, local_folder(&session->arena), "Muster's data folder");
    hide_below(ship, "XDG_CACHE_HOME", "muster", "Muster's caches");
    hide_below(ship, "XDG_STATE_HOME", "muster", "Muster's own state");
    for (size_t i = 0; home_folder(home) && i < COUNT_OF(home_hidden); i++)
        hide(ship, str_printf(&session->arena, "%s/%s", home, home_hidden[i].path).p,
             home_hidden[i].what);
}

struct scan_options ship_scan(struct ship *ship, const char *command)
{
    return (struct scan_options){
        .links_out = true,
        .rules = {.repository = true,
                  .hidden = ship->hidden,
                  .hidden_count = ship->hidden_count,
                  .command = command,
                  .left = on_left,
                  .note = on_note,
                  .user = ship},
    };
}

enum ship_place ship_place_of(const char *folder, const char *home)
{
    size_t len = strlen(folder);

    if (strcmp(folder, "/") == 0)
        return SHIP_ROOT;
    if (!home || strncmp(home, folder, len) != 0)
        return SHIP_PLAIN;
    return home[len] == '\0' ? SHIP_HOME : home[len] == '/' ? SHIP_ROOT : SHIP_PLAIN;
}

/* 0: yes. Where nobody can be asked, `refusal` says what to do instead. */
static int ask(struct session *session, const char *question, const char *refusal, struct err *err)
{
    char answer[16] = "";

    if (!session->err.live || !isatty(STDIN_FILENO))
        return err_set(err, -EINVAL, "%s", refusal);
    (void)fprintf(stderr, "%s [y/N] ", question);
    if (read(STDIN_FILENO, answer, sizeof(answer) - 1) > 0 &&
        (answer[0] == 'y' || answer[0] == 'Y'))
        return 0;
    return err_set(err, -ECANCELED, "nothing was sent");
}

int ship_check_folder(struct session *session, const char *folder, bool named, struct err *err)
{
    char whole[PATH_MAX];
    char home[PATH_MAX];
    enum ship_place place;
    const char *what;

    if (named || !realpath(folder, whole))
        return 0;
    place = ship_place_of(whole, home_folder(home));
    if (place == SHIP_PLAIN)
        return 0;
    what = place == SHIP_HOME ? "is your home folder" : "has your home folder in it";
    return ask(session, str_printf(&session->arena, "%s %s: send all of it?", whole, what).p,
               str_printf(&session->arena,
                          "%s %s, and all of it would be sent: change to the folder of your code, "
                          "or give --dir %s if you mean it, or --no-workspace to send nothing",
                          whole, what, whole)
                   .p,
               err);
}

int ship_check_size(struct session *session,
                    const struct manifest *manifest,
                    bool named,
                    struct err *err)
{
    struct ws_entry none = {0};
    const struct ws_entry *largest = &none;
    char bytes[TERM_BYTES_TEXT];
    char most[TERM_BYTES_TEXT];
    struct str what;

    if (named || manifest->bytes <= SHIP_ASK_BYTES)
        return 0;
    for (size_t i = 0; i < manifest->entries.count; i++)
        if (manifest->entries.items[i].size > largest->size)
            largest = &manifest->entries.items[i];
    what = str_printf(&session->arena, "the folder has %s, the largest file is " STR_FMT " (%s)",
                      term_bytes(manifest->bytes, bytes),
                      STR_ARG(str_sub(largest->path, 0, NAME_BYTES_MAX)),
                      term_bytes(largest->size, most));
    return ask(session, str_printf(&session->arena, STR_FMT ": send it?", STR_ARG(what)).p,
               str_printf(&session->arena,
                          STR_FMT ": a line in .torchrunignore leaves something out, and --dir "
                                  "with the folder's name sends all of it",
                          STR_ARG(what))
                   .p,
               err);
}

struct str ship_words(struct arena *arena, const struct ship_left *left)
{
    struct str more = left->count > NAMED_MAX
                          ? str_printf(arena, " and %zu more", left->count - NAMED_MAX)
                          : STR("");

    return str_printf(arena, "left out%s" STR_FMT ": " STR_FMT STR_FMT,
                      left->file.len ? " by " : "", STR_ARG(left->file), STR_ARG(left->names),
                      STR_ARG(more));
}

void ship_say(const struct ship *ship)
{
    for (size_t i = 0; i < ship->left.count; i++)
        session_say(ship->session, STR_FMT,
                    STR_ARG(ship_words(&ship->session->arena, &ship->left.items[i])));
}
