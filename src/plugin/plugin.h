#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "kube/kubeconfig.h"
#include "plugin/ship.h"
#include "tool/option.h"
#include "tool/term.h"
#include "workspace/statcache.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct api;
struct api_request;
struct buf;
struct client;
struct json;
struct kind;
struct view_objects;
struct kube;
struct object;
struct timer;

/* kubectl-torchrun: one file a command; this header is what they share.
 *
 * A command opens a session (where the cluster is, who we are, which terminal), sends requests, and
 * closes it. Calls here wait: they turn the loop until the answer is there, so watches and streams
 * that a command has started go on meanwhile. */
#define SYNC_PROXY_LIMIT_MS 30000

/* Every command has these, first in its values. */
struct common_values {
    const char *kubeconfig;
    const char *context;
    const char *ns;
};

#define COMMON_OPTIONS                                                                             \
    {"kubeconfig",                                                                                 \
     0,                                                                                            \
     OPTION_STR,                                                                                   \
     offsetof(struct common_values, kubeconfig),                                                   \
     .value = "FILE",                                                                              \
     .help =                                                                                       \
         "kubeconfig of the cluster (default: the one that kubectl uses, else that of muster up)", \
     .flag_only = true},                                                                           \
        {"context",        0,                                                                      \
         OPTION_STR,       offsetof(struct common_values, context),                                \
         .value = "NAME",  .help = "context of the kubeconfig (default: its current one)",         \
         .flag_only = true},                                                                       \
    {                                                                                              \
        "namespace", 'n', OPTION_STR, offsetof(struct common_values, ns),                          \
            .value = "NS", .help = "namespace (default: the context's)", .flag_only = true         \
    }

enum output {
    OUTPUT_TABLE,
    OUTPUT_WIDE,
    OUTPUT_JSON,
    OUTPUT_YAML,
    OUTPUT_NAME,
};
extern const char *const output_names[];

struct session {
    struct arena arena;        /* of the work; `top` empties it every second */
    struct arena config_arena; /* of `config` */
    uv_loop_t loop;
    struct kube_config config;
    struct kube *kube;
    struct api *api;
    struct client *client;
    struct term out;     /* stdout: data */
    struct term err;     /* stderr: words */
    const char *program; /* as it is called: "kubectl torchrun", "muster" */
    const char *command;
    struct timer *timer;    /* ends a turn of the loop */
    struct str sync_job;    /* whose header this is; on config_arena */
    struct str sync_header; /* see sync_header() */
};

/* Which cluster, when no flag names one. */
enum session_place {
    SESSION_ANYWHERE, /* the one that kubectl uses, else the muster of this machine */
    SESSION_NEAR,     /* the muster of this machine if there is one, else the same */
    SESSION_HERE,     /* the muster of this machine, which is started if there is none */
};

int session_open(struct session *session, const struct invocation *invocation, struct err *err);
int session_open_at(struct session *session,
                    const struct invocation *invocation,
                    enum session_place place,
                    struct err *err);
void session_close(struct session *session);
/* The API server is on this machine. */
bool session_is_local(const struct session *session);
/* A session that has not been opened, for words before that. */
struct session session_closed(const struct invocation *invocation);
/* "kubectl torchrun submit: ..." on stderr, one line; returns the exit status 1. */
int session_fail(struct session *session, const struct err *err);
/* A sentence for the person, on stderr. */
void session_say(struct session *session, const char *fmt, ...) _printf_(2, 3);

/* One call on struct api. *ret_object (may be NULL) gets a reference. */
int session_call(struct session *session,
                 const struct api_request *request,
                 struct object **ret_object,
                 struct err *err);
/* NULL and -ENOENT when it does not exist. */
int session_get(struct session *session,
                const struct kind *kind,
                const char *name,
                struct object **ret,
                struct err *err);
/* All objects of a kind in the namespace (or all namespaces: ns "*"); references in *ret, on the
 * session's arena. */
int session_list(struct session *session,
                 const struct kind *kind,
                 const char *ns,
                 const char *label_selector,
                 const struct object ***ret,
                 size_t *ret_count,
                 struct err *err);
/* The pods of a TorchrunJob, by owner (job_owns()). */
int session_list_pods(struct session *session,
                      const char *job,
                      const struct object ***ret,
                      size_t *ret_count,
                      struct err *err);
/* As session_list(), and nothing where that is refused. */
void session_list_if(struct session *session,
                     const struct kind *kind,
                     const char *ns,
                     const char *label_selector,
                     struct view_objects *ret);
/* A merge patch of one object. */
int session_patch(struct session *session,
                  const struct kind *kind,
                  const char *name,
                  struct str patch,
                  struct err *err);

/* A plain request beside struct api: logs, the sync pod. The body of the answer is on the session's
 * arena. Returns the HTTP status, or -errno when no answer came. */
struct session_request {
    const char *method;
    struct str path;
    const char *content_type;
    struct str body;
    struct str header; /* one more, "Name: value"; empty: none */
    int64_t timeout_ms;
};
int session_http(struct session *session,
                 const struct session_request *request,
                 struct str *ret_body,
                 struct err *err);
/* 1: the API server is muster's own, which can do more than Kubernetes'; 0: it is another one;
 * negative: it did not answer, and nothing is guessed. */
int session_is_muster(struct session *session, struct err *err);
/* The message of a Kubernetes Status, or the text itself. */
struct str session_error_text(struct session *session, struct str body);
/* Turn the loop for about so long, or until something happened. */
void session_turn(struct session *session, int64_t limit_ms);
void session_pause(struct session *session, int64_t pause_ms);

