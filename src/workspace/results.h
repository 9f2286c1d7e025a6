#pragma once

#include "base/str.h"
#include "workspace/disk.h"
#include "workspace/frame.h"
#include "workspace/manifest.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct buf;
struct err;

/* results: what a job wrote into its working folder, as a stream of frames (workspace/frame.h).
 *
 * A file counts when it is not as it was shipped: the folder's own manifest does not have it, or
 * has it with other content. A manifest that the job has damaged makes more files count, or fewer
 * of the job's own; it leads nowhere else. Left out are our own state, the caches of Python
 * (__pycache__, unless the path asked for leads into one) and volumes that are mounted inside.
 *
 * - 'E' entry: a file, of a list; a link, of a list and among contents. The hash of a file is the one
 *   that it was shipped with, zero: it was not
 * - 'B' blob: a piece of a file, in order, with the same hash; an empty file is one empty piece
 * - 'X' words: what was left out, and why (links that lead out of the folder, sockets, what cannot be
 *   read)
 * - 'C' the end. Without it the stream was cut; the last words, if any, say why.
 *
 * The folder's owner is not trusted, and the folder changes while it is read. It is walked
 * one name at a time from an open descriptor, never through a link; what is no regular file is
 * never opened. A turn costs a bounded time and memory, so that many can share a thread. */
#define RESULTS_FILES_MAX    ((size_t)100000)
#define RESULTS_LOOKS_MAX    ((size_t)2 << 20) /* entries of folders, WS_ENTRIES_MAX as shipped */
#define RESULTS_DEPTH_MAX    64
#define RESULTS_WORDS_MAX    100                /* 'X' frames */
#define RESULTS_MANIFEST_MAX ((size_t)16 << 20) /* 170,000 files with paths of 60 bytes */
/* One turn: a millisecond or two each. */
#define RESULTS_TURN_BYTES  ((size_t)1 << 20)
#define RESULTS_TURN_HASHED ((uint64_t)8 << 20)
#define RESULTS_TURN_LOOKS  1000

/* Ends the words about a file whose end is not there because it was written to. What only grows comes as far as it
 * was when it was opened. */
#define RESULTS_MEANWHILE "while it was read"

struct results_request {
    struct str path; /* only what is there: a file or a folder; empty: everything */
    bool list;       /* entries instead of contents */
    bool strip;      /* remove what is as it was shipped: nobody works there any more */
};

struct results;

/* Takes the descriptor of the folder; the path is copied. */
struct results *results_new(int root_fd, const struct results_request *request);
/* Adds frames to `out`. 1: there is more; 0: that was all; -errno: err (and the last frame) says
 * why. */
int results_turn(struct results *results, struct buf *out, struct err *err);
/* NULL is fine. */
void results_free(struct results *results);
/* The folder `path` (relative, empty: the root itself) below a descriptor, one part at a time and
 * never through a link: a descriptor or -errno. */
int results_folder(int root_fd, struct str path);

/* ---- the other end: files come to be in a folder, and nowhere else ----
 *
 * A file has no name until it is whole (a name of our own where the volume cannot do that; what a killed copy left
 * goes with the next). What is there already is replaced only with `force`; a link in the way is never followed.
 *
 * With `expect` it is replaced only if it is that very file: the two change places, and if another one
 * comes out it goes back. What was replaced is then in RESULTS_REPLACED/JOB. What may not be replaced has the
 * new file beside it, with `aside` (".JOB") behind its name. */
#define RESULTS_REPLACED WS_PRIVATE_DIR "/replaced"

/* A file as it was when it was looked at. No program can set the last one back. */
struct results_id {
    uint64_t inode; /* 0: none */
    uint64_t size;
    int64_t modified_ns;
    int64_t changed_ns;
};
struct stat;
struct timespec;
int64_t results_ns(struct timespec time);
struct results_id results_id(const struct stat *st);
bool results_id_eq(const struct results_id *a, const struct results_id *b);

struct results_sink {
    int root_fd; /* -1: not open */
    bool force;
    const struct results_id *expect; /* of the file that begins next; NULL: by `force` */
    bool drop;         /* what is replaced by it was the job's own, and need not be kept */
    const char *aside; /* NULL: what may not be replaced fails the copy */
    void (*placed)(void *user,
                   const char *path,
                   const struct results_id *id); /* NULL: nobody asks */
    /* What is written next goes beside this file of its folder, unless it is the same: then it is not
     * needed, and `same` is told. NULL: none. */
    const char *twin;
    void (*same)(void *user);
    /* A file that cannot be put in its place, as in a folder that is not ours: it is told, and the others
     * come. NULL: the copy ends there. What is wrong with the whole volume ends it anyway. */
    void (*failed)(void *user, const struct err *err);
    void *placed_user;  /* of the three */
    bool skipping;      /* what is left of such a file */
    uint64_t bytes_max; /* of all files; 0: no limit */
    uint64_t bytes;
    size_t file_count;
    size_t cut_count; /* files whose end did not come: they are not there */
    /* the file that is being written */
    int fd;
    int parent_fd; /* of the walk, or root_fd */
    struct disk_walk walk;
    uint64_t size;
    uint64_t have;
    uint32_t mode;
    struct results_id old; /* what may be replaced; no inode: nothing, or anything with `force` */
    const char *target;    /* of the link that is being made; NULL: it is a file */
    char path[WS_PATH_MAX + 1];
    /* where it stands for now; no name: nowhere */
    int at_fd;
    char at_name[WS_NAME_MAX + 1];
    struct disk_walk kept_walk; /* in RESULTS_REPLACED */
    ino_t cleared;              /* the folder that was cleared of what was left */
    bool named;                 /* as on a volume that has no files without a name */
};

/* Makes the folder, with its parents, where it is missing. */
int results_sink_open(struct results_sink *sink, const char *folder, bool force, struct err *err);
/* One piece. -EPROTO: it is not the next one, or its path leads elsewhere; -EEXIST names a file
 * that is there already. */
int results_put(struct results_sink *sink, const struct frame_blob *blob, struct err *err);
/* A link, the same way. Its target is checked. */
int results_put_link(struct results_sink *sink, const struct ws_entry *entry, struct err *err);
/* Is there something at this path? A folder that the path needs and that is no folder counts. */
bool results_exists(int root_fd, struct str path);
void results_sink_done(struct results_sink *sink);
