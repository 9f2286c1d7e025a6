#include "control/cluster/coexist.h"

#include "api/object.h"
#include "api/pod.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

#define OURS "muster" /* our image's last segment */

static const char *const kubeflow[] = {"pytorchjob", "tfjob",     "mpijob", "xgboostjob",
                                       "jaxjob",     "paddlejob", NULL};
static const char *const mpi[] = {"mpijob", NULL};
static const char *const trainer[] = {"trainjob", "runtimes", NULL};
static const char *const jobset[] = {"jobset", NULL};
static const char *const kai[] = {"podgrouper", "podgroupstatus", NULL};

const struct coexist_other coexist_others[COEXIST_OTHERS] = {
    {"kubeflow-training-operator", "training-operator", "control-plane",
     "kubeflow-training-operator", "training-operator", kubeflow, false},
    {"kubeflow-mpi-operator", "mpi-operator", "app", "mpi-operator", "mpi-operator", mpi, false},
    {"kubeflow-trainer", "trainer-controller-manager", "app.kubernetes.io/name", "kubeflow-trainer",
     "manager", trainer, false},
    {"jobset", "jobset", "app.kubernetes.io/name", "jobset", "manager", jobset, false},
    {"kai-scheduler", "kai-scheduler/scheduler", "app", "scheduler", "scheduler", kai, true},
};

/* "registry:5000/team/jobset:v1@sha256:..." -> "registry:5000/team/jobset" */
static struct str repository_of(struct str image)
{
    size_t slash = 0;

    image = str_sub(image, 0, str_find(image, '@'));
    for (size_t i = 0; i < image.len; i++)
        if (image.p[i] == '/')
            slash = i + 1;
    struct str last = str_sub(image, slash, image.len);
    return str_sub(image, 0, slash + str_find(last, ':'));
}

static bool is_image(struct str image, const char *tail)
{
    struct str repository = repository_of(image);
    struct str end = str_from(tail);

    return str_ends(repository, end) &&
           (repository.len == end.len || repository.p[repository.len - end.len - 1] == '/');
}

static bool is_other(const struct coexist_other *other,
                     const struct object *pod,
                     const struct json *containers)
{
    bool labelled = str_is(object_label(pod, other->label), other->value);

    JSON_FOREACH(containers, container)
        if (is_image(json_str(json_get(container, "image")), other->image) ||
            (labelled && str_is(json_str(json_get(container, "name")), other->container)))
            return true;
    return false;
}

/* Whether a look at the text is worth a tree of it: most pods are nobody's operator. */
static bool may_be(const struct object *pod)
{
    for (size_t i = 0; i < COEXIST_OTHERS; i++)
        if (str_contains(pod->raw, str_from(coexist_others[i].image)) ||
            str_is(object_label(pod, coexist_others[i].label), coexist_others[i].value))
            return true;
    return false;
}

int coexist_find(const struct object *pod)
{
    _cleanup_(arena_done) struct arena arena = {0};

    if (!may_be(pod))
        return -1;
    const struct json *tree = object_json(pod, &arena);
    const struct json *containers = json_at(tree, "spec.containers");
    if (pod_is_over(tree))
        return -1;
    JSON_FOREACH(containers, container)
        if (is_image(json_str(json_get(container, "image")), OURS))
            return -1;
    for (size_t i = 0; i < COEXIST_OTHERS; i++)
        if (is_other(&coexist_others[i], pod, containers))
            return (int)i;
    return -1;
}
