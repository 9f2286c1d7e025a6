#include "api/api.h"
#include "api/condition.h"
#include "api/kind.h"
#include "api/names.h"
#include "api/people.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/time.h"
#include "cmd/connect.h"
#include "cmd/credential.h"
#include "cmd/look.h"
#include "cmd/muster.h"
#include "cmd/user_queue.h"
#include "http/tls.h"
#include "kube/kubeconfig.h"
#include "plugin/job.h"
#include "tool/clock.h"
#include "tool/option.h"
#include "tool/term.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

/* muster user add | set | list | renew | revoke | remove: several people on one machine. What a person is stands in
 * the annotations of her namespace (api/people.h); her credentials are tokens of a ServiceAccount in
 * a namespace where she has no rights, so she can neither renew nor keep them. */

#define DAY_MS       ((int64_t)24 * 3600 * 1000)
#define VALID_MIN_MS ((int64_t)600 * 1000) /* what the API server signs at least, and at most */
#define VALID_MAX_MS (365 * DAY_MS)

struct user_values {
    struct look_values look; /* first */
    const char *queue;
    const char *ns;
    int64_t uid;
    int64_t gid;
    const char *home;
    const char *paths;
    const char *ports;
    const char *time;
    const char *valid;
    const char *out;
    bool yes;
};

static const struct option user_options[] = {
    {"queue", 0, OPTION_STR, offsetof(struct user_values, queue), .value = "QUEUE",
     .help = "add, set: the one queue of the person's jobs; it is made (default: any, and one "
             "named default "
             "is made)"},
    {"namespace", 'n', OPTION_STR, offsetof(struct user_values, ns), .value = "NS",
     .help = "add: the person's namespace (default: the name)"},
    {"uid", 0, OPTION_I64, offsetof(struct user_values, uid), .min = 0, .max = UINT32_MAX - 1,
     .value = "N", .help = "add: user id of the person's pods (default: that of the account)"},
    {"gid", 0, OPTION_I64, offsetof(struct user_values, gid), .min = 0, .max = UINT32_MAX - 1,
     .value = "N", .help = "add: group id of them (default: that of the account, or the user id)"},
    {"home", 0, OPTION_STR, offsetof(struct user_values, home), .value = "DIR",
     .help = "add: home folder (default: that of the account)"},
    {"paths", 0, OPTION_STR, offsetof(struct user_values, paths), .value = "DIR,...",
     .help = "add, set: folders that pods may mount as hostPath, besides the home folder"},
    {"ports", 0, OPTION_STR, offsetof(struct user_values, ports), .value = "N-N,...",
     .help =
         "add, set: ports of this machine that pods may have as hostPort, from 1024 on and without "
         "30000-32767 (default: none)"},
    {"time", 't', OPTION_STR, offsetof(struct user_values, time), .value = "TIME",
     .help = "add, set: the longest that a job of the person may run, such as 8h; jobs that say "
             "nothing get it (default: no end)"},
    {"valid", 0, OPTION_STR, offsetof(struct user_values, valid), .fallback = "30d",
     .value = "TIME", .help = "add, renew: how long the credentials are good, 10m to 365d"},
    {"out", 0, OPTION_STR, offsetof(struct user_values, out), .value = "FILE",
     .help =
         "add, renew: where to write the kubeconfig, readable by nobody but the person (default: "
         "standard output)",
     .flag_only = true},
    {"yes", 'y', OPTION_BOOL, offsetof(struct user_values, yes), .help = "remove: do not ask"},
    LOOK_OPTIONS,
    LOOK_TABLE("list: namespaces"),
    {0},
};

struct user {
    struct arena *arena;
    const struct user_values *values;
    struct look look;
    struct kube_config config;
    struct str name;
    struct str ns;
};

/* ---- add: what is asked for ---- */

/* Who she is on this machine. */
struct user_account {
    int64_t uid;
    int64_t gid;
    struct str groups; /* "1001,27" */
    struct str home;
};

