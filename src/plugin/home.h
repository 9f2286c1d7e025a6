#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct session;

/* home: what a job wrote comes back to the folder that it was submitted from; of the jobs of an array into
 * a folder with the job's name in it.
 *
 * A record of this person (plugin/home_record.h) says where that is, the moment at which the folder was
 * read, on the clock of its own file system, and what has come home already; the job carries the record's
 * name. A file is replaced by the job's only while it is what was shipped, what came home before, or,
 * where it was not sent, what it was at that moment: its ctime, which no program can set back, and that of
 * the folders it is in, because a folder that is moved leaves the files in it as they are. Any other
 * is the person's newer work: it stays, and the job's is put beside it, as NAME.JOB. What is replaced is kept
 * (RESULTS_REPLACED). */
#define HOME_FOLDER "muster.dev/home-folder" /* annotation, for people: the folder */
#define HOME_HOST   "muster.dev/home-host"   /* annotation, for people: of which machine */
#define HOME_RECORD "muster.dev/home-record" /* annotation: the record's name */

/* What is at a path of the folder now. */
struct home_place {
    bool there;
    bool is_file;
    bool brought;       /* it came home before, and is as it was then */
    int64_t changed_ns; /* of itself */
    int64_t folders_ns; /* the same of the folders that it is in, the newest; 0: it is in none */
    enum {
        HOME_NOT_SENT,
        HOME_AS_SENT, /* its content is what was shipped */
        HOME_NOT_AS_SENT,
    } sent;
};

enum home_verdict {
    HOME_NEW,     /* nothing is there */
    HOME_REPLACE, /* nothing of the person's would be lost */
    HOME_ASIDE,   /* the person's newer work, or no file at all */
    HOME_SAME,    /* a link that is there already */
};

/* How much of what a job wrote comes by itself; more is left where it is, and pulled when asked for.
 */
#define HOME_BYTES_MAX ((uint64_t)20 << 30)
enum home_weight {
    HOME_FITS,
    HOME_NEARLY, /* more than four fifths of what may come */
    HOME_TOO_MUCH,
};
/* `most` 0: HOME_BYTES_MAX. */
enum home_weight home_weigh(uint64_t bytes, int64_t most);

/* One copy at a time into a folder: a second one would find what the first brings, and take it for the person's. The
 * descriptor is the lock, until it is closed; -EWOULDBLOCK: another has it, and without `wait` that is all; -errno:
 * the volume knows no locks. */
int home_lock(const char *folder, bool wait);
/* Now, by the clock of the file system that the folder is on. */
int64_t home_moment(const char *folder);
/* Copies what the first pod of the job wrote, or each job of an array, into the folder that it came
 * from, and says what came and where. A job without a home, from another machine or of somebody else:
 * -ENOENT in words. -ESRCH: there is nothing to be had. 0: all of it is home. A job that was deleted is
 * looked for by its name. */
int home_bring(struct session *session, const char *job, struct err *err);
/* Words of a command that are folders outside `folder` which the job cannot write to: "/data/out"
 * of --out=/data/out. One at a time: *at is where to look from, 0 at first. Empty: no more. */
struct str home_outside(struct str command, const char *folder, size_t *at);
