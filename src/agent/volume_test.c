#include "agent/volume.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <stddef.h>
#include <stdint.h>

TEST(a_token_is_read_by_the_user_of_the_pod_as_the_kubelet_has_it)
{
    static const struct {
        const char *spec;
        unsigned mode;
        int64_t uid;
        const char *why;
    } rows[] = {
        {"{\"containers\":[{}]}", 0600, 7, "the usual user"},
        {"{\"containers\":[{},{}],\"securityContext\":{\"runAsUser\":5}}", 0600, 5,
         "all have the pod's"},
        {"{\"containers\":[{\"securityContext\":{\"runAsUser\":5}},{}]}", 0644, 7, "they differ"},
        {"{\"initContainers\":[{\"securityContext\":{\"runAsUser\":5}}],\"containers\":[{}]}", 0644,
         7, "one that comes first counts"},
        {"{\"containers\":[{\"securityContext\":{\"runAsUser\":5}}],"
         "\"securityContext\":{\"runAsUser\":6}}",
         0600, 5, "a container's own word"},
        {"{\"containers\":[{}],\"securityContext\":{\"fsGroup\":9,\"runAsUser\":5}}", 0600, 7,
         "its group reads it"},
        {"{\"containers\":[{}],\"securityContext\":{\"runAsUser\":-1}}", 0644, 7, "no user id"},
    };
    _cleanup_(arena_done) struct arena own = {0};
    struct json *image = NULL;
    int64_t nobody = -1;

    EXPECT(json_parse(&own, STR("{\"containers\":[{}]}"), &image, NULL) == 0);
    EXPECT(volume_token_mode(image, &nobody) == 0644 && nobody == -1);

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *spec = NULL;
        int64_t uid = 7;

        test_case(rows[i].why);
        EXPECT(json_parse(&arena, str_from(rows[i].spec), &spec, NULL) == 0);
        EXPECT(volume_token_mode(spec, &uid) == rows[i].mode);
        EXPECT(uid == rows[i].uid);
    }
}
