#pragma once

#include "shim/shim.h"

#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/* shim_parts: what muster-shim is made of. Libc only: it is a static program, and one runs beside
 * every pod, so it keeps no more than it needs in memory and allocates nothing it does not free. */

/* ---- records (records.c): spec files, mapped and cut in place, once: some thirty questions follow ---- */
struct record {
    const char *name; /* points into the map; ended by '=' there, so compare with record_is() */
    size_t name_len;
    const char *value; /* NUL-terminated */
};
struct records {
    char *p;
    size_t len;
    struct record *items;
    size_t count;
};
int records_open(struct records *records, int dirfd, const char *path);
/* Of bytes that are in memory, of which the last is NUL: 0 or -errno. */
int records_cut(struct records *records);
void records_close(struct records *records);
/* Walk: start with *next 0; false at the end. */
bool records_next(const struct records *records, size_t *next, struct record *ret);
bool record_is(const struct record *record, const char *name);
/* The first record of that name, or NULL. */
const char *records_get(const struct records *records, const char *name);
bool records_has(const struct records *records, const char *name, const char *value);
long records_number(const struct records *records, const char *name, long otherwise);

/* ---- log files (log.c) ---- */
struct log_stream {
    int fd;           /* read end of the pipe, -1 when closed */
    const char *name; /* stdout or stderr */
    char *line;       /* SHIM_LINE_BYTES, made when first needed */
    size_t len;
};
struct logfile {
    int fd;
    char path[SHIM_NAME_BYTES + 64];
    off_t bytes;
    off_t bytes_max;
    int tee_fd; /* a copy goes here; -1: none */
};
int logfile_open(struct logfile *log, const char *path, off_t bytes_max);
/* Take what can be read. False when the stream has ended (and is closed). */
bool logfile_take(struct logfile *log, struct log_stream *stream);
/* Write a last line without its newline. */
void logfile_flush(struct logfile *log, struct log_stream *stream);
void logfile_close(struct logfile *log);

/* ---- what survives (exit.c) ---- */
#define SHIM_PATH_BYTES (SHIM_NAME_BYTES + 64) /* c/<name>/<n>.exit.new and the like */
/* The instance is about to start. -EEXIST: it was begun before. That lasts once exit_begun() has
 * returned 0; where it fails, it was not begun. */
int exit_begin(const char *path);
int exit_begun(const char *path);
/* The exit file, on the disk when this returns 0; readers see it whole or not at all. */
int exit_write(const char *path, const char *text);

/* ---- what a child says before it becomes its program (report.c) ---- */
struct report {
    int code; /* 0: its terminal comes with it; else what went wrong, -errno */
    char text[256];
};
/* One packet, with the descriptor, unless it is -1; returns what sendmsg() does. */
ssize_t packet_send(int socket_fd, const struct iovec *bytes, int fd, int flags);
/* The same for a report. 0 or -EIO. */
int report_send(int socket_fd, const struct report *report, int fd);
/* The next thing that it says; `flags` of recvmsg(). Above 0: there is more to come. 0: it has exec'd, and its side of the
 * socket closed with that. Else what it says went wrong; -EAGAIN: nothing yet. */
int report_next(int socket_fd, int flags, int *ret_master, char words[static 256]);
/* Until the last of it. -ECHILD without words: it ended before, and said nothing. -ETIMEDOUT: the socket has a limit. */
int report_await(int socket_fd, int *ret_master, char words[static 256]);
/* "step path: reason", by errno; returns -errno. */
int shim_fail(char words[static 256], const char *step, const char *what);

/* ---- a container's first process (child.c) ---- */
struct child_request {
    const struct records *spec;
    const char *folder; /* c/<name>, relative to the pod's folder */
    unsigned instance;
    int stdio[3];  /* -1: /dev/null */
    bool terminal; /* in one of its own; stdio is not used */
    int join_fd;   /* exec: pidfd of the container to join, else -1 */
    int pid_fd;    /* pidfd of who shares its pid namespace with it, else -1 */
    /* The file of exit_begin(), which is on the disk before the program runs: it gets there while
     * the file system is put together. NULL: none. */
    const char *begun;
};
/* Start it and wait until it has exec'd or failed. Returns the pid, or -errno with what went wrong
 * in `words`. With a terminal, *ret_master is its master side. */
