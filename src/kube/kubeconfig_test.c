#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "kube/kubeconfig.h"
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Files in a folder of their own, removed at the end. */
struct folder {
    char path[64];
    char *files[4];
    size_t count;
};

static void folder_init(struct folder *folder)
{
    *folder = (struct folder){.path = "/tmp/kubeconfig-test-XXXXXX"};
    EXPECT(mkdtemp(folder->path) != NULL);
}

static const char *write_file(struct folder *folder, const char *name, const char *text)
{
    char *path = NULL;
    FILE *file;

    EXPECT(asprintf(&path, "%s/%s", folder->path, name) > 0);
    folder->files[folder->count++] = path;
    file = fopen(path, "we");
    EXPECT(file != NULL);
    if (file) {
        (void)fputs(text, file);
        (void)fclose(file);
    }
    return path;
}

static void folder_done(struct folder *folder)
{
    while (folder->count > 0) {
        char *path = folder->files[--folder->count];

        (void)unlink(path);
        free(path);
    }
    (void)rmdir(folder->path);
}

static const char one[] =
    "clusters:\n"
    "- {name: c1, cluster: {server: 'https://one:6443', certificate-authority: ca.pem}}\n"
    "users:\n"
    "- {name: u1, user: {token: secret}}\n"
    "contexts:\n"
    "- {name: x, context: {cluster: c1, user: u1, namespace: team}}\n"
    "current-context: x\n";
static const char two[] =
    "clusters:\n"
    "- {name: c1, cluster: {server: 'https://shadowed', insecure-skip-tls-verify: true}}\n"
    "- {name: c2, cluster: {server: 'https://two', tls-server-name: api, proxy-url: 'http://p'}}\n"
    "users:\n"
    "- name: u2\n"
    "  user:\n"
    "    exec:\n"
    "      apiVersion: client.authentication.k8s.io/v1\n"
    "      command: ./get-token\n"
    "      args: [-a, b]\n"
    "      env: [{name: K, value: v}]\n"
    "contexts:\n"
    "- {name: z, context: {cluster: c2, user: u2}}\n"
    "current-context: z\n";

TEST(kubeconfig_takes_each_entry_from_the_first_file_that_has_it)
{
    struct folder folder;
    struct arena arena = {0};
    struct kube_config config = {0};
    struct err err = {0};

    folder_init(&folder);
    (void)write_file(&folder, "ca.pem", "PEM");
    const char *a = write_file(&folder, "a", one);
    const char *b = write_file(&folder, "b", two);
    struct str both = str_printf(&arena, "%s:/nonexistent:%s", a, b);

    EXPECT(kubeconfig_load(&arena, &(struct kubeconfig_options){.env = both.p}, &config, &err) ==
           0);
    EXPECT(str_is(STR("https://one:6443"), config.server));
    EXPECT(!config.insecure);
    EXPECT(str_is(config.ca_pem, "PEM")); /* relative to the file that names it */
    EXPECT(str_is(STR("secret"), config.token));
    EXPECT(str_is(STR("team"), config.ns));

    EXPECT(kubeconfig_load(&arena, &(struct kubeconfig_options){.env = both.p, .context = "z"},
                           &config, &err) == 0);
    EXPECT(str_is(STR("https://two"), config.server));
    EXPECT(str_is(STR("api"), config.server_name));
    EXPECT(str_is(STR("http://p"), config.proxy));
    EXPECT(str_is(STR("default"), config.ns));
    EXPECT(config.exec && str_ends(str_from(config.exec->command), STR("/./get-token")));
    EXPECT(config.exec && str_is(STR("b"), config.exec->args[1]) && !config.exec->args[2]);
    EXPECT(config.exec && config.exec->env_count == 1);
    folder_done(&folder);
    arena_done(&arena);
}

#define HAS_USER                                                                  \
    "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n" \
    "clusters: [{name: c, cluster: {server: s}}]\nusers: [{name: u, user: "

TEST(kubeconfig_says_what_is_wrong_with_a_file)
{
    static const struct {
        const char *text;
        const char *says;
        const char *why;
    } rows[] = {
        {"current-context: x\n", "there is no context \"x\"", "dangling context"},
        {"contexts: []\n", "no current-context", "nothing chosen"},
        {"[1]\n", "not a mapping", "another document"},
        {"current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n",
         "there is no cluster \"c\"", "dangling cluster"},
        {"current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
         "clusters: [{name: c, cluster: {server: s}}]\n",
         "there is no user \"u\"", "dangling user"},
        {"current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n"
         "clusters: [{name: c, cluster: {server: s, certificate-authority-data: '***'}}]\n",
         "certificate-authority-data is not base64", "bad base64"},
        {"current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n"
         "clusters: [{name: c, cluster: {}}]\n",
         "has no server", "no server"},
        {HAS_USER "{client-certificate: /nonexistent/cert}}]\n",
         "client-certificate: /nonexistent/cert", "no such file"},
        {HAS_USER "{client-certificate: /dev/null}}]\n", "client-certificate: /dev/null is empty",
         "empty file"},
        {HAS_USER "{client-key-data: UEVN}}]\n", "a client certificate needs its key", "half"},
        {HAS_USER "{client-key-data: '?'}}]\n", "client-key-data is not base64", "bad key"},
        {HAS_USER "{username: me, password: it}}]\n", "username: basic authentication was removed",
         "basic authentication"},
        {HAS_USER "{auth-provider: {name: gcp}}}]\n", "auth-provider was removed", "auth-provider"},
        {HAS_USER "{exec: {command: c}}}]\n", "exec: command and apiVersion", "no apiVersion"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct folder folder;
        struct arena arena = {0};
        struct kube_config config = {0};
        struct err err = {0};

        test_case(rows[i].why);
        folder_init(&folder);
        const char *path = write_file(&folder, "config", rows[i].text);
        EXPECT(kubeconfig_load(&arena, &(struct kubeconfig_options){.path = path}, &config, &err) <
               0);
        EXPECT(str_contains(str_from(err.text), str_from(rows[i].says)));
        EXPECT(str_starts(str_from(err.text), str_from(folder.path)));
        EXPECT(!config.server);
        folder_done(&folder);
        arena_done(&arena);
    }
}
