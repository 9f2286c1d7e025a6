#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "kube/auth.h"
#include "kube/kubeconfig.h"
#include "kube/transport.h"
#include "test.h"
#include "tool/file.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

/* A folder with files of credentials, a loop, and an auth made from a config. */
#define FILES_MAX     8
#define TURN_LIMIT_MS 30000

struct bench {
    char folder[64];
    char *files[FILES_MAX];
    size_t file_count;
    struct arena arena;
    uv_loop_t loop;
    uv_timer_t limit;
    struct auth *auth;
    struct err err;
    int changes;
    bool late;
};

static void on_changed(void *user)
{
    struct bench *bench = user;

    bench->changes++;
}

static void on_late(uv_timer_t *timer)
{
    struct bench *bench = timer->data;

    bench->late = true;
}

static void bench_init(struct bench *bench)
{
    *bench = (struct bench){.folder = "/tmp/auth-test-XXXXXX"};
    EXPECT(mkdtemp(bench->folder) != NULL);
    EXPECT(uv_loop_init(&bench->loop) == 0);
    uv_timer_init(&bench->loop, &bench->limit);
    bench->limit.data = bench;
    uv_unref((uv_handle_t *)&bench->limit);
}

static void bench_done(struct bench *bench)
{
    auth_free(bench->auth);
    uv_close((uv_handle_t *)&bench->limit, NULL);
    uv_run(&bench->loop, UV_RUN_DEFAULT);
    EXPECT(uv_loop_close(&bench->loop) == 0);
    while (bench->file_count > 0) {
        char *path = bench->files[--bench->file_count];

        (void)unlink(path);
        free(path);
    }
    (void)rmdir(bench->folder);
    arena_done(&bench->arena);
}

static const char *file_named(struct bench *bench, const char *name)
{
    char *path = NULL;

    EXPECT(asprintf(&path, "%s/%s", bench->folder, name) > 0);
    for (size_t i = 0; i < bench->file_count; i++)
        if (strcmp(bench->files[i], path) == 0) {
            free(path);
            return bench->files[i];
        }
    EXPECT(bench->file_count < FILES_MAX);
    return bench->files[bench->file_count++] = path;
}

static const char *write_file(struct bench *bench,
                              const char *name,
                              const char *text,
                              unsigned int mode)
{
    const char *path = file_named(bench, name);

    EXPECT(file_replace(path, str_from(text), mode, &bench->err) == 0);
    return path;
}

static void open_auth(struct bench *bench, const struct kube_config *config)
{
    EXPECT(auth_new(&bench->loop, config, on_changed, bench, &bench->auth, &bench->err) == 0);
}

/* The token once there is one, or the failure; what is being fetched is waited for. */
static int fetch(struct bench *bench, struct str *ret)
{
    int r;

    bench->err = (struct err){0};
    bench->late = false;
    uv_timer_start(&bench->limit, on_late, TURN_LIMIT_MS, 0);
    while ((r = auth_token(bench->auth, ret, &bench->err)) == -EAGAIN && !bench->late) {
        int before = bench->changes;

        while (bench->changes == before && !bench->late)
            uv_run(&bench->loop, UV_RUN_ONCE);
    }
    uv_timer_stop(&bench->limit);
    EXPECT(!bench->late);
    return r;
}

static struct str content(struct bench *bench, const char *path)
{
    struct str text = STR_NONE;

    EXPECT(file_read(&bench->arena, path, &text, &bench->err) == 0);
    return text;
}

TEST(auth_reads_a_token_file_again_after_a_refusal_and_keeps_what_it_has)
{
    struct bench bench;
    struct str token = STR_NONE;

    bench_init(&bench);
    const char *path = write_file(&bench, "token", "first\n", 0600);
    open_auth(&bench, &(struct kube_config){.source = "config", .server = "s", .token_file = path});
    EXPECT(fetch(&bench, &token) == 0 && str_is(token, "first"));
    (void)write_file(&bench, "token", "second\n", 0600);
    EXPECT(fetch(&bench, &token) == 0 && str_is(token, "first")); /* not at every request */
    EXPECT(auth_expire(bench.auth));
    EXPECT(fetch(&bench, &token) == 0 && str_is(token, "second"));
    (void)write_file(&bench, "token", " \n", 0600);
    EXPECT(auth_expire(bench.auth));
    EXPECT(fetch(&bench, &token) == 0 && str_is(token, "second")); /* being replaced just now */
    (void)unlink(path);
    EXPECT(auth_expire(bench.auth));
    EXPECT(fetch(&bench, &token) == 0 && str_is(token, "second"));
    bench_done(&bench);
}