pid_t child_start(const struct child_request *request, int *ret_master, char words[static 256]);
/* The same without waiting: *ret_report tells. The caller closes it, and reaps the child. */
pid_t child_begin(const struct child_request *request, int *ret_report, char words[static 256]);

/* ---- control groups and kernel settings (groups.c): 0, or -errno with what could not be had in `words` ---- */
/* Its groups, and what is written there: before the child is born. */
int groups_make(const struct records *spec, char words[static 256]);
/* Kernel settings of the pod's own namespaces, which this process is in. */
int groups_kernel(const struct records *spec, char words[static 256]);
/* In the child, where it was not born into its group. */
int groups_join(const struct records *spec, char words[static 256]);

/* ---- commands inside a container (execs.c) ---- */
#define EXECS_MAX 64 /* at a time, in all containers of the pod */
struct exec_session {
    unsigned long id;
    pid_t pid;     /* 0: free */
    int report_fd; /* until it has become its program; -1 then */
    int master_fd; /* of its terminal, until the agent has it */
    bool told;     /* that it ended, or never began */
};
struct exec_order {
    unsigned long id;
    int join_fd; /* pidfd of whom it joins; -1: nobody is there */
    const int *fds;
    int fd_count; /* 0: a terminal */
};
void execs_start(struct exec_session execs[static EXECS_MAX],
                 const struct exec_order *order,
                 const struct records *spec);
/* What to wait for, EXECS_MAX at most; and when there is something. */
nfds_t execs_poll(const struct exec_session execs[static EXECS_MAX], struct pollfd *polls);
void execs_hear(struct exec_session execs[static EXECS_MAX]);
/* False: it was none of them. */
bool execs_reaped(struct exec_session execs[static EXECS_MAX], pid_t pid, int status);
void execs_signal(const struct exec_session execs[static EXECS_MAX], unsigned long id, int sig);

/* ---- telling the agent (muster-shim.c): one message, with a descriptor unless fd is -1 ---- */
void shim_tell(int fd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- root file system and mounts (mount.c), run inside the child ---- */
/* Both return 0, or -errno with the step and path in `words`. */
int mounts_make(const struct child_request *request, char words[static 256]);

/* ---- home folders (homes.c), run inside the child ---- */
/* The folder `path` inside the root, made with its parents where missing; a descriptor. */
int folder_make_in(int root_fd, const char *path);
/* What the records "shut" and "keep" say. */
int homes_shut(int root_fd, const struct records *spec, char words[static 256]);

/* ---- mount points made beforehand (points.c), run by the spawner ---- */
/* From now on `folder` has the paths, those that end in a slash as folders; and an empty folder that nobody may
 * enter, for what is to be covered. */
#define POINTS_NOTHING "/.muster/nothing"
int points_make(const char *folder, char *const paths[]);

/* ---- the pod's namespaces (sandbox.c): this process is in them from then on ---- */
int sandbox_make(const struct records *pod);

/* ---- muster-shim --spawner (spawner.c) ---- */
/* `run` is called in a process of its own for every pod; its result is the exit status there. */
int spawner_run(const char *points, char *const paths[], int (*run)(const char *folder));

/* ---- network namespace (net.c): this process is in it from then on ---- */
int network_make(const struct records *pod);

/* ---- privileges (privilege.c), run inside the child, last before exec ---- */
int privileges_drop(const struct records *spec, char words[static 256]);

/* Digits of base 10 or 16 (lower case) at the start of the text; returns how many there were. */
size_t shim_number(const char *text, unsigned base, uint64_t *ret);
int64_t shim_now_ms(void);
