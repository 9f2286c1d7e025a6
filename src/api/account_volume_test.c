#include "api/account_volume.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* What a volume and one mount cost a pod: there are 13,000 in one `muster up`. */
#define BYTES_MAX 480

#define MOUNT                                                                \
    "{\"name\":\"kube-api-access-abcde\",\"readOnly\":true,\"mountPath\":\"" \
    "/var/run/secrets/kubernetes.io/serviceaccount\"}"

static struct json *parse(struct arena *arena, const char *text)
{
    struct json *root = NULL;

    EXPECT(json_parse(arena, str_from(text), &root, NULL) == 0);
    return root;
}

TEST(a_pod_says_whether_it_wants_a_token_and_else_its_account_does)
{
    static const struct {
        const char *spec;
        const char *account; /* NULL: it is not there yet */
        bool wanted;
        const char *why;
    } rows[] = {
        {"{}", "{}", true, "nobody says anything"},
        {"{}", NULL, true, "the account comes later"},
        {"{}", "{\"automountServiceAccountToken\":false}", false, "the account says no"},
        {"{\"automountServiceAccountToken\":true}", "{\"automountServiceAccountToken\":false}",
         true, "the pod's word counts before the account's"},
        {"{\"automountServiceAccountToken\":false}", "{\"automountServiceAccountToken\":true}",
         false, "either way"},
        {"{\"automountServiceAccountToken\":null}", "{\"automountServiceAccountToken\":false}",
         false, "null says nothing"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};

        test_case(rows[i].why);
        EXPECT(account_volume_wanted(parse(&arena, rows[i].spec),
                                     rows[i].account ? parse(&arena, rows[i].account) : NULL) ==
               rows[i].wanted);
    }
}

TEST(a_token_is_a_volume_that_every_container_mounts_once)
{
    static const struct {
        const char *spec;
        size_t volumes;
        const char *init; /* NULL: none; else the mounts of the first */
        const char *mounts;
        const char *why;
    } rows[] = {
        {"{\"containers\":[{}]}", 1, NULL, "[" MOUNT "]", "the usual"},
        {"{\"initContainers\":[{}],\"containers\":[{}]}", 1, "[" MOUNT "]", "[" MOUNT "]",
         "init containers too"},
        {"{\"containers\":[{\"volumeMounts\":[{\"name\":\"v\",\"mountPath\":\"/v\"}]}],"
         "\"volumes\":[{\"name\":\"v\",\"emptyDir\":{}}]}",
         2, NULL, "[{\"name\":\"v\",\"mountPath\":\"/v\"}," MOUNT "]", "beside others"},
        {"{\"containers\":[{\"volumeMounts\":[{\"name\":\"v\",\"mountPath\":"
         "\"/var/run/secrets/kubernetes.io/serviceaccount\"}]}]}",
         0, NULL,
         "[{\"name\":\"v\",\"mountPath\":\"/var/run/secrets/kubernetes.io/serviceaccount\"}]",
         "what is mounted there stays, and nobody needs the volume"},
        {"{\"containers\":[{}],\"volumes\":[{\"name\":\"kube-api-access-abcde\",\"emptyDir\":{}}]}",
         1, NULL, "[" MOUNT "]", "a copy of another pod brings it along"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *spec = parse(&arena, rows[i].spec);

        test_case(rows[i].why);
        account_volume_add(&arena, spec, STR("kube-api-access-abcde"));
        EXPECT(json_count(json_get(spec, "volumes")) == rows[i].volumes);
        EXPECT(
            str_is(json_text(&arena, json_at(spec, "containers.0.volumeMounts")), rows[i].mounts));
        if (rows[i].init)
            EXPECT(str_is(json_text(&arena, json_at(spec, "initContainers.0.volumeMounts")),
                          rows[i].init));
    }
}

TEST(the_volume_of_a_token_is_the_one_of_kubernetes_and_costs_little)
{
    _cleanup_(arena_done) struct arena arena = {0};
    static const char before[] = "{\"containers\":[{}]}";
    struct json *spec = parse(&arena, before);

    account_volume_add(&arena, spec, STR("kube-api-access-abcde"));
    EXPECT(str_is(
        json_text(&arena, json_at(spec, "volumes.0")),
        "{\"name\":\"kube-api-access-abcde\",\"projected\":{\"sources\":["
        "{\"serviceAccountToken\":{\"expirationSeconds\":3607,\"path\":\"token\"}},"
        "{\"configMap\":{\"name\":\"kube-root-ca.crt\",\"items\":[{\"key\":\"ca.crt\",\"path\":"
        "\"ca.crt\"}]}},"
        "{\"downwardAPI\":{\"items\":[{\"path\":\"namespace\",\"fieldRef\":{\"apiVersion\":\"v1\","
        "\"fieldPath\":\"metadata.namespace\"}}]}}],\"defaultMode\":420}}"));
    EXPECT(json_text(&arena, spec).len - strlen(before) <= BYTES_MAX);
}