/* ---- the sync pod's service, behind the API server ---- */
/* The path of a request: ".../proxy/v1/state". */
struct str sync_path(struct session *session, const char *job, const char *what);
/* The path of a commit, which tells the sync pod's log who sent it. */
struct str sync_commit_path(struct session *session, const char *job);
/* The header that shows the job's secret (workspace/door.h), read with the person's own rights;
 * empty: the job has none, as those of an older muster. Asked for once a job. */
int sync_header(struct session *session, const char *job, struct str *ret, struct err *err);
/* session_http() with that header. -EACCES: the person may not read the secret, in words. */
int sync_http(struct session *session,
              const char *job,
              const struct session_request *request,
              struct str *ret_body,
              struct err *err);

/* The job that an argument names, as "name" or "torchrunjob/name"; without one the newest of the namespace,
 * which is said. NULL: there is none. */
const char *session_job(struct session *session,
                        const struct invocation *invocation,
                        struct err *err);
/* A link that signs in at the web page, once, as whom the kubeconfig names. */
int open_link(struct session *session, const char **ret, struct err *err);

/* The queue of a job that names none: the only one there is, or the one named `default`. */
int precheck_choose_queue(struct session *session, const char **ret, struct err *err);
/* One look before anything is sent: the queue exists, some node could ever hold such a pod, and the
 * queue's limit allows it. What cannot be is said with the nearest that would work. */
int precheck_job(struct session *session, const struct json *job, struct err *err);
/* A note where memory was asked for and nothing holds a job to it. */
void precheck_say_limits(struct session *session);

/* ---- follow: logs of all ranks, and how the gang forms, until the job ends ---- */
struct follow_options {
    const char *job;
    bool watch; /* until the end; false: what there is now */
    bool previous;
    int64_t rank;       /* -1: all */
    int64_t tail;       /* -1: all lines */
    int64_t generation; /* -1: the newest */
    bool quiet;         /* logs only, no words about the job */
    bool run;           /* the job is the person's command: what interrupts it, cancels it */
    bool view;          /* the person only looks on: Ctrl-C leaves */
    bool *ret_ended;    /* NULL, or whether the job was seen to end */
};
/* Returns the exit status of the training (or 0 when it was left running: detached), or -errno. */
int follow_job(struct session *session, const struct follow_options *options, struct err *err);

/* A line of a pod's log as the person sees it: "[rank3] text" or "[worker-0] text". Lines of other
 * ranks than `only` are left out, unless it is -1. False: it was left out. */
bool follow_show_line(struct session *session, int64_t only, struct str pod, struct str line);

/* ---- kept: logs of a generation whose pods are gone ---- */
int kept_logs(struct session *session, const struct follow_options *options, struct err *err);
/* Of this generation, what nodes keep of pods that are gone: those that still ran when the job was
 * over, for instance. */
int kept_of_gone(struct session *session, const struct follow_options *options, struct err *err);
/* The generation that the job is in. */
int kept_generation(struct session *session,
                    const char *job,
                    int64_t *ret_current,
                    struct err *err);

/* ---- upload: bring a folder to the job's sync pod ---- */
struct upload {
    const char *folder;
    const char *command;       /* that will run there; NULL: not known */
    struct ship ship;          /* what was left out */
    struct manifest *manifest; /* scanned; finished afterwards */
    struct statcache cache;
    int64_t began_ms; /* when the sync pod was there */
    int64_t took_ms;  /* from then to the commit */
    bool unchanged;
    bool interrupted; /* set from outside, as by Ctrl-C: it ends soon, with -EINTR */
    char revision[40];
};
#define UPLOAD_LARGE_BYTES ((uint64_t)1 << 30)
struct ws_entry;
/* The next file of at least so many bytes; *at is 0 at first. NULL: no more. */
const struct ws_entry *upload_next_large(const struct manifest *manifest, size_t *at);
int upload_scan(struct session *session, struct upload *upload, struct err *err);
int upload_run(struct session *session, const char *job, struct upload *upload, struct err *err);
void upload_done(struct upload *upload);
/* Tells the job which revision it has: one that waits for its folder starts now. */
int upload_tell(struct session *session, const char *job, const char *revision, struct err *err);

/* A tree as JSON for people, or as YAML. */
void print_tree(struct buf *out, bool yaml, const struct json *tree);
/* -o json|yaml|name: one object as it is, several as a List. */
void print_objects(struct session *session,
                   int output,
                   const struct object **objects,
                   size_t count);

extern const struct command command_autopsy;
extern const struct command command_cancel;
extern const struct command command_checkpoints;
extern const struct command command_exec;
extern const struct command command_explain;
extern const struct command command_history;
extern const struct command command_pull;
extern const struct command command_queues;
extern const struct command command_report;
extern const struct command command_restart;
extern const struct command command_run;
extern const struct command command_stop;
extern const struct command command_wait;
extern const struct command command_resume;
extern const struct command command_open_job;
/* Of `muster open` too, whose values begin with struct common_values. */
int open_job_run(struct invocation *invocation);
extern const struct command command_scale;
extern const struct command command_shell;
extern const struct command command_status;
extern const struct command command_suspend;
extern const struct command command_top;
extern const struct command command_submit;
extern const struct command command_list;
extern const struct command command_logs;
extern const struct command command_delete;
extern const struct command command_sync;
