#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "fuzz/fuzz.h"
#include "kube/kubeconfig.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* A kubeconfig of whoever. It says where the server is and who we are, or it is refused with words
 * that begin with the file, and nothing is half taken. */
FUZZ(kubeconfig)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct kube_config config = {0};
    struct err err = {0};
    char path[32];
    int fd = memfd_create("kubeconfig", MFD_CLOEXEC);

    FUZZ_HOLDS(fd >= 0);
    for (size_t done = 0; done < input.len;) {
        ssize_t wrote = write(fd, input.p + done, input.len - done);

        FUZZ_HOLDS(wrote > 0);
        done += (size_t)wrote;
    }
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (kubeconfig_load(&arena, &(struct kubeconfig_options){.path = path}, &config, &err) < 0) {
        FUZZ_HOLDS(str_starts(str_from(err.text), str_from(path)));
        FUZZ_HOLDS(!config.server && !config.context);
    } else {
        FUZZ_HOLDS(config.server && config.context && config.ns && config.source);
        FUZZ_HOLDS((config.cert_pem.len > 0) == (config.key_pem.len > 0));
        FUZZ_HOLDS(!config.exec || (config.exec->command && config.exec->api_version));
        for (size_t i = 0; config.exec && config.exec->args[i]; i++)
            FUZZ_HOLDS(i < 1000);
    }
    (void)close(fd);
}
