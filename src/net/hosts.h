#pragma once

#include "base/str.h"
#include "net/pods.h"

#include <stdbool.h>
#include <stdint.h>

struct bridge;
struct cache;
struct err;
struct hosts;

/* hosts: the names that pods can use, as lines of each pod's own /etc/hosts: pods with a subdomain,
 * services, the API server. The files are rewritten when pods or services come and go. */
struct hosts_options {
    const struct cache *cache; /* of services */
    struct net_pods pods;
    const struct bridge *bridge; /* NULL: none; only looked at by hosts_new() */
    uint64_t seed;               /* of hash tables */
};

struct hosts *hosts_new(const struct hosts_options *options);
void hosts_free(struct hosts *hosts);

/* A pod with names, or a service, came or went: files may have to be written. */
void hosts_changed(struct hosts *hosts);
/* Whether that was so since the last call. */
bool hosts_take_changed(struct hosts *hosts);
/* Do other pods have names for this one? */
bool hosts_matter(const struct hosts *hosts, const struct net_pod *pod);

/* Write the file `hosts` in the pod's folder, unless it has that content: *hash is of what was
 * written last, 0 at first. */
int hosts_write(struct hosts *hosts,
                const struct net_pod *pod,
                const char *folder,
                uint64_t *hash,
                struct err *err);
