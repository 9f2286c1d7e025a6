#include "cmd/datadir.h"

#include "agent/host_path.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "http/certificate.h"
#include "http/jwt_public.h"
#include "http/tls.h"
#include "plugin/local.h"
#include "tool/clock.h"
#include "tool/file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#define TOKEN_BYTES 32

const char *datadir_default(struct arena *arena)
{
    return local_folder(arena);
}

const char *datadir_meant(struct arena *arena)
{
    const char *file = getenv("KUBECONFIG");
    const char *slash = file ? strrchr(file, '/') : NULL;

    if (!slash || slash == file || strcmp(slash, "/kubeconfig") != 0)
        return datadir_default(arena);
    const char *folder = str_printf(arena, "%.*s", (int)(slash - file), file).p;
    bool ours = access(str_printf(arena, "%s/store.db", folder).p, F_OK) == 0;
    return ours ? folder : datadir_default(arena);
}

const char *datadir_file(struct arena *arena, const struct datadir *dir, const char *name)
{
    return str_printf(arena, "%s/%s", dir->path, name).p;
}

static int absolute(struct arena *arena, const char *path, const char **ret, struct err *err)
{
    char cwd[PATH_MAX];

    if (path[0] == '/') {
        *ret = str_c(arena, str_from(path));
        return 0;
    }
    if (!getcwd(cwd, sizeof(cwd)))
        return err_set(err, -errno, "current folder: %s", uv_strerror(-errno));
    *ret = str_printf(arena, "%s/%s", cwd, path).p;
    return 0;
}

/* Like mkdir -p; the last one gets 0700. */
static int make_folders(const char *path, struct err *err)
{
    char part[PATH_MAX];
    size_t len = strlen(path);

    if (len >= sizeof(part))
        return err_set(err, -ENAMETOOLONG, "%s: path is too long", path);
    for (size_t i = 1; i <= len; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        (void)snprintf(part, sizeof(part), "%.*s", (int)i, path);
        if (mkdir(part, i == len ? 0700 : 0755) < 0 && errno != EEXIST)
            return err_set(err, -errno, "cannot create the folder %s: %s", part,
                           uv_strerror(-errno));
    }
    return 0;
}

static int lock(struct arena *arena, struct datadir *dir, struct err *err)
{
    const char *path = datadir_file(arena, dir, "lock");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0)
        return err_set(err, -errno, "data folder %s is not writable: %s", dir->path,
                       uv_strerror(-errno));
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        int code = -errno;
        char pid[32] = "";
        ssize_t len = read(fd, pid, sizeof(pid) - 1);

        (void)close(fd);
        if (code != -EWOULDBLOCK)
            return err_set(err, code, "locking %s: %s", path, uv_strerror(code));
        pid[len > 0 ? len : 0] = '\0';
        pid[strcspn(pid, "\n")] = '\0';
        return err_set(err, -EBUSY,
                       "data folder %s is in use by another muster (pid %s); stop it or give "
                       "--data-dir another folder",
                       dir->path, pid[0] ? pid : "unknown");
    }
    dir->lock_fd = fd;
    if (ftruncate(fd, 0) == 0)
        (void)dprintf(fd, "%ld\n", (long)getpid());
    return 0;
}

/* Read a secret, or make it the first time. */
static int token(struct arena *arena,
                 const struct datadir *dir,
                 const char *name,
                 struct str *ret,
                 struct err *err)
{
    _cleanup_(buf_done) struct buf made = {0};
    const char *path = datadir_file(arena, dir, name);
    int r = file_read(arena, path, ret, NULL);

    if (r == 0) {
        *ret = str_trim(*ret);
        if (ret->len)
            return 0;
    } else if (r != -ENOENT) {
        return file_read(arena, path, ret, err);
    }
    r = tls_random_hex(&made, TOKEN_BYTES, err);
    if (r == 0)
        r = file_replace(path, buf_str(&made), 0600, err);
    if (r == 0)
        *ret = str_dup(arena, buf_str(&made));
    return r;
}

static int make_certificates(struct arena *arena,
                             const struct datadir *dir,
                             const char *const *hosts,
                             struct err *err)
{
    _cleanup_(buf_done) struct buf ca = {0};
    _cleanup_(buf_done) struct buf ca_key = {0};
    _cleanup_(buf_done) struct buf crt = {0};
    _cleanup_(buf_done) struct buf key = {0};
    struct tls_made made = {&ca, &ca_key, &crt, &key};
    const struct {
        const char *name;
        struct buf *content;
    } files[] = {
        /* The certificate comes last: it is what says that the set is complete. */
        {"tls/ca.key", &ca_key},
        {"tls/ca.crt", &ca},
        {"tls/server.key", &key},
        {"tls/server.crt", &crt},
    };
    int r = tls_make(hosts, clock_now_ms(), &made, err);

