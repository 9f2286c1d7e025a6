#include "agent/standby.h"

#include "agent/core.h"
#include "agent/lifecycle.h"
#include "agent/link.h"
#include "agent/pod.h"
#include "agent/prepare.h"
#include "agent/ranks.h"
#include "api/launch.h"
#include "api/object.h"
#include "api/place.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "shim/message.h"
#include "tool/files.h"
#include "tool/log.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

static void standby_path(const struct pod *pod,
                         size_t index,
                         unsigned long instance,
                         const char *ending,
                         char ret[static PATH_MAX])
{
    (void)snprintf(ret, PATH_MAX, "%s/c/" STR_FMT "/%lu.%s", pod->folder,
                   STR_ARG(pod->run.containers[index].name), instance, ending);
}

/* What was written of an instance that never was: its number is free again. */
static void standby_erase(const struct pod *pod, size_t index, unsigned instance)
{
    /* An overlay is not made a second time of folders that were one. */
    static const char *const folders[] = {"upper", "root", "ranks", "runtime"};
    static const char *const files[] = {"spec", "begun", "exit", "log", "message", "standby"};
    char path[PATH_MAX];

    for (size_t i = 0; i < COUNT_OF(folders); i++) {
        standby_path(pod, index, instance, folders[i], path);
        if (access(path, F_OK) == 0)
            agent_discard(pod->agent, path);
    }
    for (size_t i = 0; i < COUNT_OF(files); i++) { /* what tells of it goes last */
        standby_path(pod, index, instance, files[i], path);
        (void)unlink(path);
    }
}

bool standby_is(const struct pod *pod, size_t index, unsigned long number)
{
    char path[PATH_MAX];

    standby_path(pod, index, number, "standby", path);
    return access(path, F_OK) == 0;
}

/* Nobody asked for it to be kept warm, or it is not muster-launch that runs, or what it sets up before
 * its ranks may be done once only. SIZE_MAX: there is none to make. */
static size_t standby_container(const struct pod *pod)
{
    size_t found = SIZE_MAX;

    if (!pod->run.stays || pod->run.stop_ms ||
        !str_is(object_annotation(pod->object, WARM_ANNOTATION), "true"))
        return SIZE_MAX;
    for (size_t i = 0; i < pod->run.count; i++) {
        const struct run_container *c = &pod->run.containers[i];
        const struct json *spec = pod_container_spec(pod, i);

        if (c->init || c->ephemeral ||
            !str_is(json_str(json_index(json_get(spec, "command"), 0)), LAUNCH_PATH))
            continue;
        if (found != SIZE_MAX)
            return SIZE_MAX;
        found = i;
        JSON_FOREACH(json_get(spec, "env"), variable)
            if (str_is(json_str(json_get(variable, "name")), LAUNCH_ENV_SETUP))
                return SIZE_MAX;
    }
    return found;
}

static int standby_make(struct pod *pod, size_t index, unsigned instance, struct err *err)
{
    struct run_container *c = &pod->run.containers[index];
    unsigned present = c->instance;
    char path[PATH_MAX];

    standby_erase(pod, index, instance);
    standby_path(pod, index, instance, "standby", path);
    int r = files_write(path, STR(""), 0600, err);
    if (r)
        return r;
    pod->standby.making = true;
    c->instance = instance; /* its files are named by it */
    r = prepare_container(pod, index, err);
    c->instance = present;
    pod->standby.making = false;
    return r;
}

void standby_step(struct pod *pod)
{
    size_t index = standby_container(pod);
    struct pod_standby *standby = &pod->standby;
    struct err err = {0};

    if (index == SIZE_MAX || standby->there || !pod->link.open)
        return;
    const struct run_container *c = &pod->run.containers[index];
    unsigned next = c->instance + 1;
    if (c->state != RUN_RUNNING || c->stop_ms || c->instance != pod->run.round ||
        (standby->failed && standby->instance == next) || !ranks_have_stepped(pod))
        return;
    *standby = (struct pod_standby){.container = index, .instance = next};
    if (standby_make(pod, index, next, &err) < 0) {
        log_warn(pod->agent->log, "standby.failed", LOG_STR("pod", pod->key), LOG_ERR(&err));
        standby->failed = true;
        return;
    }
    standby->there = true;
    link_send(&pod->link, NULL, 0, "start " STR_FMT " %u", STR_ARG(c->name), next);
}

/* Whoever runs in the pod may write in that folder: nothing of a file that is there is changed. */
static bool go_write(const struct pod *pod, size_t index, unsigned instance)
{
    char path[PATH_MAX];

    standby_path(pod, index, instance, "ranks/" RANKS_GO_FILE, path);
    int fd = open(path, O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

bool standby_go(struct pod *pod, size_t index, int *ret_pid)
{
    const struct run_container *c = &pod->run.containers[index];
    struct pod_standby *standby = &pod->standby;
    bool ours = standby->there && standby->container == index;
    char path[PATH_MAX];

    if (ours && standby->instance == c->instance && go_write(pod, index, c->instance)) {
        /* Told before it counts: a muster that is started in between says it again. */
        standby_path(pod, index, c->instance, "standby", path);
        (void)unlink(path);
        *ret_pid = standby->pid;
        *standby = (struct pod_standby){0};
        return true;
    }
    if (ours) /* of another round */
        link_send(&pod->link, NULL, 0, "signal " STR_FMT " %u %d", STR_ARG(c->name),
                  standby->instance, SIGKILL);
    else if (standby_is(pod, index, c->instance)) /* it has ended, and nobody was told */
        standby_erase(pod, index, c->instance);
    return false;
}

bool standby_take(struct pod *pod, size_t index, const struct shim_event *event)
{
    struct pod_standby *standby = &pod->standby;
    bool known =
        standby->there && standby->container == index && standby->instance == event->instance;

    if (!known && !standby_is(pod, index, event->instance))
        return false;
    *standby = (struct pod_standby){
        .there = true, .container = index, .instance = event->instance, .pid = event->pid};
    if (event->exited || event->end) {
        standby->there = false;
        standby->failed = true;
        standby_erase(pod, index, event->instance);
        log_info(pod->agent->log, "standby.ended", LOG_STR("pod", pod->key));
    }
    return true;
}

void standby_drop(struct pod *pod)
{
    const struct pod_standby *standby = &pod->standby;
    char path[PATH_MAX];

    if (!standby->there)
        return;
    /* The rest goes with the pod's folder; the last log there is that of the pod. */
    standby_path(pod, standby->container, standby->instance, "log", path);
    (void)unlink(path);
}
