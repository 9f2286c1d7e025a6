#include "cmd/doctor.h"

#include "agent/doctor.h"
#include "agent/host_path.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "cmd/datadir.h"
#include "cmd/muster.h"
#include "launch/python.h"
#include "plugin/plugin.h"
#include "tool/file.h"
#include "tool/option.h"
#include "tool/term.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* muster doctor: what this machine permits, and the fix for the rest; what its disk has, and what a muster up
 * that runs says of itself. */
#define DISK_MIB_MIN 256 /* the store is read-only from some 32 MiB on; pods are evicted before */
#define INODES_MIN   1000
#define SERVER_MS    5000

struct doctor_values {
    const char *data_dir;
};

static const struct option doctor_options[] = {
    {"data-dir", 0, OPTION_STR, offsetof(struct doctor_values, data_dir), .value = "DIR",
     .help = "data folder that muster up uses (default: the same as for up)"},
    {0},
};

/* The same search as the launcher's, so that both find the same PyTorch or none. */
static void look_for_torch(struct finding *ret)
{
    struct python python;
    struct err err = {0};

    *ret = (struct finding){.name = "PyTorch", .ok = python_find(&python, &err) == 0};
    if (ret->ok)
        (void)snprintf(ret->words, sizeof(ret->words), "%s, with %.180s", python.torch,
                       python.path);
    else
        (void)snprintf(ret->words, sizeof(ret->words), "%s", "not found");
    (void)snprintf(ret->fix, sizeof(ret->fix), "%s",
                   "install it for a Python on your PATH; jobs with images of their own need none "
                   "here");
}

/* What is needed and missing is wrong; what is only useful and missing is a hint. */
static void add_findings(struct buf *out,
                         const struct term *term,
                         const struct finding *findings,
                         size_t count,
                         bool needed)
{
    const char *missing = needed ? "✗" : "-";

    buf_addf(out, "%s\n", needed ? "Required:" : "Optional:");
    for (size_t i = 0; i < count; i++) {
        const struct finding *f = &findings[i];
        enum term_colour colour = f->ok ? COLOUR_GREEN : needed ? COLOUR_RED : COLOUR_YELLOW;

        if (f->needed != needed)
            continue;
        buf_addf(out, "%s%s%s %-14s  %s\n", term_colour(term, colour), f->ok ? "✓" : missing,
                 term_colour(term, COLOUR_NONE), f->name, f->words);
        if (!f->ok)
            buf_addf(out, "  %-14s  %s\n", "", f->fix);
    }
}

/* A data folder that can be written to is of no use on a full disk. */
static void look_for_room(const char *folder, struct finding *ret)
{
    struct statvfs disk;
    bool known = statvfs(folder, &disk) == 0;
    unsigned long long free_mib =
        known ? (unsigned long long)disk.f_bavail * disk.f_frsize >> 20 : 0;
    /* File systems without a table of inodes say 0 of 0. */
    bool inodes = known && (!disk.f_files || disk.f_favail >= INODES_MIN);

    *ret = (struct finding){
        .name = "disk", .needed = true, .ok = known && inodes && free_mib >= DISK_MIB_MIN};
    (void)snprintf(ret->words, sizeof(ret->words),
                   "%llu MiB and %llu files are free where %.150s is", free_mib,
                   known ? (unsigned long long)disk.f_favail : 0, folder);
    (void)snprintf(ret->fix, sizeof(ret->fix), "free some space: %d MiB and %d files are needed",
                   DISK_MIB_MIN, INODES_MIN);
}

/* Where muster up wrote one: in its folder, or where --kubeconfig-out said last. */
static const char *own_kubeconfig(struct arena *arena, const char *folder)
{
    const char *path = str_printf(arena, "%s/kubeconfig", folder).p;
    struct str list, line;

    if (access(path, R_OK) == 0 ||
        file_read(arena, str_printf(arena, "%s/" HOST_PATH_KUBECONFIGS, folder).p, &list, NULL) <
            0 ||
        !str_cut(&list, '\n', &line) || !line.len)
        return path;
    return str_c(arena, line);
}

/* The muster up of that folder, if there is one. False: there is none. */
static bool look_for_server(struct invocation *invocation, const char *folder, struct finding *ret)
{
    struct arena *arena = invocation->arena;
    int fd = open(str_printf(arena, "%s/lock", folder).p, O_RDWR | O_CLOEXEC);
    bool runs = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;
    struct common_values values = {.kubeconfig = own_kubeconfig(arena, folder)};
    struct invocation own = *invocation;
    struct session session;
    struct session_request request = {
        .method = "GET", .path = STR("/readyz"), .timeout_ms = SERVER_MS};
    struct str said = STR("");
    struct err err = {0};

    if (fd >= 0)
        (void)close(fd);
    if (!runs)
        return false;
    own.values = &values;
    int r = session_open(&session, &own, &err);
    if (r == 0)
        r = session_http(&session, &request, &said, &err);
    *ret = (struct finding){.name = "muster up", .needed = true, .ok = r == 200};
    (void)snprintf(ret->words, sizeof(ret->words), "%.220s",
                   r == 200 ? "it runs, and is ready"
                   : r > 0  ? str_c(arena, said)
                            : err.text);
    (void)snprintf(
        ret->fix, sizeof(ret->fix),
        "see its log (journalctl -u muster); muster support FILE collects what there is");
    session_close(&session);
    return true;
}

size_t doctor_look(struct invocation *invocation,
                   const char *folder,
                   struct finding ret[static DOCTOR_LOOK_MAX])
{
    size_t count = doctor_all(folder, ret);

    look_for_torch(&ret[count++]);
    look_for_room(folder, &ret[count++]);
    return count + look_for_server(invocation, folder, &ret[count]);
}

static int doctor_run(struct invocation *invocation)
{
    const struct doctor_values *values = invocation->values;
    struct term term = term_open(STDOUT_FILENO, environ);
    struct finding findings[DOCTOR_LOOK_MAX];
    const char *folder = values->data_dir ? values->data_dir : datadir_default(invocation->arena);
    size_t count = doctor_look(invocation, folder, findings);
    _cleanup_(buf_done) struct buf page = {0};
    bool works = true;

    add_findings(&page, &term, findings, count, true);
    add_findings(&page, &term, findings, count, false);
    term_page(&term, buf_str(&page));
    for (size_t i = 0; i < count; i++)
        works = works && (findings[i].ok || !findings[i].needed);
    return works ? EXIT_SUCCESS : EXIT_FAILURE;
}

const struct command command_doctor = {
    .name = "doctor",
    .summary = "check what this machine allows, and how to fix the rest",
    .about = "Checks privileges, namespaces, control groups, overlay, GPUs, PyTorch, the disk, the "
             "programs that muster uses, and the muster up that runs on the data folder. Fails "
             "only when something required is missing: without it "
             "muster "
             "up does not work at all.",
    .example = "muster doctor",
    .options = doctor_options,
    .values_size = sizeof(struct doctor_values),
    .run = doctor_run,
};
