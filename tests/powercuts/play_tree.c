#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "powercuts/play.h"
#include "workspace/disk.h"
#include "workspace/frame.h"
#include "workspace/hash.h"
#include "workspace/manifest.h"
#include "workspace/tree.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The sync side: a folder that is brought from one revision to the next. Its promise after a power
 * cut: it opens, what it says that it has is there, and whoever sends the newest revision again
 * gets it whole. */

#define FILES 4
#define PIECE 1500

/* Of file `index` in revision `value`; some stay as they were. */
static struct str content_of(struct buf *out, int index, int value)
{
    int since = value - (value + index) % 3;

    buf_clear(out);
    for (int i = 0; i < 20 + 90 * index; i++)
        buf_addf(out, "file %d since %d, line %d\n", index, since, i);
    return buf_str(out);
}

static struct ws_entry entry_of(struct buf *out, int index, int value, char path[static 32])
{
    struct str content = content_of(out, index, value);

    (void)snprintf(path, 32, "%sf%d-%d", index % 2 ? "d/" : "", index, index == 3 ? value % 2 : 0);
    return (struct ws_entry){.type = WS_FILE,
                             .path = str_from(path),
                             .mode = 0644,
                             .size = content.len,
                             .hash = hash_of(content)};
}

/* As a client does: contents that are not there, from where they end, in pieces; then the commit. */
static int revision_send(struct tree *tree, int value, struct err *err)
{
    _cleanup_(buf_done) struct buf text = {0};
    _cleanup_(manifest_unrefp) struct manifest *manifest = manifest_new();
    struct ws_entry entries[FILES + 1] = {
        {.type = WS_DIR, .path = STR("d"), .mode = 0755},
    };
    char paths[FILES][32];
    struct delta delta = {0};
    int r = 0;

    manifest_add(manifest, &entries[0]);
    for (int i = 0; i < FILES; i++) {
        struct ws_entry *entry = &entries[i + 1];
        uint64_t have = 0;

        *entry = entry_of(&text, i, value, paths[i]);
        manifest_add(manifest, entry);
        if (tree_has(tree, entry->hash, entry->size, &have))
            continue;
        for (; r == 0 && have < entry->size; have += i == 0 ? entry->size : PIECE)
            r = tree_blob(tree,
                          &(struct frame_blob){.hash = entry->hash,
                                               .size = entry->size,
                                               .offset = have,
                                               .mode = 0644,
                                               .path = entry->path,
                                               .bytes = str_sub(buf_str(&text), (size_t)have,
                                                                i == 0 ? text.len : PIECE)},
                          err);
    }
    (void)manifest_finish(manifest, NULL);
    (void)delta_frame(
        &delta,
        &(struct frame){.type = FRAME_BEGIN, .begin = {.target = manifest->revision, .full = true}},
        NULL);
    for (int i = 0; i < FILES + 1; i++)
        (void)delta_frame(&delta, &(struct frame){.type = FRAME_ENTRY, .entry = entries[i]}, NULL);
    if (r == 0)
        r = tree_commit(tree, &delta, err);
    delta_done(&delta);
    return r;
}

void play_tree(const char *folder, int count)
{
    struct tree tree;
    struct err err = {0};

    if (tree_open(&tree, folder, false, &err) < 0) {
        say("failed %s", err.text);
        return;
    }
    for (int value = 1; value <= count; value++) {
        if (revision_send(&tree, value, &err) < 0)
            say("failed %s", err.text);
        if (value % 3 == 0) { /* another life */
            tree_done(&tree);
            if (tree_open(&tree, folder, false, &err) < 0)
                say("failed %s", err.text);
        }
    }
    tree_done(&tree);
}

/* Every file of the current revision is what its entry says. */
static void tree_verify(struct tree *tree, const char *when)
{
    for (size_t i = 0; i < tree->current->entries.count; i++) {
        const struct ws_entry *entry = &tree->current->entries.items[i];
        struct hash hash = {0};
        struct err err = {0};

        if (entry->type != WS_FILE)
            continue;
        _cleanup_(disk_closep) int fd = tree_open_file(tree, entry, &err);
        if (fd < 0 || hash_fd(fd, &hash) < 0 || !hash_eq(hash, entry->hash))
            say("failed %s " STR_FMT " is not what the manifest says", when, STR_ARG(entry->path));
    }
}

void look_tree(const char *folder)
{
    struct tree tree;
    struct err err = {0};
    char boot[4096];

    /* The images are of this boot; a power cut makes another. */
    (void)snprintf(boot, sizeof(boot), "%s/" WS_PRIVATE_DIR "/boot", folder);
    (void)unlink(boot);
    if (tree_open(&tree, folder, false, &err) < 0) {
        say("failed %s", err.text);
        tree_done(&tree);
        return;
    }
    tree_verify(&tree, "found:");
    if (revision_send(&tree, 1000, &err) < 0)
        say("failed it cannot be sent again: %s", err.text);
    tree_verify(&tree, "sent again:");
    tree_done(&tree);
}
