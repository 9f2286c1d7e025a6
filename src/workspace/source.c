#include "workspace/source.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "workspace/disk.h"
#include "workspace/frame.h"
#include "workspace/manifest.h"
#include "workspace/outbox.h"
#include "workspace/scan.h"
#include "workspace/tree.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BATCH_BYTES ((size_t)4 << 20)

/* $1 is the URL, $2 an empty folder; a non-zero status is a failure and stderr says why. */
static const char git_script[] =
    "url=${1%%#*}; ref=; case $1 in *'#'*) ref=${1#*#};; esac\n"
    "exec git clone --quiet --depth 1 ${ref:+--branch \"$ref\"} -- \"$url\" \"$2\"\n";

#define UNPACK                                                                                    \
    "case $1 in *.zip) if command -v unzip > /dev/null; then unzip -q \"$2.archive\" -d \"$2\"; " \
    "else python3 -m zipfile -e \"$2.archive\" \"$2\"; fi;; "                                     \
    "*) tar -C \"$2\" --no-same-owner --no-same-permissions -xf \"$2.archive\";; esac && "        \
    "rm -f \"$2.archive\"\n"

static const char zip_script[] =
    "if command -v curl > /dev/null; then curl -fsSL -o \"$2.archive\" -- \"$1\"; "
    "elif ! command -v wget > /dev/null; then echo 'Neither curl nor wget is installed here.' >&2; "
    "exit 1\n"
    "else wget -q -O \"$2.archive\" -- \"$1\"; fi || exit 1\n" UNPACK;

static const char s3_script[] = "case $1 in */) exec aws s3 sync --quiet \"$1\" \"$2\";; esac\n"
                                "aws s3 cp --quiet \"$1\" \"$2.archive\" || exit 1\n" UNPACK;

static int run_script(const char *script, const char *url, const char *folder, struct err *err)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        (void)execl("/bin/sh", "sh", "-c", script, "source", url, folder, (char *)NULL);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return err_set(err, -EIO,
                       "fetching %s failed with status %d; the log of the sync pod says why", url,
                       WIFEXITED(status) ? WEXITSTATUS(status) : 128);
    return 0;
}

static int take_blob(void *user, const struct frame *frame, struct err *err)
{
    return tree_blob(user, &frame->blob, err);
}

/* Copy a folder into the tree as any upload would come: contents, then a commit. */
static int take_over(struct tree *tree,
                     const char *folder,
                     const struct source *source,
                     struct err *err)
{
    const struct scan_options options = {.rules = {.note = source->note, .user = source->user}};
    _cleanup_(manifest_unrefp) struct manifest *manifest = manifest_new();
    _cleanup_(buf_done) struct buf frames = {0};
    struct delta delta = {0};
    struct outbox outbox;
    int more = 1;
    int r = scan_folder(folder, &options, manifest, err);

    if (r == 0)
        r = outbox_open(&outbox, folder, manifest, err);
    if (r < 0)
        return r;
    while (r == 0 && more == 1) {
        buf_clear(&frames);
        more = outbox_next(&outbox, &frames, BATCH_BYTES, err);
        r = more < 0 ? more : frame_read_all(buf_str(&frames), take_blob, tree, err);
    }
    outbox_done(&outbox);
    if (r == 0)
        r = manifest_finish(manifest, err);
    if (r < 0)
        return r;
    r = delta_frame(
        &delta,
        &(struct frame){.type = FRAME_BEGIN, .begin = {.target = manifest->revision, .full = true}},
        err);
    for (size_t i = 0; r == 0 && i < manifest->entries.count; i++)
        r = delta_frame(
            &delta, &(struct frame){.type = FRAME_ENTRY, .entry = manifest->entries.items[i]}, err);
    if (r == 0)
        r = tree_commit(tree, &delta, err);
    delta_done(&delta);
    return r;
}

int source_fetch(struct tree *tree, const char *root, const struct source *source, struct err *err)
{
    const char *script = strcmp(source->kind, "git") == 0   ? git_script
                         : strcmp(source->kind, "zip") == 0 ? zip_script
                         : strcmp(source->kind, "s3") == 0  ? s3_script
                                                            : NULL;
    char folder[PATH_MAX];
    int r;

    if (!script)
        return err_set(err, -EINVAL,
                       "workspaceStorage.source '%s' is not one of zip, git, s3, existing",
                       source->kind);
    if (source->url[0] == '-')
        return err_set(err, -EINVAL, "workspaceStorage.url '%s' is not a URL", source->url);
    (void)snprintf(folder, sizeof(folder), "%s/" WS_PRIVATE_DIR "/source", root);
    (void)disk_remove_path(folder);
    if (mkdir(folder, 0700) < 0)
        return err_set(err, -errno, "%s: %s", folder, strerrordesc_np(errno));
    r = run_script(script, source->url, folder, err);
    if (r == 0)
        r = take_over(tree, folder, source, err);
    (void)disk_remove_path(folder);
    return r;
}
