#pragma once

#include "base/str.h"

#include <stdbool.h>

struct arena;
struct json;

/* pod_security: the Pod Security Standards of Kubernetes: what a pod may ask for in a namespace
 * whose labels say pod-security.kubernetes.io/enforce (warn, audit): baseline or restricted. Pure;
 * reasons and details are worded as Kubernetes' admission words them. */
#define POD_SECURITY_PREFIX "pod-security.kubernetes.io/"

enum pod_security_level {
    POD_SECURITY_PRIVILEGED, /* everything */
    POD_SECURITY_BASELINE,
    POD_SECURITY_RESTRICTED,
};

/* A level and the minor version of Kubernetes whose controls are meant. */
#define POD_SECURITY_LATEST 1000
struct pod_security {
    enum pod_security_level level;
    int minor;
};

/* From the values of a label and of the same label with "-version". False: not a level, or not
 * "latest" or "v1.N"; an empty text is privileged, or the latest. */
bool pod_security_parse(struct str level, struct str version, struct pod_security *ret);
/* "restricted:latest" */
struct str pod_security_text(struct arena *arena, const struct pod_security *policy);

/* "hostPort (container "c" uses hostPort 80), privileged (...)"; empty: nothing is wrong.
 * `annotations` are the pod's, or NULL. */
struct str pod_security_violations(struct arena *arena,
                                   const struct pod_security *policy,
                                   const struct json *spec,
                                   const struct json *annotations);

/* ---- pod_security_checks.c ---- */
/* Does a kernel setting, with dots in its name, belong to the pod's own namespaces alone? */
bool pod_security_sysctl_is_safe(struct str name, int minor);

struct pod_security_look {
    struct arena *arena;
    const struct json *spec;
    const struct json *annotations;
    int minor;
};

struct pod_security_control {
    const char *id; /* of the standards */
    const char *reason;
    enum pod_security_level level;
    int since;             /* minor version */
    const char *overrides; /* a control of baseline that it includes; NULL: none */
    bool not_on_windows;   /* from 1.25 on, as windows has no such thing */
    /* The detail; empty: fine. */
    struct str (*check)(const struct pod_security_look *look);
};
/* In the order in which they are told; the last one has no id. */
extern const struct pod_security_control pod_security_controls[];
