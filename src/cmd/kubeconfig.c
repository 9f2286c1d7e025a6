#include "api/kind.h"
#include "base/account.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/yaml.h"
#include "cmd/credential.h"
#include "cmd/datadir.h"
#include "cmd/look.h"
#include "cmd/muster.h"
#include "tool/file.h"
#include "tool/option.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* muster kubeconfig: where kubectl finds the server; --merge adds it to ~/.kube/config, with a token of an account that
 * stands for the owner (base/account.h). */

struct kubeconfig_values {
    const char *data_dir;
    bool merge;
    bool revoke;
};

static const struct option kubeconfig_options[] = {
    {"data-dir", 0, OPTION_STR, offsetof(struct kubeconfig_values, data_dir), .value = "DIR",
     .help = "data folder of muster up (default: the same as for up)"},
    {"merge", 0, OPTION_BOOL, offsetof(struct kubeconfig_values, merge),
     .help = "add the context \"muster\" to ~/.kube/config and make it the current one; its token "
             "is good for a year"},
    {"revoke", 0, OPTION_BOOL, offsetof(struct kubeconfig_values, revoke),
     .help = "make the tokens of all that was merged useless, at once"},
    {0},
};

/* The entry of that name in a list of clusters, users or contexts is replaced or added. */
static void merge_entry(struct arena *arena,
                        struct json *into,
                        const struct json *from,
                        const char *list)
{
    struct json *target = json_get(into, list);
    const struct json *entry = json_index(json_get(from, list), 0);
    size_t index = 0;

    if (!json_is(target, JSON_ARRAY))
        target = json_add_array(arena, into, list);
    JSON_FOREACH(target, item) {
        if (str_eq(json_str(json_get(item, "name")), json_str(json_get(entry, "name")))) {
            json_remove_index(target, index);
            break;
        }
        index++;
    }
    json_push(target, json_clone(arena, entry));
}

/* Others read ~/.kube/config, or are shown it: it gets a token that can be taken back, not the owner's. */
static int merged_token(struct arena *arena, const char *source, struct json *from, struct err *err)
{
    struct look look = {0};
    struct str token = STR_NONE, until = STR_NONE;
    struct json *user = json_get(json_index(json_get(from, "users"), 0), "user");
    int r = look_open(&look, arena, &(struct look_values){.kubeconfig = source}, err);

    if (r < 0)
        return r;
    r = credential_put(
        &look, &kind_serviceaccount, STR(ACCOUNT_OWNER_NAMESPACE),
        credential_object(arena, STR(ACCOUNT_OWNER_NAMESPACE), STR(ACCOUNT_OWNER_NAME)), err);
    if (r == 0)
        r = credential_token(&look,
                             &(struct credential){STR(ACCOUNT_OWNER_NAMESPACE),
                                                  STR(ACCOUNT_OWNER_NAME), CREDENTIAL_VALID_MAX_MS},
                             &token, &until, err);
    if (r == 0 && !json_is(user, JSON_OBJECT))
        r = err_set(err, -EINVAL, "%s has no user", source);
    if (r == 0)
        json_set(user, STR("token"), json_new_str(arena, str_dup(arena, token)));
    look_close(&look);
    return r < 0 ? err_wrap(err, r, "a token for it, from the muster up that runs") : 0;
}

static int revoke_merged(struct arena *arena, const char *source, struct err *err)
{
    struct look look = {0};
    int r = look_open(&look, arena, &(struct look_values){.kubeconfig = source}, err);

    if (r < 0)
        return r;
    r = credential_delete(&look, &kind_serviceaccount, STR(ACCOUNT_OWNER_NAMESPACE),
                          STR(ACCOUNT_OWNER_NAME), err);
    look_close(&look);
    if (r == 0)
        (void)printf("what was merged into other kubeconfigs is worth nothing from now on\n");
    return r;
}

static int merge(struct arena *arena, const char *data_dir, const char *source, struct err *err)
{
    static const char *const lists[] = {"clusters", "users", "contexts"};
    _cleanup_(buf_done) struct buf out = {0};
    const char *home = getenv("HOME");
    struct str text = STR_NONE;
    struct json *from = NULL;
    struct json *into = NULL;

    if (!home || !home[0])
        return err_set(err, -ENOENT, "HOME is not set: there is no ~/.kube/config to merge into");
    const char *folder = str_printf(arena, "%s/.kube", home).p;
    const char *path = str_printf(arena, "%s/config", folder).p;
    int r = file_read(arena, source, &text, err);
    if (r == 0)
        r = yaml_parse(arena, text, &from, err);
    if (r == 0)
        r = merged_token(arena, source, from, err);
    if (r < 0)
        return r;
    r = file_read(arena, path, &text, err);
    if (r == -ENOENT) {
        (void)mkdir(folder, 0700);
        text = STR("apiVersion: v1\nkind: Config\n");
        r = 0;
    }
    if (r == 0)
        r = yaml_parse(arena, text, &into, err);
    if (r == 0 && !json_is(into, JSON_OBJECT))
        r = err_set(err, -EINVAL, "not a kubeconfig");
    if (r < 0)
        return err_wrap(err, r, "%s", path);
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        merge_entry(arena, into, from, lists[i]);
    json_set(into, STR("current-context"), json_new_str(arena, STR("muster")));
    yaml_write(&out, into);
    r = datadir_note_kubeconfig(arena, data_dir, path, &path, err);
    if (r == 0)
        r = datadir_write_secret(path, buf_str(&out), err);
    if (r == 0)
        (void)printf("%s\n", path);
    return r;
}

static int kubeconfig_run(struct invocation *invocation)
{
    const struct kubeconfig_values *values = invocation->values;
    const char *folder = values->data_dir ? values->data_dir : datadir_default(invocation->arena);
    const char *path = str_printf(invocation->arena, "%s/kubeconfig", folder).p;
    struct err err = {0};

    if (access(path, R_OK) < 0) {
        (void)fprintf(stderr,
                      "muster kubeconfig: %s does not exist; start `muster up` first, or name its "
                      "folder with --data-dir\n",
                      path);
        return EXIT_FAILURE;
    }
    if (values->merge && values->revoke) {
        (void)fprintf(stderr, "muster kubeconfig: --merge and --revoke: one of them\n");
        return EXIT_USAGE;
    }
    if (!values->merge && !values->revoke) {
        (void)printf("%s\n", path);
        return EXIT_SUCCESS;
    }
    int r = values->revoke ? revoke_merged(invocation->arena, path, &err)
                           : merge(invocation->arena, folder, path, &err);
    if (r < 0) {
        (void)fprintf(stderr, "muster kubeconfig: %s\n", err.text);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

const struct command command_kubeconfig = {
    .name = "kubeconfig",
    .summary = "print where the kubeconfig of `muster up` is",
    .example = "export KUBECONFIG=$(muster kubeconfig)",
    .options = kubeconfig_options,
    .values_size = sizeof(struct kubeconfig_values),
    .run = kubeconfig_run,
};
