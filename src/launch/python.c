#include "launch/python.h"

#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "launch/shell.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Looks without importing: importing torch takes a second or more. */
static const char probe_script[] =
    "import importlib.util,os,re,sys\n"
    "s=importlib.util.find_spec('torch')\n"
    "if s is None or not s.origin: sys.exit(3)\n"
    "v='2'\n"
    "try:\n"
    "  t=open(os.path.join(os.path.dirname(s.origin),'version.py')).read()\n"
    "  v=re.search(r\"__version__ *= *['\\\"]([0-9.]+)\",t).group(1)\n"
    "except Exception: pass\n"
    "e=1 if importlib.util.find_spec('etcd') else 0\n"
    "print(v,sys.version_info[1],e,sys.executable)\n";

static bool python_probe(const char *python, struct python *ret)
{
    const char *argv[] = {python, "-c", probe_script, NULL};
    char line[PATH_MAX + 64];
    struct str version;
    struct str rest;
    struct str word;
    int64_t torch;
    int64_t minor;
    int64_t etcd;

    if (!shell_capture(argv, line, sizeof(line)))
        return false;
    rest = str_from(line);
    if (!str_cut(&rest, ' ', &version) ||
        !str_to_i64(str_sub(version, 0, str_find(version, '.')), &torch) ||
        !str_cut(&rest, ' ', &word) || !str_to_i64(word, &minor) || !str_cut(&rest, ' ', &word) ||
        !str_to_i64(word, &etcd) || rest.len == 0 || rest.len >= sizeof(ret->path))
        return false;
    *ret = (struct python){
        .torch_major = (int)torch, .python_minor = (int)minor, .has_etcd = etcd != 0};
    (void)snprintf(ret->path, sizeof(ret->path), STR_FMT, STR_ARG(rest));
    (void)snprintf(ret->torch, sizeof(ret->torch), STR_FMT, STR_ARG(version));
    return true;
}

/* The interpreter on the first line of a script. */
static bool script_shebang(const char *script, char *out, size_t out_bytes)
{
    char line[PATH_MAX];
    ssize_t got;
    int fd = open(script, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return false;
    got = read(fd, line, sizeof(line) - 1);
    close(fd);
    if (got < 3 || line[0] != '#' || line[1] != '!' || line[2] != '/')
        return false;
    line[got] = '\0';
    line[strcspn(line, " \t\r\n")] = '\0';
    (void)snprintf(out, out_bytes, "%s", line + 2);
    return true;
}

int python_find(struct python *ret, struct err *err)
{
    static const char *const places[] = {"/usr/bin/python3", "/usr/local/bin/python3",
                                         "/opt/conda/bin/python3"};
    char path[PATH_MAX];
    char script[PATH_MAX];

    if (shell_which("python", path, sizeof(path)) && python_probe(path, ret)) {
        ret->first_on_path = true;
        return 0;
    }
    if (shell_which("python3", path, sizeof(path)) && python_probe(path, ret))
        return 0;
    if (shell_which("torchrun", script, sizeof(script)) &&
        script_shebang(script, path, sizeof(path)) && python_probe(path, ret))
        return 0;
    for (size_t i = 0; i < COUNT_OF(places); i++)
        if (access(places[i], X_OK) == 0 && python_probe(places[i], ret))
            return 0;
    return err_set(err, -ENOENT,
                   "no Python here can import torch (tried python, python3 and torchrun on PATH, "
                   "then the usual places); use an image with PyTorch, or install it in --setup");
}

bool python_redirects_broken(const struct python *python)
{
    return python->torch_major < 2 && python->python_minor >= 11;
}
