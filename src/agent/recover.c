#include "agent/recover.h"

#include "agent/agent.h"
#include "agent/cgroup.h"
#include "agent/core.h"
#include "agent/lifecycle.h"
#include "agent/link.h"
#include "agent/machine.h"
#include "agent/network.h"
#include "agent/node.h"
#include "agent/pod.h"
#include "agent/pod_end.h"
#include "agent/prepare.h"
#include "agent/standby.h"
#include "agent/suspend.h"
#include "agent/trash.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"
#include "shim/shim.h"
#include "tool/files.h"
#include "tool/log.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* recover: pods that an earlier muster started, from their folders and their shims. */

/* The highest instance that has a spec and does not wait for its turn, or -1. */
static long container_newest_instance(const struct pod *pod, const struct run_container *c)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/c/" STR_FMT, pod->folder, STR_ARG(c->name));
    DIR *folder = opendir(path);
    long newest = -1;
    if (!folder)
        return -1;
    for (struct dirent *entry; (entry = readdir(folder));) {
        struct str name = str_from(entry->d_name);
        uint64_t number;
        if (str_ends(name, STR(".spec")) && str_to_u64(str_sub(name, 0, name.len - 5), &number) &&
            number < INT32_MAX && (long)number > newest &&
            !standby_is(pod, (size_t)(c - pod->run.containers), number))
            newest = (long)number;
    }
    closedir(folder);
    return newest;
}

static void recover_container(struct pod *pod, struct run_container *c)
{
    long newest = container_newest_instance(pod, c);
    if (newest < 0)
        return;
    if (newest > 0) {
        c->instance = (unsigned)newest - 1;
        (void)pod_read_exit(pod, c, &c->previous);
    }
    c->instance = (unsigned)newest;
    /* Told to start, for all we know; the shim says what became of it. */
    c->state = pod_read_exit(pod, c, &c->end) ? RUN_ENDED : RUN_STARTING;
}

static void pod_take_record(struct pod *pod, struct str name, struct str value)
{
    int64_t number;
    if (str_is(name, "agent.ip"))
        network_keep_address(pod, value);
    else if (str_is(name, "agent.started") && str_to_i64(value, &number))
        pod->started_ms = number;
    else if (str_is(name, "agent.gpu") && str_to_i64(value, &number) && number >= 0 &&
             number < AGENT_GPUS_MAX && pod->gpu_count < AGENT_GPUS_MAX) {
        pod->gpus[pod->gpu_count++] = (uint32_t)number;
        pod->agent->nodes[pod->node].gpu_users[number]++;
    }
}

static bool pod_read_file(struct pod *pod)
{
    char path[PATH_MAX];
    _cleanup_(buf_done) struct buf text = {0};
    (void)snprintf(path, sizeof(path), "%s/%s", pod->folder, SHIM_POD_FILE);
    if (!files_read(path, SHIM_SPEC_BYTES, &text))
        return false;
    struct str rest = buf_str(&text), record;
    while (str_cut(&rest, '\0', &record)) {
        size_t at = str_find(record, '=');
        if (at < record.len)
            pod_take_record(pod, str_sub(record, 0, at), str_sub(record, at + 1, record.len));
    }
    return true;
}

bool recover_departed(const struct agent *agent, const struct object *pod, struct str node)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s/pods/" STR_FMT, agent->options.data_dir,
                     STR_ARG(pod->uid));
    return agent_node_departed(agent, node) ||
           (node.len && !agent->options.token_requests && pod->uid.len && n > 0 &&
            n < POD_PATH_BYTES && access(path, F_OK) == 0);
}

void recover_finished(struct pod *pod)
{
    pod->stage = POD_OVER;
    pod->silent = true;
    pod->awaited = true; /* it may still be there, with an exit file that it could not write */
    for (size_t i = 0; i < pod->run.count; i++)
        recover_container(pod, &pod->run.containers[i]);
}

void recover_running(struct pod *pod)
{
    if (!pod_read_file(pod))
        return;
    for (size_t i = 0; i < pod->run.count; i++)
        recover_container(pod, &pod->run.containers[i]);
    suspend_recover(pod);
    pod->prepared = prepare_was_done(pod);
    pod->stage = POD_RUNNING;
    pod->awaited = true;
    (void)recover_shim(pod);
}

/* A shim locks its folder before it has a socket, and until it is gone. So no socket and no lock
 * means no shim; in this order, because a shim that comes between the two looks has both. */
bool recover_shim(struct pod *pod)
{
    struct err err = {0};
    if (pod->handles_open > 1)
        return false; /* the old link is still closing */
    if (link_connect(&pod->link, pod->agent->loop, pod->folder, &err) == 0) {
        pod->awaited = false;
        pod->asked = true;
        for (size_t i = 0; i < pod->run.count; i++)
            pod->run.containers[i].seen = false;
        pod->handles_open++;
        link_send(&pod->link, NULL, 0, "state");
        log_info(pod->agent->log, "pod.found", LOG_STR("pod", pod->key));
        return true;
    }
    if (link_locked(pod->folder))
        return false;
    pod->awaited = false;
    if (!lifecycle_is_quiet(&pod->run))
        log_warn(pod->agent->log, "pod.lost", LOG_STR("pod", pod->key), LOG_ERR(&err));
    cgroup_remove(&pod->agent->machine.cgroups, pod->uid); /* a shim that was killed left them */
    pod_lost(pod);
    return true;
}

static bool pod_has_begun(const struct pod *pod, const struct run_container *c)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/c/" STR_FMT "/%u.begun", pod->folder, STR_ARG(c->name),
                   c->instance);
    return access(path, F_OK) == 0;
}

