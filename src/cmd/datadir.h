#pragma once

#include "base/buf.h"
#include "base/str.h"

#include <stdint.h>

struct arena;
struct err;

/* datadir: the folder that `muster up` keeps everything in.
 *
 *     DIR/lock            held while a muster runs on it
 *     DIR/store.db        the objects (src/store)
 *     DIR/tls/            certificate authority, server certificate and key; front-proxy.*: by
 *                         which other API servers know this one
 *     DIR/token           of the owner; DIR/token-key signs ServiceAccount tokens,
 *                         DIR/token-key.pem those that others check
 *     DIR/kubeconfig      for kubectl, with authority and token inside
 *     DIR/kubeconfigs     where others were written: the node agent hides them from pods
 *
 * The folder is 0700 and its files 0600: anyone who can read the token has full access. */
struct datadir {
    const char *path; /* absolute */
    int lock_fd;
    struct str ca;
    struct str certificate;
    struct str key;
    struct str proxy_ca;
    struct str proxy_certificate;
    struct str proxy_key;
    struct str token;
    struct str token_key;
};

/* ~/.local/share/muster ($XDG_DATA_HOME honoured), /var/lib/muster for root. */
const char *datadir_default(struct arena *arena);
/* The folder whose kubeconfig $KUBECONFIG is, where it is one's, else the default: of the muster that is meant. */
const char *datadir_meant(struct arena *arena);

/* Make the folder and what is missing in it, with a certificate for `hosts` (see tls_make()), lock it, and read the rest. Strings live in the arena.
 * One line says what is wrong: not writable, in use by another muster, ... */
int datadir_open(struct arena *arena,
                 const char *path,
                 const char *const *hosts,
                 struct datadir *ret,
                 struct err *err);
/* Only the folder and its lock: for who changes it while no muster runs on it. */
int datadir_hold(struct arena *arena, const char *path, struct datadir *ret, struct err *err);
void datadir_close(struct datadir *dir);

/* A file of the folder: "DIR/name". */
const char *datadir_file(struct arena *arena, const struct datadir *dir, const char *name);

/* A kubeconfig with the owner's token will be written there: made absolute, and noted down. */
int datadir_note_kubeconfig(struct arena *arena,
                            const char *folder,
                            const char *path,
                            const char **ret_path,
                            struct err *err);
/* A file with the owner's token, 0600. One that is there stays the same file, or it would come out
 * from under what hides it from the pods that run. */
int datadir_write_secret(const char *path, struct str text, struct err *err);

/* Write a kubeconfig for `server` ("https://127.0.0.1:7443"), 0600. */
int datadir_write_kubeconfig(const struct datadir *dir,
                             const char *path,
                             const char *server,
                             struct err *err);
