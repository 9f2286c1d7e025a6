#pragma once

#include "base/str.h"
#include "workspace/hash.h"
#include "workspace/manifest.h"
#include "workspace/rules.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct statcache;

/* scan: what is in a folder, as a manifest.
 *
 * With options, as the plugin uses it: what the rules say (workspace/rules.h) is left out, and what
 * cannot travel (sockets, devices, what cannot be read) is left out and passed to `note`. Contents are hashed only where asked: the first upload hashes while it sends, and
 * later ones know the hash of a file whose stat data did not change from the cache.
 *
 * Without options everything is taken and hashed: a volume that is adopted as it is. */
struct scan_options {
    struct rules_options rules; /* `note` and `user` are those of the scan too */
    bool hash;                  /* read what the cache does not know */
    bool links_out;             /* links that point outside are sent, with their whole path */
    struct statcache *cache;    /* knows hashes of files that did not change; may be NULL */
};

/* Fills and finishes `manifest`. A file whose hash is not known (not asked for, not in the cache)
 * has a hash of zero; once those are learnt (workspace/outbox.h), the manifest is finished again.
 */
int scan_folder(const char *root,
                const struct scan_options *options,
                struct manifest *manifest,
                struct err *err);

/* The same for one path (a file, or a folder with what is in it): adds what is there now, nothing
 * when it is gone or ignored. The manifest is not finished. */
int scan_path(const char *root,
              struct str path,
              const struct scan_options *options,
              struct manifest *manifest,
              struct err *err);