static bool user_parse_valid(struct str text, int64_t *ret_ms)
{
    int64_t days;
    if (text.len > 1 && text.p[text.len - 1] == 'd' &&
        str_to_i64(str_sub(text, 0, text.len - 1), &days) && days > 0 && days <= 365) {
        *ret_ms = days * DAY_MS;
        return true;
    }
    return time_parse_duration(text, ret_ms) && *ret_ms >= VALID_MIN_MS && *ret_ms <= VALID_MAX_MS;
}

static void user_read_account(struct user *user, struct user_account *account)
{
    struct passwd entry, *found = NULL;
    char text[4096];
    gid_t groups[PERSON_GROUPS_MAX];
    int count = COUNT_OF(groups);
    const char *name = str_c(user->arena, user->name);

    if (getpwnam_r(name, &entry, text, sizeof(text), &found) != 0 || !found)
        return;
    account->uid = found->pw_uid;
    account->gid = found->pw_gid;
    account->home = str_dup(user->arena, str_from(found->pw_dir));
    if (getgrouplist(name, found->pw_gid, groups, &count) < 0)
        return;
    for (int i = 0; i < count; i++)
        if (groups[i])
            account->groups = str_printf(user->arena, STR_FMT "%s%u", STR_ARG(account->groups),
                                         account->groups.len ? "," : "", groups[i]);
}

static int user_find_account(struct user *user, struct user_account *ret, struct err *err)
{
    const struct user_values *values = user->values;
    struct user_account account = {0};

    user_read_account(user, &account);
    if (values->uid && values->uid != account.uid)
        account = (struct user_account){.uid = values->uid, .gid = values->uid};
    if (values->gid)
        account.gid = values->gid;
    if (values->home)
        account.home = str_from(values->home);
    if (!account.uid)
        return err_set(err, -EINVAL,
                       "there is no account " STR_FMT
                       " on this machine: say which user id the pods "
                       "run as with --uid; 0 is not possible",
                       STR_ARG(user->name));
    if (!account.gid)
        return err_set(err, -EINVAL, "--gid: pods of people cannot have the group 0");
    if (account.home.len && (account.home.p[0] != '/' || account.home.len < 2))
        return err_set(err, -EINVAL, "--home: must be an absolute path below /");
    *ret = account;
    return 0;
}

/* Two people with one user id would be one person; neither is a namespace two people's. */
static int user_check_others(struct user *user, const struct user_account *account, struct err *err)
{
    struct look_list spaces = {0};
    int r = look_all(&user->look, &kind_namespace, STR(""), &spaces, err);

    for (size_t i = 0; r == 0 && i < spaces.count; i++) {
        const struct json *notes = json_at(spaces.items[i], "metadata.annotations");
        struct str person = json_str(json_get(notes, PERSON_NAME));
        struct str space = json_str_at(spaces.items[i], "metadata.name");
        int64_t uid = -1;

        (void)str_to_i64(json_str(json_get(notes, PERSON_UID)), &uid);
        if (person.len && !str_eq(person, user->name) && uid == account->uid)
            r = err_set(err, -EINVAL, "--uid: %lld is " STR_FMT "'s", (long long)uid,
                        STR_ARG(person));
        else if (person.len && !str_eq(person, user->name) && str_eq(space, user->ns))
            r = err_set(err, -EINVAL, "--namespace: " STR_FMT " is " STR_FMT "'s", STR_ARG(space),
                        STR_ARG(person));
    }
    return r;
}

/* ---- add: what is written ---- */

