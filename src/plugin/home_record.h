#pragma once

#include "base/str.h"
#include "base/vec.h"
#include "workspace/results.h"

#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;

/* home_record: which folder of this person a job came from, kept on this person's machine.
 *
 * A job can be written by others than the one who submitted it, so what it says about folders is
 * not to be trusted: it carries only the name of a record that is in this person's own state
 * folder, and the record says for which job it is. Records that nobody has written to for a year are removed
 * when a new one is made: a job may run for months. */
#define HOME_ID_BYTES 32 /* hexadecimal digits */

/* A file that has come home, as it was then: while it is that, it may be replaced by a newer one of the job. */
struct home_file {
    struct str path; /* in the folder */
    struct results_id id;
};

struct home_record {
    struct str ns;
    struct str job;
    struct str folder; /* absolute */
    int64_t since_ns;  /* when it was read, on the clock of its file system */
    int64_t bytes_max; /* of what may come by itself; 0: HOME_BYTES_MAX */
    struct str server; /* the API server of its cluster */
    struct str array;  /* the indexes of an array; empty: it is none */
    struct home_files VEC_FIELDS(struct home_file) files; /* on the arena */
    size_t sorted;                                        /* the first so many of them, by path */
};

/* A name for a new record. */
int home_record_name(char id[HOME_ID_BYTES + 1], struct err *err);
int home_record_write(struct arena *arena,
                      const char *id,
                      const struct home_record *record,
                      struct err *err);
/* All of jobs of a cluster that is gone; the folders go too when nothing else is in them. */
void home_record_remove_of(struct arena *arena, const char *server);
/* The newest of this person for a job of that name, which need not exist any more; -ENOENT: there is none. */
int home_record_find(struct arena *arena,
                     const struct home_record *like,
                     char id[HOME_ID_BYTES + 1],
                     struct err *err);
/* The file at that path; NULL: none came there. */
const struct results_id *home_record_file(const struct home_record *record, struct str path);
void home_record_sort(struct home_record *record);
/* It has come now; the path is copied. Looked for is only among those that were read. */
void home_record_add(struct arena *arena,
                     struct home_record *record,
                     struct str path,
                     const struct results_id *id);
/* -ENOENT in words where this person has no such record, or it is another job's. */
int home_record_read(struct arena *arena,
                     struct str id,
                     struct str ns,
                     struct str job,
                     struct home_record *ret,
                     struct err *err);
