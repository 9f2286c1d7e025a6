#pragma once

#include "shim/shim.h"

#include <stdbool.h>

/* shim_message: the words of shim/shim.h, read. Libc only: both sides use it. What one side does
 * not know, or what is wrong in it, is not answered: the functions return false. */

enum shim_verb {
    SHIM_START,
    SHIM_SIGNAL,
    SHIM_EXEC,
    SHIM_EXECSIGNAL,
    SHIM_ATTACH,
    SHIM_TEE,
    SHIM_STATE,
    SHIM_STOP,
};

/* What the agent tells a shim. Names and files are single words that can be parts of a path. */
struct shim_order {
    enum shim_verb verb;
    char name[SHIM_NAME_BYTES];
    char file[SHIM_NAME_BYTES];
    unsigned instance;
    unsigned long id;
    int signal;
    bool forget; /* stop: and do not wait for exit files */
};
bool shim_order_parse(const char *text, struct shim_order *ret);

/* What a shim tells of a container: started, running, ended or exited. */
struct shim_event {
    char name[SHIM_NAME_BYTES];
    unsigned instance;
    bool exited;
    const char *end;      /* ended: the text of its exit file, in `text`; else NULL */
    int pid;              /* unless exited or ended */
    long long started_ms; /* unless exited or ended */
};
bool shim_event_parse(const char *text, struct shim_event *ret);

/* An exit file. */
struct shim_exit {
    int code;
    int signal;
    long long started_ms;
    long long ended_ms;
    bool oom;
    bool never_started;
    bool lost;
    const char *words; /* behind the first line, in `text` */
};
bool shim_exit_parse(const char *text, struct shim_exit *ret);
