#include "agent/token.h"

#include "agent/internal.h"
#include "agent/record.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/json.h"
#include "cache/cache.h"
#include "http/jwt.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* Bound to the pod, so it is of no use once the pod is gone; it is not renewed while it runs. */
#define TOKEN_LIFE_MS ((int64_t)365 * 24 * 3600 * 1000)

static const struct object *account_of(const struct pod *pod)
{
    struct str name = json_str_at(pod->root, "spec.serviceAccountName");
    return cache_get(pod->agent->cache, &kind_serviceaccount, pod->ns,
                     name.len ? name : STR("default"));
}

static bool is_wanted(const struct pod *pod, const struct object *account)
{
    const struct json *own = json_at(pod->root, "spec.automountServiceAccountToken");
    if (own)
        return json_bool_or(own, true);
    _cleanup_(arena_done) struct arena arena = {0};
    return json_bool_or(json_get(object_json(account, &arena), "automountServiceAccountToken"),
                        true);
}

bool token_sign(struct pod *pod, struct buf *ret)
{
    const struct object *account = account_of(pod);
    if (!account || !pod->agent->options.token_key.len)
        return false;
    int64_t now_ms = agent_now_ms();
    jwt_sign(ret, pod->agent->options.token_key,
             &(struct jwt){.ns = pod->ns,
                           .account = account->name,
                           .account_uid = account->uid,
                           .pod = pod->name,
                           .pod_uid = pod->uid,
                           .issued_ms = now_ms,
                           .expires_ms = now_ms + TOKEN_LIFE_MS});
    return true;
}

static int put(struct pod *pod, const char *name, struct str content, mode_t mode, struct err *err)
{
    const struct machine *machine = &pod->agent->machine;
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/serviceaccount/%s", pod->folder, name);
    int r = files_write(path, content, mode, err);
    if (r == 0 && machine->root && chown(path, machine->uid, machine->gid) < 0)
        return err_set(err, -errno, "cannot give %s to the pod's user", path);
    return r;
}

int token_add(struct pod *pod, struct buf *records, struct err *err)
{
    const struct object *account = account_of(pod);
    char folder[PATH_MAX];
    _cleanup_(buf_done) struct buf token = {0};
    if (!account || !is_wanted(pod, account) || !token_sign(pod, &token))
        return 0;
    (void)snprintf(folder, sizeof(folder), "%s/serviceaccount", pod->folder);
    int r = files_make_folder(folder, 0755, err);
    r = r ? r : put(pod, "token", buf_str(&token), 0644, err);
    r = r ? r : put(pod, "ca.crt", pod->agent->options.ca, 0644, err);
    r = r ? r : put(pod, "namespace", pod->ns, 0644, err);
    if (r == 0)
        record_mount(records, &(struct record_mount){.type = "bind",
                                                     .source = str_from(folder),
                                                     .target = STR(TOKEN_PATH),
                                                     .options = STR("ro")});
    return r;
}
