#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct session;

/* home: what a job wrote comes back to the folder that it was submitted from.
 *
 * A record of this person (plugin/home_record.h) says where that is, and the moment at which the
 * folder was read, on the clock of its own file system; the job carries the record's name. A file that has not changed since then is replaced by the job's; one that has
 * is the person's newer work and is never touched, only named. The moment is the file's ctime,
 * which no program can set back. */
#define HOME_FOLDER "muster.dev/home-folder" /* annotation, for people: the folder */
#define HOME_HOST   "muster.dev/home-host"   /* annotation, for people: of which machine */
#define HOME_RECORD "muster.dev/home-record" /* annotation: the record's name */

/* What is at a path of the folder now. */
struct home_place {
    bool there;
    bool is_file;
    int64_t changed_ns;
};

enum home_verdict {
    HOME_NEW,     /* nothing is there */
    HOME_REPLACE, /* a file that has not changed since */
    HOME_KEEP,    /* changed meanwhile, or no file at all */
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

enum home_verdict home_judge(const struct home_place *place, int64_t since_ns);
/* Now, by the clock of the file system that the folder is on. */
int64_t home_moment(const char *folder);
/* Copies what the first pod of the job wrote into the folder that the job came from, and says
 * what came and what did not. A job without a home, from another machine or of
 * somebody else: -ENOENT in words. */
int home_bring(struct session *session, const char *job, struct err *err);
/* Words of a command that are folders outside `folder` which the job cannot write to: "/data/out"
 * of --out=/data/out. One at a time: *at is where to look from, 0 at first. Empty: no more. */
struct str home_outside(struct str command, const char *folder, size_t *at);