static int user_put_space(struct user *user, const struct user_account *account, struct err *err)
{
    struct arena *arena = user->arena;
    const struct user_values *values = user->values;
    struct json *space = credential_object(arena, STR(""), user->ns);
    struct json *notes = json_add_object(arena, json_get(space, "metadata"), "annotations");

    json_add_str(arena, notes, PERSON_NAME, user->name);
    json_add_str(arena, notes, PERSON_UID, str_printf(arena, "%lld", (long long)account->uid));
    json_add_str(arena, notes, PERSON_GID, str_printf(arena, "%lld", (long long)account->gid));
    json_add_str(arena, notes, PERSON_GROUPS, account->groups);
    json_add_str(arena, notes, PERSON_HOME, account->home);
    json_add_str(arena, notes, PERSON_PATHS, str_from(values->paths ? values->paths : ""));
    json_add_str(arena, notes, PERSON_PORTS, str_from(values->ports ? values->ports : ""));
    json_add_str(arena, notes, PERSON_QUEUE, str_from(values->queue ? values->queue : ""));
    json_add_str(arena, notes, PERSON_TIME, str_from(values->time ? values->time : ""));
    return credential_put(&user->look, &kind_namespace, STR(""), space, err);
}

static int user_put_rights(struct user *user, struct err *err)
{
    struct arena *arena = user->arena;
    struct json *binding = credential_object(arena, user->ns, STR("muster-person"));
    struct json *all = credential_object(arena, STR(""), STR("muster-people"));

    json_fill(
        arena, binding,
        "{roleRef: {apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'edit'}, "
        "subjects: [{kind: 'ServiceAccount', namespace: $, name: $}]}",
        PEOPLE_NAMESPACE, user->name);
    /* How full the machine is. */
    json_fill(arena, all,
              "{roleRef: {apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: "
              "'muster:person'}, subjects: [{apiGroup: 'rbac.authorization.k8s.io', kind: 'Group', "
              "name: $}]}",
              "system:serviceaccounts:" PEOPLE_NAMESPACE);
    int r = credential_put(&user->look, &kind_namespace, STR(""),
                           credential_object(arena, STR(""), STR(PEOPLE_NAMESPACE)), err);
    if (r == 0)
        r = credential_put(&user->look, &kind_serviceaccount, STR(PEOPLE_NAMESPACE),
                           credential_object(arena, STR(PEOPLE_NAMESPACE), user->name), err);
    if (r == 0)
        r = credential_put(&user->look, &kind_rolebinding, user->ns, binding, err);
    if (r == 0)
        r = credential_put(&user->look, &kind_clusterrolebinding, STR(""), all, err);
    return r;
}

/* What she submits to. */
static int user_put_queue(struct user *user, struct err *err)
{
    const char *queue = user->values->queue;

    return user_queue_put(&user->look, user->name, user->ns,
                          str_from(queue && queue[0] ? queue : "default"), err);
}

/* To the administrator: the kubeconfig is a password. */
static void user_say_what_next(const struct user *user)
{
    const char *file = user->values->out;

    (void)fprintf(stderr,
                  "the kubeconfig of " STR_FMT " is as good as a password: give it to nobody else. "
                  "What " STR_FMT " types:\n"
                  "  export KUBECONFIG=%s\n"
                  "  muster run train.py\n",
                  STR_ARG(user->name), STR_ARG(user->name), file ? file : "THE-FILE-WITH-IT");
}

/* The newest credentials' end is written down, for `list`. */
static int user_make_token(struct user *user, int64_t valid_ms, struct str *ret, struct err *err)
{
    struct arena *arena = user->arena;
    struct json *space = credential_object(arena, STR(""), user->ns);
    struct str until = STR_NONE;
    int r = credential_token(&user->look,
                             &(struct credential){STR(PEOPLE_NAMESPACE), user->name, valid_ms}, ret,
                             &until, err);

    if (r < 0)
        return r;
    json_add_str(arena, json_add_object(arena, json_get(space, "metadata"), "annotations"),
                 PERSON_UNTIL, until);
    return credential_put(&user->look, &kind_namespace, STR(""), space, err);
}

/* Whole, and from its first byte nobody else's; in a folder of the person's no link is followed. */
static int user_write(const char *path,
                      struct str text,
                      const struct user_account *account,
                      struct err *err)
{
    char made[PATH_MAX];
    int n = snprintf(made, sizeof(made), "%s.XXXXXX", path);
    int fd = n > 0 && (size_t)n < sizeof(made) ? mkostemp(made, O_CLOEXEC) : -1; /* 0600 */

