#include "agent/security.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

TEST(kernel_settings_and_unknown_runtimes_are_refused_in_words)
{
    static const struct {
        const char *spec;
        const char *words; /* NULL: it runs */
    } rows[] = {
        {"{}", NULL},
        {"{\"securityContext\":{\"sysctls\":[]},\"runtimeClassName\":\"nvidia\"}", NULL},
        {"{\"securityContext\":{\"sysctls\":[{\"name\":\"kernel.shm_rmid_forced\","
         "\"value\":\"1\"}]}}",
         "spec.securityContext.sysctls: "},
        {"{\"runtimeClassName\":\"gvisor\"}", "spec.runtimeClassName: gvisor: "},
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