/* The shim has told of everything that it started and that has no exit file. Of the rest, what was
 * begun was begun by an earlier shim, and what was not never ran. Nothing was ordered since the
 * shim was asked, so it cannot have begun anything behind its answer. */
void recover_synced(struct pod *pod)
{
    pod->asked = false;
    for (size_t i = 0; i < pod->run.count; i++) {
        struct run_container *c = &pod->run.containers[i];
        struct run_end end;
        if (c->state != RUN_STARTING && c->state != RUN_RUNNING)
            continue;
        if (c->seen)
            continue;
        if (pod_read_exit(pod, c, &end)) {
            c->end = end;
            c->state = RUN_ENDED;
        } else if (c->state == RUN_RUNNING || pod_has_begun(pod, c)) {
            pod_container_lost(pod, c);
        } else {
            c->state = RUN_WAITING;
        }
    }
    pod_mark(pod);
}

/* Folders nobody has a pod for: their processes end, then they are moved aside. */
struct orphan {
    struct link link;
    struct agent *agent;
    char folder[POD_PATH_BYTES];
};

static void orphan_message(void *user, const char *text, int fd)
{
    (void)user;
    (void)text;
    (void)fd;
}

static void orphan_lost(void *user)
{
    struct orphan *orphan = user;
    link_close(&orphan->link);
}

static void orphan_closed(void *user)
{
    struct orphan *orphan = user;
    struct agent *agent = orphan->agent;
    const char *uid = strrchr(orphan->folder, '/') + 1;
    char to[PATH_MAX];
    struct err err = {0};
    cgroup_remove(&agent->machine.cgroups, str_from(uid));
    (void)snprintf(to, sizeof(to), "%s/" RECOVER_ASIDE, agent->options.data_dir);
    int r = files_make_folder(to, 0700, &err);
    (void)snprintf(to, sizeof(to), "%s/" RECOVER_ASIDE "/%lld_%s", agent->options.data_dir,
                   (long long)agent_now_ms(), uid);
    if (r == 0 && rename(orphan->folder, to) < 0)
        r = err_set(&err, -errno, "cannot move %s to %s: %s", orphan->folder, to,
                    strerrordesc_np(errno));
    if (r < 0)
        log_error(agent->log, "pod.orphan", LOG_C("folder", orphan->folder), LOG_ERR(&err));
    else
        log_warn(agent->log, "pod.orphan", LOG_C("uid", uid), LOG_C("kept", to),
                 LOG_I64("days", RECOVER_ASIDE_MS / (24 * 3600 * 1000)));
    free(orphan);
}

static void orphan_bury(struct agent *agent, const char *folder)
{
    struct orphan *orphan = calloc(1, sizeof(*orphan));
    if (!orphan)
        abort();
    orphan->agent = agent;
    (void)snprintf(orphan->folder, sizeof(orphan->folder), "%s", folder);
    orphan->link = (struct link){.fd = -1,
                                 .message = orphan_message,
                                 .lost = orphan_lost,
                                 .closed = orphan_closed,
                                 .user = orphan};
    if (link_connect(&orphan->link, agent->loop, folder, NULL) == 0) {
        suspend_wake_orphan(agent, folder);
        link_send(&orphan->link, NULL, 0, "stop forget");
    } else if (link_locked(folder)) { /* it will have a socket soon */
        agent->orphans_left = true;
        free(orphan);
    } else {
        orphan_closed(orphan);
    }
}

/* Of every pod that the store does not know; how many there are. */
static size_t orphans_each(struct agent *agent, void (*fn)(struct agent *agent, const char *folder))
{
    char path[PATH_MAX];
    size_t count = 0;
    (void)snprintf(path, sizeof(path), "%s/pods", agent->options.data_dir);
    DIR *folder = opendir(path);
    if (!folder)
        return 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.' || map_get(&agent->pods, str_from(entry->d_name)))
            continue;
        int n = snprintf(path, sizeof(path), "%s/pods/%s", agent->options.data_dir, entry->d_name);
        if (n <= 0 || n >= POD_PATH_BYTES)
            continue;
        count++;
        if (fn)
            fn(agent, path);
    }
    closedir(folder);
    return count;
}

void recover_orphans(struct agent *agent)
{
    size_t count = orphans_each(agent, NULL);
    bool again = agent->orphans_left;
    agent->orphans_left = false;
    if (count && !again) {
        char kept[PATH_MAX];
        (void)snprintf(kept, sizeof(kept), "%s/" RECOVER_ASIDE, agent->options.data_dir);
        log_warn(agent->log, "pods.unknown", LOG_I64("count", (int64_t)count), LOG_C("kept", kept),
                 LOG_C("why", "the store has no such pods: their processes end, what they wrote is "
                              "moved aside and removed after a week"));
    }
    (void)orphans_each(agent, orphan_bury);
}

void recover_prune_aside(const char *data_dir, int64_t now_ms, struct trash *trash)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/" RECOVER_ASIDE, data_dir);
    DIR *folder = opendir(path);
    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder));) {
        struct str rest = str_from(entry->d_name), number;
        int64_t since_ms;
        if (!str_cut(&rest, '_', &number) || !str_to_i64(number, &since_ms) ||
            now_ms - since_ms < RECOVER_ASIDE_MS)
            continue;
        int n = snprintf(path, sizeof(path), "%s/" RECOVER_ASIDE "/%s", data_dir, entry->d_name);
        if (n > 0 && (size_t)n < sizeof(path))
            trash_put(trash, path);
    }
    closedir(folder);
}