    if (fd < 0)
        return err_set(err, -errno, "cannot write %s: %s", path, strerrordesc_np(errno));
    bool ok = (geteuid() != 0 || fchown(fd, (uid_t)account->uid, (gid_t)account->gid) == 0) &&
              write(fd, text.p, text.len) == (ssize_t)text.len && fsync(fd) == 0 &&
              rename(made, path) == 0;
    int r = ok ? 0 : err_set(err, -errno, "cannot write %s: %s", path, strerrordesc_np(errno));

    (void)close(fd);
    if (!ok)
        (void)unlink(made);
    return r;
}

static int user_put_config(struct user *user,
                           const struct user_account *account,
                           struct str token,
                           struct err *err)
{
    const struct kube_config *config = &user->config;
    _cleanup_(buf_done) struct buf text = {0};

    buf_addf(&text,
             "apiVersion: v1\nkind: Config\ncurrent-context: muster\nclusters:\n- name: muster\n"
             "  cluster:\n    server: %s\n",
             config->server);
    if (config->ca_pem.len) {
        buf_addf(&text, "    certificate-authority-data: ");
        tls_base64(&text, config->ca_pem);
        buf_addc(&text, '\n');
    }
    buf_addf(&text,
             "users:\n- name: " STR_FMT "\n  user:\n    token: " STR_FMT
             "\ncontexts:\n- name: muster\n  context:\n    cluster: muster\n    user: " STR_FMT
             "\n    namespace: " STR_FMT "\n",
             STR_ARG(user->name), STR_ARG(token), STR_ARG(user->name), STR_ARG(user->ns));
    struct stat status;

    if (user->values->out)
        return user_write(user->values->out, buf_str(&text), account, err);
    /* Behind a shell's `>`, the file is everybody's to read unless somebody says otherwise. */
    if (fstat(STDOUT_FILENO, &status) == 0 && S_ISREG(status.st_mode) && status.st_mode & 077)
        (void)fchmod(STDOUT_FILENO, 0600);
    if (fwrite(text.p, 1, text.len, stdout) != text.len || fflush(stdout) != 0)
        return err_set(err, -EIO, "the kubeconfig could not be written to standard output");
    return 0;
}

/* Told now, as the first pod would be later. The credentials are good either way. */
static void user_warn_of_nodes(struct user *user)
{
    struct look_list nodes = {0};

    if (look_all(&user->look, &kind_node, STR(""), &nodes, NULL) < 0)
        return;
    for (size_t i = 0; i < nodes.count; i++) {
        const struct json *found =
            condition_find(json_get(nodes.items[i], "status"), NETWORK_CONDITION);

        if (str_is(json_str(json_get(found, "status")), "False"))
            (void)fprintf(
                stderr, "warning: pods of " STR_FMT " will wait on " STR_FMT ": " STR_FMT "\n",
                STR_ARG(user->name), STR_ARG(json_str_at(nodes.items[i], "metadata.name")),
                STR_ARG(json_str(json_get(found, "message"))));
    }
}

/* Her namespace, as its annotation has it, and whom her files belong to. */
static int user_find_space(struct user *user, struct user_account *ret, struct err *err)
{
    struct look_list spaces = {0};
    int r = look_all(&user->look, &kind_namespace, STR(""), &spaces, err);

    for (size_t i = 0; r == 0 && i < spaces.count; i++) {
        const struct json *notes = json_at(spaces.items[i], "metadata.annotations");

        if (!str_eq(json_str(json_get(notes, PERSON_NAME)), user->name))
            continue;
        user->ns = json_str_at(spaces.items[i], "metadata.name");
        (void)str_to_i64(json_str(json_get(notes, PERSON_UID)), &ret->uid);
        (void)str_to_i64(json_str(json_get(notes, PERSON_GID)), &ret->gid);
        return 0;
    }
    return r ? r
             : err_set(err, -ENOENT, "there is no person " STR_FMT "; see `muster user list`",
                       STR_ARG(user->name));
}