TEST(auth_names_the_config_the_field_and_the_file_of_a_token_it_cannot_read)
{
    struct bench bench;
    struct str token = STR_NONE;

    bench_init(&bench);
    const char *path = file_named(&bench, "token");
    open_auth(&bench, &(struct kube_config){.source = "config", .server = "s", .token_file = path});
    EXPECT(fetch(&bench, &token) == -ENOENT);
    EXPECT(str_starts(str_from(bench.err.text), STR("config: tokenFile: ")));
    EXPECT(str_contains(str_from(bench.err.text), str_from(path)));
    (void)write_file(&bench, "token", "\n", 0600);
    EXPECT(fetch(&bench, &token) == -EINVAL);
    EXPECT(str_ends(str_from(bench.err.text), STR("token is empty")));
    (void)write_file(&bench, "token", "late\n", 0600);
    EXPECT(fetch(&bench, &token) == 0 && str_is(token, "late"));
    bench_done(&bench);
}

#define PEM(words) "-----BEGIN X-----\n" words "\n-----END X-----\n"

TEST(auth_takes_certificates_that_were_replaced_once_they_are_whole)
{
    struct bench bench;
    struct str token = STR_NONE;

    bench_init(&bench);
    struct kube_config config = {
        .source = "config",
        .server = "s",
        .token = "t",
        .ca_file = write_file(&bench, "ca", PEM("one"), 0600),
        .ca_pem = STR(PEM("one")),
        .cert_file = write_file(&bench, "cert", PEM("cert one"), 0600),
        .cert_pem = STR(PEM("cert one")),
        .key_file = write_file(&bench, "key", PEM("key one"), 0600),
        .key_pem = STR(PEM("key one")),
    };
    open_auth(&bench, &config);
    const struct transport_tls *tls = auth_tls(bench.auth);
    EXPECT(str_is(content(&bench, tls->ca_file), PEM("one")));
    EXPECT(str_is(content(&bench, tls->key_file), PEM("key one")));

    (void)write_file(&bench, "ca", "-----BEGIN X-----\ncut sho", 0600);
    (void)write_file(&bench, "cert", PEM("cert two"), 0600);
    EXPECT(fetch(&bench, &token) == 0 && bench.changes == 0); /* not at every request */
    auth_doubt(bench.auth);
    EXPECT(fetch(&bench, &token) == 0 && str_is(token, "t"));
    EXPECT(bench.changes == 1);
    EXPECT(str_is(content(&bench, tls->ca_file), PEM("one")));
    EXPECT(str_is(content(&bench, tls->cert_file), PEM("cert two"))); /* of the same key */

    (void)write_file(&bench, "ca", PEM("two"), 0600);
    (void)unlink(config.key_file);
    (void)write_file(&bench, "cert", PEM("cert three"), 0600);
    auth_doubt(bench.auth);
    EXPECT(fetch(&bench, &token) == 0 && bench.changes == 2);
    EXPECT(str_is(content(&bench, tls->ca_file), PEM("two")));
    EXPECT(str_is(content(&bench, tls->cert_file), PEM("cert two"))); /* its key is not there */
    auth_doubt(bench.auth);
    EXPECT(fetch(&bench, &token) == 0 && bench.changes == 2); /* nothing new */
    bench_done(&bench);
}

/* ---- exec plugins ---- */

#define CREDENTIAL(status) "{\"kind\":\"ExecCredential\",\"status\":{" status "}}"

static const char *const no_args[] = {NULL};
static const struct kubeconfig_env greeting[] = {{"GREETING", "hello"}};

/* An auth whose plugin is this shell script. */
static void open_plugin(struct bench *bench, const char *script)
{
    struct kubeconfig_exec exec = {
        .api_version = "client.authentication.k8s.io/v1",
        .command = write_file(bench, "plugin", script, 0700),
        .args = no_args,
        .env = greeting,
        .env_count = 1,
        .install_hint = "install it",
        .provide_cluster_info = true,
    };

    open_auth(bench,
              &(struct kube_config){
                  .source = "config", .server = "https://s", .ca_pem = STR("PEM"), .exec = &exec});
}

TEST(auth_runs_a_plugin_once_and_again_after_a_refusal)
{
    struct bench bench;
    struct str token = STR_NONE;

    bench_init(&bench);
    (void)file_named(&bench, "count");
    open_plugin(&bench,
                "#!/bin/sh\n"
                "echo >> \"${0%/*}/count\"\n"
                "n=$(wc -l < \"${0%/*}/count\")\n"
                "case $KUBERNETES_EXEC_INFO in *https://s*UEVN*) ;; *) n=uninformed ;; esac\n"
                "echo '" CREDENTIAL("\"token\":\"'$GREETING-$n'\"") "'\n");
    EXPECT(fetch(&bench, &token) == 0 && str_is(token, "hello-1"));
    EXPECT(fetch(&bench, &token) == 0 && str_is(token, "hello-1"));
    EXPECT(auth_expire(bench.auth));
    EXPECT(fetch(&bench, &token) == 0 && str_is(token, "hello-2"));
    bench_done(&bench);
}