    for (size_t i = 0; i < COUNT_OF(files) && r == 0; i++)
        r = file_replace(datadir_file(arena, dir, files[i].name), buf_str(files[i].content), 0600,
                         err);
    return r;
}

/* It listens elsewhere than before, or has further names: another certificate by the same authority, so that everybody's
 * kubeconfig stays true. */
static int renew_certificate(struct arena *arena,
                             struct datadir *dir,
                             const char *const *hosts,
                             struct err *err)
{
    _cleanup_(buf_done) struct buf crt = {0};
    _cleanup_(buf_done) struct buf key = {0};
    struct str ca_key;
    int r = file_read(arena, datadir_file(arena, dir, "tls/ca.key"), &ca_key, err);

    if (r == 0)
        r = tls_make_server(hosts, clock_now_ms(), &(struct tls_authority){dir->ca, ca_key},
                            &(struct certificate_pair){&crt, &key}, err);
    if (r == 0)
        r = file_replace(datadir_file(arena, dir, "tls/server.key"), buf_str(&key), 0600, err);
    if (r == 0)
        r = file_replace(datadir_file(arena, dir, "tls/server.crt"), buf_str(&crt), 0600, err);
    if (r == 0)
        dir->certificate = str_dup(arena, buf_str(&crt));
    return r;
}

static int certificates(struct arena *arena,
                        struct datadir *dir,
                        const char *const *hosts,
                        struct err *err)
{
    const char *path = datadir_file(arena, dir, "tls/server.crt");
    bool has_all = true;

    if (mkdir(datadir_file(arena, dir, "tls"), 0700) < 0 && errno != EEXIST)
        return err_set(err, -errno, "data folder %s is not writable: %s", dir->path,
                       uv_strerror(-errno));
    if (access(path, F_OK) < 0) {
        int r = make_certificates(arena, dir, hosts, err);
        if (r < 0)
            return r;
    }
    int r = file_read(arena, path, &dir->certificate, err);
    if (r == 0)
        r = file_read(arena, datadir_file(arena, dir, "tls/ca.crt"), &dir->ca, err);
    for (size_t i = 0; r == 0 && i < TLS_HOSTS_MAX && hosts[i]; i++)
        has_all = has_all && certificate_is_for(dir->certificate, hosts[i]);
    if (r == 0 && !has_all)
        r = renew_certificate(arena, dir, hosts, err);
    if (r == 0)
        r = file_read(arena, datadir_file(arena, dir, "tls/server.key"), &dir->key, err);
    return r;
}

/* By which API servers that this one hands requests on to know it. Its authority has signed nothing
 * else and never will: a certificate of a user must not be good for it. */
static int front_proxy(struct arena *arena, struct datadir *dir, struct err *err)
{
    _cleanup_(buf_done) struct buf ca = {0};
    _cleanup_(buf_done) struct buf crt = {0};
    _cleanup_(buf_done) struct buf key = {0};
    const struct {
        const char *name;
        struct buf *content;
        struct str *ret;
    } files[] = {
        {"tls/front-proxy-ca.crt", &ca, &dir->proxy_ca},
        {"tls/front-proxy.key", &key, &dir->proxy_key},
        {"tls/front-proxy.crt", &crt, &dir->proxy_certificate}, /* last: the set is complete */
    };
    bool made = access(datadir_file(arena, dir, files[2].name), F_OK) == 0;
    int r = made ? 0
                 : tls_make_client("front-proxy-client", clock_now_ms(),
                                   &(struct tls_made){&ca, NULL, &crt, &key}, err);

    for (size_t i = 0; i < COUNT_OF(files) && r == 0; i++) {
        const char *path = datadir_file(arena, dir, files[i].name);

        if (!made)
            r = file_replace(path, buf_str(files[i].content), 0600, err);
        if (r == 0)
            r = file_read(arena, path, files[i].ret, err);
    }
    return r;
}