static int user_give_credentials(struct user *user,
                                 const struct user_account *account,
                                 struct err *err)
{
    const struct user_values *values = user->values;
    struct str token = STR_NONE;
    int64_t valid_ms = 0;

    if (!user_parse_valid(str_from(values->valid), &valid_ms))
        return err_set(err, -EINVAL, "--valid: \"%s\" is not a time from 10m to 365d",
                       values->valid);
    int r = connect_config(user->arena,
                           &(struct connect_options){.kubeconfig = values->look.kubeconfig,
                                                     .context = values->look.context,
                                                     .near = true},
                           &user->config, err);
    if (r == 0)
        r = user_make_token(user, valid_ms, &token, err);
    if (r == 0)
        r = user_put_config(user, account, token, err);
    if (r == 0)
        user_warn_of_nodes(user);
    return r;
}

/* What would mean nothing in the annotations of her namespace. */
static int user_check_values(const struct user_values *values, struct err *err)
{
    struct person_ports ports;
    int64_t ms = 0;

    if (!person_ports_parse(str_from(values->ports ? values->ports : ""), &ports))
        return err_set(
            err, -EINVAL,
            "--ports: \"%s\" is not ports and ranges such as 8000-8010,9000, from 1024 on "
            "and without the nodePorts of Services, 30000-32767",
            values->ports);
    if (values->time && values->time[0] &&
        (!time_parse_duration(str_from(values->time), &ms) || ms <= 0))
        return err_set(err, -EINVAL, "--time: \"%s\" is not a time such as 90m or 8h",
                       values->time);
    return 0;
}

static int user_add(struct user *user, struct err *err)
{
    struct user_account account = {0};
    int r = user_check_values(user->values, err);

    if (r == 0)
        r = user_find_account(user, &account, err);
    if (r == 0)
        r = user_check_others(user, &account, err);
    if (r == 0)
        r = user_put_space(user, &account, err);
    if (r == 0)
        r = user_put_rights(user, err);
    if (r == 0)
        r = user_put_queue(user, err);
    if (r == 0)
        r = user_give_credentials(user, &account, err);
    if (r == 0)
        user_say_what_next(user);
    return r;
}

/* What is named here is different from now on; credentials and the rest stay as they are. */
static int user_set(struct user *user, struct err *err)
{
    const struct user_values *values = user->values;
    const struct {
        const char *key;
        const char *text;
    } given[] = {{PERSON_TIME, values->time},
                 {PERSON_QUEUE, values->queue},
                 {PERSON_PATHS, values->paths},
                 {PERSON_PORTS, values->ports}};
    struct user_account account = {0};
    bool any = false;
    int r = user_check_values(values, err);

    if (r == 0)
        r = user_find_space(user, &account, err);
    if (r < 0)
        return r;
    struct json *space = credential_object(user->arena, STR(""), user->ns);
    struct json *notes = json_add_object(user->arena, json_get(space, "metadata"), "annotations");
    for (size_t i = 0; i < COUNT_OF(given); i++) {
        any = any || given[i].text;
        if (given[i].text)
            json_add_c(user->arena, notes, given[i].key, given[i].text);
    }
    if (!any)
        return err_set(
            err, -EINVAL,
            "set: say what is to be different, with --time, --queue, --paths or --ports");
    r = credential_put(&user->look, &kind_namespace, STR(""), space, err);
    if (r == 0 && values->queue && values->queue[0])
        r = user_put_queue(user, err);
    return r;
}

/* New credentials; what the person may do stays as it is. */
static int user_renew(struct user *user, struct err *err)
{
    struct user_account account = {0};
    int r = user_find_space(user, &account, err);

    if (r == 0)
        r = user_give_credentials(user, &account, err);
    if (r < 0 && err->http_status == 404)
        return err_set(err, r,
                       "the credentials of " STR_FMT " were revoked: `muster user add " STR_FMT
                       "` gives new ones",
                       STR_ARG(user->name), STR_ARG(user->name));
    return r;
}