TEST(auth_uses_a_credential_that_ends_at_once_before_it_asks_for_another)
{
    struct bench bench;
    struct str token = STR_NONE;

    bench_init(&bench);
    open_plugin(&bench,
                "#!/bin/sh\necho '" CREDENTIAL(
                    "\"token\":\"short\",\"expirationTimestamp\":\"2001-01-01T00:00:00Z\"") "'\n");
    EXPECT(fetch(&bench, &token) == 0 && str_is(token, "short"));
    EXPECT(fetch(&bench, &token) == 0 && bench.changes == 1);
    bench_done(&bench);
}

TEST(auth_takes_a_client_certificate_from_a_plugin)
{
    struct bench bench;
    struct str token = STR_NONE;

    bench_init(&bench);
    open_plugin(&bench, "#!/bin/sh\necho '" CREDENTIAL(
                            "\"clientCertificateData\":\"CERT\",\"clientKeyData\":\"KEY\"") "'\n");
    EXPECT(!auth_tls(bench.auth)->cert_file);
    EXPECT(fetch(&bench, &token) == 0 && token.len == 0);
    EXPECT(str_is(content(&bench, auth_tls(bench.auth)->cert_file), "CERT"));
    EXPECT(str_is(content(&bench, auth_tls(bench.auth)->key_file), "KEY"));
    bench_done(&bench);
}

TEST(auth_says_what_a_plugin_did_wrong_and_lets_it_rest)
{
    static const struct {
        const char *why;
        const char *script;
        const char *says;
    } rows[] = {
        {"fails", "#!/bin/sh\nexit 3\n", "exit status 3"},
        {"killed", "#!/bin/sh\nkill -9 $$\n", "exit status 137"},
        {"no JSON", "#!/bin/sh\necho token\n", "its output: "},
        {"no status", "#!/bin/sh\necho '{}'\n", "its output has no status"},
        {"nothing in it", "#!/bin/sh\necho '" CREDENTIAL("") "'\n",
         "neither token nor client certificate"},
        {"half a pair", "#!/bin/sh\necho '" CREDENTIAL("\"clientCertificateData\":\"C\"") "'\n",
         "needs status.clientKeyData"},
        {"no moment",
         "#!/bin/sh\necho '" CREDENTIAL("\"token\":\"t\",\"expirationTimestamp\":\"soon\"") "'\n",
         "status.expirationTimestamp"},
        {"too much", "#!/bin/sh\nexec cat /dev/zero\n", "bytes of output"},
        {"not there", "#!/nonexistent/interpreter\n", "does not start"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct bench bench;
        struct str token = STR_NONE;

        test_case(rows[i].why);
        bench_init(&bench);
        open_plugin(&bench, rows[i].script);
        EXPECT(fetch(&bench, &token) < 0);
        EXPECT(str_starts(str_from(bench.err.text), STR("config: exec plugin ")));
        EXPECT(str_contains(str_from(bench.err.text), STR("/plugin")));
        EXPECT(str_contains(str_from(bench.err.text), str_from(rows[i].says)));
        int runs = bench.changes;
        EXPECT(fetch(&bench, &token) < 0 && bench.changes == runs); /* the same words */
        EXPECT(str_contains(str_from(bench.err.text), str_from(rows[i].says)));
        bench_done(&bench);
    }
}

TEST(auth_ends_a_plugin_that_still_runs_when_it_is_freed)
{
    struct bench bench;
    struct str token = STR_NONE;
    struct str text = STR_NONE;
    int64_t child = 0;

    bench_init(&bench);
    const char *path = file_named(&bench, "child");
    open_plugin(&bench, "#!/bin/sh\n"
                        "sleep 1000 2> /dev/null &\n"
                        "echo $! > \"${0%/*}/new\" && mv \"${0%/*}/new\" \"${0%/*}/child\"\n"
                        "wait\n");
    EXPECT(auth_token(bench.auth, &token, &bench.err) == -EAGAIN);
    uv_timer_start(&bench.limit, on_late, TURN_LIMIT_MS, 0);
    while (file_read(&bench.arena, path, &text, NULL) < 0 && !bench.late)
        uv_run(&bench.loop, UV_RUN_NOWAIT);
    EXPECT(str_to_i64(str_trim(text), &child));
    bench_done(&bench); /* returns, though the child of the plugin holds its output open */
    EXPECT(child > 0 && kill((pid_t)child, SIGKILL) == 0);
    EXPECT(bench.changes == 0);
}