/* Behind the secret: the key whose tokens others can check. */
static int public_key(struct arena *arena, struct datadir *dir, struct err *err)
{
    _cleanup_(buf_done) struct buf made = {0};
    const char *path = datadir_file(arena, dir, "token-key.pem");
    struct str pem = STR_NONE;
    int r = file_read(arena, path, &pem, NULL);

    if (r == -ENOENT) {
        r = jwt_public_make(&made, err);
        if (r == 0)
            r = file_replace(path, buf_str(&made), 0600, err);
        pem = str_dup(arena, buf_str(&made));
    } else if (r < 0) {
        r = file_read(arena, path, &pem, err);
    }
    if (r == 0)
        dir->token_key =
            str_printf(arena, STR_FMT "\n" STR_FMT, STR_ARG(dir->token_key), STR_ARG(pem));
    return r;
}

int datadir_hold(struct arena *arena, const char *path, struct datadir *ret, struct err *err)
{
    struct datadir dir = {.lock_fd = -1};
    int r = absolute(arena, path, &dir.path, err);

    assert(r < 0 || dir.path);
    if (r == 0)
        r = make_folders(dir.path, err);
    if (r == 0)
        r = lock(arena, &dir, err);
    if (r == 0)
        *ret = dir;
    return r;
}

int datadir_open(struct arena *arena,
                 const char *path,
                 const char *const *hosts,
                 struct datadir *ret,
                 struct err *err)
{
    struct datadir dir = {.lock_fd = -1};
    int r = datadir_hold(arena, path, &dir, err);

    if (r == 0)
        r = certificates(arena, &dir, hosts, err);
    if (r == 0)
        r = front_proxy(arena, &dir, err);
    if (r == 0)
        r = token(arena, &dir, "token", &dir.token, err);
    if (r == 0)
        r = token(arena, &dir, "token-key", &dir.token_key, err);
    if (r == 0)
        r = public_key(arena, &dir, err);
    if (r < 0) {
        datadir_close(&dir);
        return r;
    }
    *ret = dir;
    return 0;
}

void datadir_close(struct datadir *dir)
{
    if (dir->lock_fd >= 0)
        (void)close(dir->lock_fd);
    dir->lock_fd = -1;
}

int datadir_note_kubeconfig(struct arena *arena,
                            const char *folder,
                            const char *path,
                            const char **ret_path,
                            struct err *err)
{
    const char *list = str_printf(arena, "%s/%s", folder, HOST_PATH_KUBECONFIGS).p;
    struct str text = STR("");
    int r = absolute(arena, path, ret_path, err);

    if (r < 0)
        return r;
    r = file_read(arena, list, &text, err);
    if (r < 0 && r != -ENOENT)
        return r;
    struct str rest = text;
    struct str line;
    while (str_cut(&rest, '\n', &line))
        if (str_is(line, *ret_path))
            return 0;
    /* The newest first: so many are hidden, and no more. */
    return file_replace(list, str_printf(arena, "%s\n" STR_FMT, *ret_path, STR_ARG(text)), 0600,
                        err);
}

int datadir_write_secret(const char *path, struct str text, struct err *err)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat status;

    if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode)) {
        if (fd >= 0)
            (void)close(fd);
        return file_replace(path, text, 0600, err);
    }
    int r = fchmod(fd, 0600) < 0 ? -errno : 0;
    if (r == 0 && (pwrite(fd, text.p, text.len, 0) != (ssize_t)text.len ||
                   ftruncate(fd, (off_t)text.len) < 0 || fsync(fd) < 0))
        r = errno ? -errno : -EIO;
    (void)close(fd);
    return r < 0 ? err_set(err, r, "cannot write %s: %s", path, uv_strerror(r)) : 0;
}

int datadir_write_kubeconfig(const struct datadir *dir,
                             const char *path,
                             const char *server,
                             struct err *err)
{
    _cleanup_(buf_done) struct buf text = {0};

    buf_addf(&text,
             "apiVersion: v1\n"
             "kind: Config\n"
             "current-context: muster\n"
             "clusters:\n"
             "- name: muster\n"
             "  cluster:\n"
             "    server: %s\n"
             "    certificate-authority-data: ",
             server);
    tls_base64(&text, dir->ca);
    buf_addf(&text,
             "\n"
             "users:\n"
             "- name: muster\n"
             "  user:\n"
             "    token: " STR_FMT "\n"
             "contexts:\n"
             "- name: muster\n"
             "  context:\n"
             "    cluster: muster\n"
             "    user: muster\n"
             "    namespace: default\n",
             STR_ARG(dir->token));
    return datadir_write_secret(path, buf_str(&text), err);
}