/* ---- list, revoke, remove ---- */

static bool user_has_credentials(const struct look_list *accounts, struct str name)
{
    for (size_t i = 0; i < accounts->count; i++)
        if (str_eq(json_str_at(accounts->items[i], "metadata.name"), name))
            return true;
    return false;
}

static void user_add_row(struct arena *arena,
                         const struct json *space,
                         const struct look_list *accounts,
                         struct look_found *found)
{
    static const char *const keys[] = {PERSON_UID,   PERSON_QUEUE, PERSON_HOME,
                                       PERSON_PATHS, PERSON_PORTS, PERSON_TIME};
    static const char *const names[] = {"uid", "queue", "home", "paths", "ports", "time"};
    const struct json *notes = json_at(space, "metadata.annotations");
    struct str name = json_str(json_get(notes, PERSON_NAME));
    struct str until = json_str(json_get(notes, PERSON_UNTIL));
    struct str state = STR("revoked");
    int64_t until_ms = 0;

    if (!name.len)
        return;
    struct json *row = json_push(found->list, json_new_object(arena));
    (void)time_parse(until, &until_ms);
    if (user_has_credentials(accounts, name))
        state = until_ms <= clock_now_ms()
                    ? STR("expired")
                    : str_printf(arena, "until " STR_FMT, STR_ARG(term_moment(arena, until)));
    json_add_str(arena, row, "name", name);
    json_add_str(arena, row, "namespace", json_str_at(space, "metadata.name"));
    for (size_t k = 0; k < COUNT_OF(keys); k++)
        json_add_str(arena, row, names[k], json_str(json_get(notes, keys[k])));
    json_add_str(arena, row, "credentials", state);
    table_add(&found->table, name);
    table_add(&found->table, json_str_at(space, "metadata.name"));
    table_add(&found->table, json_str(json_get(notes, PERSON_UID)));
    table_add(&found->table, json_str(json_get(notes, PERSON_QUEUE)));
    table_add(&found->table, json_str(json_get(notes, PERSON_PATHS)));
    table_add(&found->table, state);
}

static int user_collect(struct look *look, void *user, struct look_found *found, struct err *err)
{
    static const char *const headers[] = {"NAME",  "NAMESPACE",   "UID", "QUEUE",
                                          "PATHS", "CREDENTIALS", NULL};
    const struct look_values *values = user;
    struct look_list spaces = {0}, accounts = {0};
    int r = look_selected(look, &kind_namespace, values->selector, &spaces, err);

    if (r == 0)
        r = look_all(look, &kind_serviceaccount, STR(PEOPLE_NAMESPACE), &accounts, err);
    if (r < 0)
        return r;
    found->list = json_new_array(look->arena);
    table_init(&found->table, look->arena, headers);
    for (size_t i = 0; i < spaces.count; i++)
        user_add_row(look->arena, spaces.items[i], &accounts, found);
    return 0;
}

static int user_list(struct user *user, struct look_values *values, struct err *err)
{
    return look_show(&user->look, values, user_collect, values, err);
}

/* A namespace goes with all that is in it: whoever types that is asked. */
static int user_confirm(struct user *user, struct str space, struct err *err)
{
    struct look_list jobs = {0};
    char answer[16] = "";
    int r = look_all(&user->look, &kind_torchrunjob, space, &jobs, err);

    if (r < 0 || user->values->yes)
        return r;
    (void)fprintf(stderr,
                  "removing " STR_FMT " deletes namespace " STR_FMT
                  " with everything in it: %zu jobs, and "
                  "what they wrote that was not copied.\n",
                  STR_ARG(user->name), STR_ARG(space), jobs.count);
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return err_set(err, -ENOTTY,
                       STR_FMT
                       " was not removed: there is no terminal to ask on. --yes removes; `muster "
                       "user revoke " STR_FMT "` only ends the credentials",
                       STR_ARG(user->name), STR_ARG(user->name));
    (void)fprintf(stderr, "remove " STR_FMT "? [y/N] ", STR_ARG(user->name));
    if (read(STDIN_FILENO, answer, sizeof(answer) - 1) > 0 &&
        (answer[0] == 'y' || answer[0] == 'Y'))
        return 0;
    return err_set(err, -ECANCELED, STR_FMT " was not removed", STR_ARG(user->name));
}

