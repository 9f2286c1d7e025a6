#pragma once

#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct actions;
struct arena;
struct cache;
struct kind;
struct kinds;
struct object;

/* control: a controller is a pure function from what it observes to a list of actions.
 *
 * It says which kinds it watches, to which keys a change of one of them matters, and what to do
 * about a key. src/exec runs it: feeds the cache, collects dirty keys, calls reconcile with one
 * `now` a turn, applies the actions. Reconcile is level-triggered: it looks at the whole state of
 * its key, whatever the event was, and repeating it is harmless. A key whose last actions are still
 * under way is not reconciled until they have come back, so a reconcile sees its own writes. */
struct control_key {
    struct str ns;
    struct str name;
};
struct control_keys {
    struct arena *arena;
    VEC(struct control_key) list;
};

struct control_config {
    struct str scheduler_name;  /* kai-scheduler */
    bool other_schedulers;      /* pods that name another one are not ours to group */
    struct str schedulers;      /* more names that are, see api/scheduler_name.h; empty: none */
    bool old_groups;            /* pods are grouped as KAI up to 0.14 does; see grouping.h */
    struct str queue_label_key; /* kai.scheduler/queue */
    struct str default_queue;   /* default-queue */
    struct str default_parent;  /* default-parent-queue */
    bool default_lends;         /* these two run work that is not preemptible; see api/beyond.h */
    struct str cluster_domain;  /* cluster.local */
    /* Where trainings tell their progress, https://HOST:PORT as pods see it, and the certificate of
     * who signed it; empty: nowhere (trainjob_progress.c). */
    struct str trainer_url;
    struct str trainer_ca;
    /* On a cluster, where no node agent of ours looks at ranks: pods tell of them there, too
     * (cluster/ranks_told.h). */
    bool ranks_told;
    /* The certificate of who signed the API server's, PEM; empty: namespaces are not given it. */
    struct str root_ca;
    /* Of who signed the certificate by which it hands requests on to other API servers; empty: it
     * does not, and nobody is told (builtin/extension_auth.c). */
    struct str front_proxy_ca;
    struct str api_address;  /* of the embedded API server; see api_port */
    int64_t api_port;        /* 0: nobody is told where it is */
    struct str service_cidr; /* of the addresses of Services; empty: nobody is told */
    /* The file of a time zone (api/zone.h), on the arena; false: there is none of that name. NULL:
     * nothing but UTC is known. */
    bool (*zone)(struct arena *arena, struct str name, struct str *ret_bytes);
    int64_t
        results_ms; /* on a cluster: how long after a job's end its sync pod stays to keep what its
                           first pod wrote; 0: not at all */
    /* Failures that may be a node's are counted against it, and it is tested (cluster/health.h). */
    bool node_health;
    /* Kubelets run the pods: which GPUs one has only they know, and a test needs an image. */
    bool kubelets;
    struct str test_space;   /* namespace of the pods that test nodes; empty: kube-system */
    struct str test_image;   /* of theirs; empty: the node's own files, or there is no test */
    struct str test_class;   /* RuntimeClass of those that test GPUs; empty: the usual one */
    struct str test_command; /* of the administrator, a further test; empty: none */
    struct str
        provisioning_class;    /* of the requests that waiting gangs make; empty: they make none */
    struct str launcher_image; /* on a cluster: where pods get muster-launch from (launcher.h) */
};

struct control_input {
    const struct cache *cache;
    const struct control_config *config;
    int64_t now_ms;
    const struct kinds *kinds; /* every kind there is; may be NULL */
    bool learns;               /* of others it has those that were asked for (action_learn()) */
    /* Whether the cache knows all objects of a kind; NULL: of every kind. */
    bool (*is_watched)(const void *user, const struct kind *kind);
    const void *user;
    /* What the API server said when it refused an action of the last look at this key (a rule of
     * somebody's, a quota, a name that is taken); empty: it refused none. */
    struct str refusal;
    const char *const *without; /* names of controllers that are off; NULL-terminated, or NULL */
};

struct controller {
    const char *name; /* as in --controllers=-name */
    /* Has a key of its own, ("", ""), that is looked at once everything is known after a start. */
    bool at_start;
    bool (*is_wanted)(const struct control_config *config); /* NULL: whatever it says */
    bool embedded; /* a cluster has its own; runs only where runner_options.embedded is set */
    /* What the keys name: an object that it makes for one of them and that is refused is told there,
     * in an event, once, until it is taken or refused in other words. NULL: whoever is to own it. */
    const struct kind *kind;
    const char *refused; /* reason of that event; NULL: FailedCreate */
    /* Whether such a change is none to it: it is not asked for keys then. NULL: none is so. */
    bool (*passes_by)(const struct object *before, const struct object *after);
    /* What it writes it has no more to say about: a change that is its own write wakes no key. */
    bool ignores_own;
    /* How long after it was touched a key is looked at, in milliseconds, so that several changes in
     * a row become one write: for what only tells. NULL: at once. */
    int64_t (*settle)(const struct cache *cache, const struct control_key *key);
    const struct kind *const *watches; /* NULL-terminated */
    /* The keys that a change of `object` touches: usually the object itself or its owner. */
    void (*keys)(const struct cache *cache, const struct object *object, struct control_keys *ret);
    void (*reconcile)(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions);
};

void control_keys_add(struct control_keys *keys, struct str ns, struct str name);
