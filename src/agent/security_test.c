#include "agent/security.h"
#include "agent/sysctl.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define SIXTEEN "1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8,"

TEST(what_a_node_does_not_do_is_refused_in_words)
{
    static const struct {
        const char *spec;
        const char *words; /* NULL: it runs */
    } rows[] = {
        {"{}", NULL},
        {"{\"runtimeClassName\":\"nvidia\"}", NULL},
        {"{\"runtimeClassName\":\"gvisor\"}", "spec.runtimeClassName: gvisor: "},
        {"{\"shareProcessNamespace\":false}", NULL},
        {"{\"shareProcessNamespace\":true}", "spec.shareProcessNamespace: on this node each"},
        {"{\"securityContext\":{\"supplementalGroups\":[1,2,3]}}", NULL},
        {"{\"securityContext\":{\"supplementalGroups\":[" SIXTEEN SIXTEEN SIXTEEN SIXTEEN "5]}}",
         "spec.securityContext.supplementalGroups: 65 groups"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *spec = NULL;
        struct err err = {0};

        test_case(rows[i].spec);
        EXPECT(json_parse(&arena, str_from(rows[i].spec), &spec, NULL) == 0);
        EXPECT(security_check_spec(spec, &err) == (rows[i].words ? -ENOTSUP : 0));
        EXPECT(!rows[i].words || str_starts(str_from(err.text), str_from(rows[i].words)));
    }
}

#define SETTING(name, value) \
    "{\"securityContext\":{\"sysctls\":[{\"name\":\"" name "\",\"value\":\"" value "\"}]}}"

TEST(a_pod_sets_what_is_its_own_in_the_kernel_and_nothing_else)
{
    static const struct {
        const char *why;
        const char *spec;
        struct sysctl_scope scope;
        const char *words; /* NULL: it is set */
    } rows[] = {
        {"none", "{\"securityContext\":{\"sysctls\":[]}}", {0}, NULL},
        {"its own", SETTING("kernel.shm_rmid_forced", "1"), {.own_ipc = true}, NULL},
        {"hostIPC",
         SETTING("kernel.shm_rmid_forced", "1"),
         {.own_network = true},
         "spec.securityContext.sysctls: kernel.shm_rmid_forced: this pod shares"},
        {"slashes", SETTING("net/ipv4/tcp_syncookies", "0"), {.own_network = true}, NULL},
        {"hostNetwork",
         SETTING("net.ipv4.tcp_syncookies", "0"),
         {.own_ipc = true},
         "spec.securityContext.sysctls: net.ipv4.tcp_syncookies: this pod shares"},
        {"everybody's",
         SETTING("kernel.msgmax", "1"),
         {true, true},
         "spec.securityContext.sysctls: kernel.msgmax: it is not one"},
        {"no value",
         SETTING("kernel.shm_rmid_forced", ""),
         {true, true},
         "spec.securityContext.sysctls: kernel.shm_rmid_forced: give a value"},
        {"lines",
         SETTING("kernel.shm_rmid_forced", "1\\n2"),
         {true, true},
         "spec.securityContext.sysctls: kernel.shm_rmid_forced: give a value"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *spec = NULL;
        struct err err = {0};

        test_case(rows[i].why);
        EXPECT(json_parse(&arena, str_from(rows[i].spec), &spec, NULL) == 0);
        EXPECT((sysctl_check(spec, rows[i].scope, &err) < 0) == !!rows[i].words);
        EXPECT(!rows[i].words || str_starts(str_from(err.text), str_from(rows[i].words)));
    }
}

TEST(kernel_settings_are_files_for_the_shim_to_write)
{
    static const char expected[] =
        "sysctl.file=/proc/sys/net/ipv4/ping_group_range\0sysctl.write=0 7";
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf records = {0};
    struct json *spec = NULL;

    EXPECT(json_parse(&arena, STR(SETTING("net.ipv4.ping_group_range", "0 7")), &spec, NULL) == 0);
    sysctl_add(spec, &records);
    EXPECT(str_eq(buf_str(&records), (struct str){expected, sizeof(expected)}));
}