static int user_revoke(struct user *user, bool with_space, struct err *err)
{
    struct user_account account = {0};
    int r = user_find_space(user, &account, err);

    if (r == 0 && with_space)
        r = user_confirm(user, user->ns, err);
    if (r == 0)
        r = credential_delete(&user->look, &kind_serviceaccount, STR(PEOPLE_NAMESPACE), user->name,
                              err);
    if (r == 0 && with_space)
        r = user_queue_drop(&user->look, user->ns, err);
    if (r == 0 && with_space)
        r = credential_delete(&user->look, &kind_namespace, STR(""), user->ns, err);
    if (r == 0)
        (void)printf(with_space
                         ? STR_FMT " is removed, and namespace " STR_FMT " with everything in it\n"
                         : STR_FMT "'s credentials are revoked; what runs in namespace " STR_FMT
                                   " goes on\n",
                     STR_ARG(user->name), STR_ARG(user->ns));
    return r;
}

static int user_run(struct invocation *invocation)
{
    struct user_values *values = invocation->values;
    struct user user = {.arena = invocation->arena, .values = values};
    struct str action = str_from(invocation->args[0]);
    bool list = str_is(action, "list"), add = str_is(action, "add");
    bool revoke = str_is(action, "revoke"), remove = str_is(action, "remove");
    bool renew = str_is(action, "renew"), set = str_is(action, "set");
    struct err err = {0};

    if (!(list && invocation->arg_count == 1) &&
        !((add || set || renew || revoke || remove) && invocation->arg_count == 2)) {
        (void)fprintf(stderr, "muster user: use `add NAME`, `set NAME`, `list`, `renew NAME`, "
                              "`revoke NAME` or `remove NAME`\n");
        return EXIT_USAGE;
    }
    user.name = list ? STR("") : str_from(invocation->args[1]);
    user.ns = values->ns ? str_from(values->ns) : user.name;
    const char *wrong = list ? NULL : names_dns_label(user.name);
    if (wrong) {
        (void)fprintf(stderr, "muster user: %s: %s\n", invocation->args[1], wrong);
        return EXIT_USAGE;
    }
    int r = look_open(&user.look, invocation->arena, &values->look, &err);
    if (r == 0) {
        r = list    ? user_list(&user, &values->look, &err)
            : add   ? user_add(&user, &err)
            : set   ? user_set(&user, &err)
            : renew ? user_renew(&user, &err)
                    : user_revoke(&user, remove, &err);
        look_close(&user.look);
    }
    if (r < 0)
        (void)fprintf(stderr, "muster user: %s\n", err.text);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

const struct command command_user = {
    .name = "user",
    .summary = "let other people use muster up on this machine",
    .usage = "add NAME | set NAME | list | renew NAME | revoke NAME | remove NAME",
    .about =
        "add prints a kubeconfig for the person: rights in one namespace, pods that run with the "
        "person's user id and see no other home folder. Calling it again makes new credentials. "
        "add makes a queue for her, too. set changes what is named and nothing else. revoke makes "
        "all credentials of the person useless at "
        "once; remove also deletes the "
        "namespace with everything in it. It needs the kubeconfig of muster up's owner.",
    .example = "muster user add alice --queue vision --out ~alice/.kube/config\nmuster user list\n"
               "muster user revoke alice",
    .options = user_options,
    .values_size = sizeof(struct user_values),
    .args_min = 1,
    .args_max = 2,
    .run = user_run,
};
