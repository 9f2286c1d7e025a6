#pragma once

#include "base/str.h"
#include "base/vec.h"
#include "workspace/rules.h"
#include "workspace/scan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;
struct manifest;
struct session;

/* ship: what of this machine is never sent to a job, and when to ask before anything is.
 *
 * Muster's own folders and what a home folder keeps of credentials and caches stay here wherever
 * they lie in what is sent. A whole home folder, and what is very large, is sent only to somebody
 * who says so: by --dir, or at the terminal. */
#define SHIP_HIDDEN_MAX 48
#define SHIP_ASK_BYTES  ((uint64_t)10 << 30)

/* Things left out by the rules of one file, counted; a few are named. */
struct ship_left {
    struct str file; /* ".gitignore"; "" for our own rules */
    struct str names;
    size_t count;
};

struct ship {
    struct session *session;
    struct rules_hidden hidden[SHIP_HIDDEN_MAX];
    size_t hidden_count;
    VEC(struct ship_left) left;
};

enum ship_place {
    SHIP_PLAIN,
    SHIP_ROOT, /* "/", or a folder that has homes in it */
    SHIP_HOME,
};

/* What a folder is; both are absolute and have no links in them. `home` may be NULL. */
enum ship_place ship_place_of(const char *folder, const char *home);
/* Looks where the hidden places are. What is remembered is on the session's arena. */
void ship_open(struct ship *ship, struct session *session);
/* The options of a scan of a folder that goes to a job with this command (NULL: not known); the ship
 * must live as long. Warnings are said, and what is left out is remembered for ship_say(). */
struct scan_options ship_scan(struct ship *ship, const char *command);
/* Before the scan: may all of this folder be looked at? `named`: the person wrote --dir. */
int ship_check_folder(struct session *session, const char *folder, bool named, struct err *err);
/* After it: may so much be sent? */
int ship_check_size(struct session *session,
                    const struct manifest *manifest,
                    bool named,
                    struct err *err);
/* What was left out, a line for each file with rules. */
void ship_say(const struct ship *ship);
/* The words of such a line behind "left out"; for tests. */
struct str ship_words(struct arena *arena, const struct ship_left *left);
