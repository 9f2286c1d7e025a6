#include "base/arena.h"
#include "base/json.h"
#include "control/job/launcher.h"
#include "test.h"

static struct json *pod(struct arena *arena, const char *text)
{
    struct json *root = NULL;

    EXPECT(json_parse(arena, str_from(text), &root, NULL) == 0);
    return root;
}

TEST(launcher_is_copied_in_front_of_everything_and_mounted_where_it_is_run)
{
    struct arena arena = {0};
    struct json *root = pod(&arena, "{\"spec\":{\"initContainers\":[{\"name\":\"mine\"}],"
                                    "\"containers\":[{\"name\":\"trainer\",\"command\":"
                                    "[\"/.muster/muster-launch\",\"worker\"]},"
                                    "{\"name\":\"side\",\"command\":[\"sh\"]}]}}");

    launcher_add(root, STR("muster:1"), &arena);
    EXPECT(str_is(json_str_at(root, "spec.initContainers.0.image"), "muster:1"));
    EXPECT(str_is(json_str_at(root, "spec.initContainers.1.name"), "mine"));
    EXPECT(str_is(json_str_at(root, "spec.containers.0.volumeMounts.0.mountPath"), "/.muster"));
    EXPECT(json_is_null(json_at(root, "spec.containers.1.volumeMounts")));
    EXPECT(json_is(json_at(root, "spec.volumes.0.emptyDir"), JSON_OBJECT));
    arena_done(&arena);
}

TEST(launcher_is_let_in_where_pods_are_restricted_and_quotas_count)
{
    struct arena arena = {0};
    struct json *root =
        pod(&arena, "{\"spec\":{\"securityContext\":{\"runAsUser\":0},\"containers\":[{\"command\":"
                    "[\"/.muster/muster-launch\",\"worker\"],\"resources\":{\"limits\":"
                    "{\"memory\":\"8Gi\"}}}]}}");

    launcher_add(root, STR("muster:1"), &arena);
    EXPECT(str_is(json_text(&arena, json_at(root, "spec.initContainers.0.securityContext")),
                  "{\"allowPrivilegeEscalation\":false,\"readOnlyRootFilesystem\":true,"
                  "\"runAsNonRoot\":true,\"capabilities\":{\"drop\":[\"ALL\"]},"
                  "\"seccompProfile\":{\"type\":\"RuntimeDefault\"},\"runAsUser\":65532}"));
    /* What the container has that runs it, it may have too: that costs nothing. Else a little. */
    EXPECT(str_is(json_text(&arena, json_at(root, "spec.initContainers.0.resources")),
                  "{\"limits\":{\"memory\":\"8Gi\"},\"requests\":{\"cpu\":\"10m\"}}"));
    arena_done(&arena);
}

TEST(launcher_leaves_pods_alone_that_do_not_run_it)
{
    struct arena arena = {0};
    const char *text = "{\"spec\":{\"containers\":[{\"name\":\"c\",\"command\":[\"sleep\"]}]}}";
    struct json *root = pod(&arena, text);

    launcher_add(root, STR("muster:1"), &arena);
    EXPECT(str_is(json_text(&arena, root), text));
    arena_done(&arena);
}

TEST(launcher_without_an_image_changes_nothing)
{
    struct arena arena = {0};
    const char *text = "{\"spec\":{\"containers\":[{\"command\":[\"/.muster/muster-launch\"]}]}}";
    struct json *root = pod(&arena, text);

    launcher_add(root, STR_NONE, &arena);
    EXPECT(str_is(json_text(&arena, root), text));
    arena_done(&arena);
}
