#include "agent/lifecycle.h"
#include "agent/oci.h"
#include "agent/pod.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "image/image.h"
#include "shim/record.h"
#include "test.h"
#include "tool/files.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* What crun is told of a container with these records. */
static struct json *config_of(struct arena *arena, struct buf *records)
{
    struct run_container container = {.name = STR("c"), .instance = 2};
    struct pod pod = {.run = {.containers = &container, .count = 1}};
    const struct image image = {.rootfs = "/image"};
    char folder[] = "/tmp/muster-oci-XXXXXX", path[128];
    _cleanup_(buf_done) struct buf text = {.bytes_max = 1 << 20};
    struct json *config = NULL;

    EXPECT(mkdtemp(folder) != NULL);
    (void)snprintf(pod.folder, sizeof(pod.folder), "%s", folder);
    EXPECT(oci_bundle(&pod, 0, &image, records, NULL) == 0);
    (void)snprintf(path, sizeof(path), "%s/c/c/2.bundle/config.json", folder);
    EXPECT(files_read(path, 1 << 20, &text));
    EXPECT(json_parse(arena, str_dup(arena, buf_str(&text)), &config, NULL) == 0);
    files_remove(folder);
    return config;
}

static bool has(const struct json *list, const char *name)
{
    JSON_FOREACH(list, item)
        if (str_is(json_str(item), name))
            return true;
    return false;
}

/* Of calls that are refused with EPERM whatever their arguments are. */
static bool refuses(const struct json *config, const char *call)
{
    JSON_FOREACH(json_at(config, "linux.seccomp.syscalls"), rule)
        if (!json_get(rule, "args") && json_i64_or(json_get(rule, "errnoRet"), 0) == 1 &&
            has(json_get(rule, "names"), call))
            return true;
    return false;
}

TEST(a_container_of_an_image_has_the_filter_and_the_rights_that_its_records_say)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf records = {.bytes_max = 1 << 20};

    record_add(&records, "arg", STR("sh"));
    record_number(&records, "uid", 1234);
    record_add(&records, "caps", STR("400")); /* CAP_NET_BIND_SERVICE */
    record_number(&records, "nonewprivs", 1);
    record_number(&records, "seccomp", 1);
    record_add(&records, "hostname", STR("inside"));
    const struct json *config = config_of(&arena, &records);
    EXPECT(refuses(config, "mount") && refuses(config, "bpf") && !refuses(config, "read"));
    EXPECT(str_is(json_str_at(config, "linux.seccomp.defaultAction"), "SCMP_ACT_ALLOW"));
    EXPECT(json_count(json_at(config, "process.capabilities.effective")) == 1);
    EXPECT(has(json_at(config, "process.capabilities.bounding"), "CAP_NET_BIND_SERVICE"));
    EXPECT(json_bool_or(json_at(config, "process.noNewPrivileges"), false));
    EXPECT(json_i64_or(json_at(config, "process.user.uid"), 0) == 1234);
    EXPECT(has(json_at(config, "linux.maskedPaths"), "/proc/kcore"));
    EXPECT(has(json_at(config, "linux.readonlyPaths"), "/proc/sys"));
    /* The rest is the shim's, and what was the process's is crun's now. */
    EXPECT(str_contains(buf_str(&records), STR("hostname=inside")));
    EXPECT(str_contains(buf_str(&records), STR("root.lower=/image")));
    EXPECT(!str_contains(buf_str(&records), STR("seccomp=")));
}

TEST(a_privileged_container_of_an_image_has_no_filter_and_hides_nothing)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf records = {.bytes_max = 1 << 20};

    record_add(&records, "arg", STR("sh"));
    record_number(&records, "seccomp", 0);
    const struct json *config = config_of(&arena, &records);
    EXPECT(!json_at(config, "linux.seccomp") && !json_at(config, "linux.maskedPaths"));
    EXPECT(!json_at(config, "process.noNewPrivileges"));
}
