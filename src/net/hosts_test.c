#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "net/hosts.h"
#include "net/pods.h"
#include "net/resolv.h"
#include "net/service.h"
#include "test.h"
#include "tool/files.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const pods_text[] = {
    "{\"metadata\":{\"name\":\"w-0\",\"namespace\":\"a\",\"uid\":\"1\",\"labels\":{\"job\":\"w\"}},"
    "\"spec\":{\"hostname\":\"zero\",\"subdomain\":\"w\","
    "\"hostAliases\":[{\"ip\":\"10.1.1.1\",\"hostnames\":[\"far\",\"away\"]}]}}",
    "{\"metadata\":{\"name\":\"w-1\",\"namespace\":\"a\",\"uid\":\"2\",\"labels\":{\"job\":\"w\"}},"
    "\"spec\":{\"subdomain\":\"w\"}}",
    "{\"metadata\":{\"name\":\"x\",\"namespace\":\"a\",\"uid\":\"3\"},\"spec\":{}}",
};
static const char *const services_text[] = {
    "{\"metadata\":{\"name\":\"w\",\"namespace\":\"a\",\"uid\":\"4\"},"
    "\"spec\":{\"clusterIP\":\"None\",\"selector\":{\"job\":\"w\"}}}",
    "{\"metadata\":{\"name\":\"web\",\"namespace\":\"b\",\"uid\":\"5\"},"
    "\"spec\":{\"clusterIP\":\"127.32.0.2\",\"selector\":{\"app\":\"web\"}}}",
    "{\"metadata\":{\"name\":\"alias\",\"namespace\":\"b\",\"uid\":\"6\"},"
    "\"spec\":{\"type\":\"ExternalName\",\"externalName\":\"web.b.svc.cluster.local\"}}",
    "{\"metadata\":{\"name\":\"far\",\"namespace\":\"b\",\"uid\":\"7\"},"
    "\"spec\":{\"type\":\"ExternalName\",\"externalName\":\"www.example.com\"}}",
};

struct bench {
    struct arena arena;
    struct cache *cache;
    struct net_pod pods[COUNT_OF(pods_text)];
    struct hosts *hosts;
    char folder[64];
};

static struct object *object_of(const struct kind *kind, const char *text)
{
    struct object *object = NULL;
    struct err err = {0};
    EXPECT(object_new(kind, str_from(text), &object, &err) == 0);
    return object;
}

static bool next_pod(void *user, size_t *cursor, struct net_pod *ret)
{
    struct bench *bench = user;
    if (*cursor >= COUNT_OF(bench->pods))
        return false;
    *ret = bench->pods[(*cursor)++];
    return true;
}

static void bench_open(struct bench *bench)
{
    static const char *const ips[] = {"127.64.0.1", "127.64.0.2", "127.64.0.3"};
    *bench = (struct bench){.cache = cache_new(1), .folder = "/tmp/hosts-test-XXXXXX"};
    EXPECT(mkdtemp(bench->folder) != NULL);
    for (size_t i = 0; i < COUNT_OF(pods_text); i++) {
        struct object *object = object_of(&kind_pod, pods_text[i]);
        arena_defer(&bench->arena, object_release, object);
        bench->pods[i] = (struct net_pod){.object = object,
                                          .root = object_json(object, &bench->arena),
                                          .ip = ips[i],
                                          .named = true};
    }
    for (size_t i = 0; i < COUNT_OF(services_text); i++) {
        struct object *object = object_of(&kind_service, services_text[i]);
        cache_put(bench->cache, object);
        object_unref(object);
    }
    bench->hosts = hosts_new(
        &(struct hosts_options){.cache = bench->cache, .pods = {next_pod, bench}, .seed = 1});
}

static void bench_close(struct bench *bench)
{
    char path[80];
    (void)snprintf(path, sizeof(path), "%s/hosts", bench->folder);
    (void)unlink(path);
    (void)rmdir(bench->folder);
    hosts_free(bench->hosts);
    cache_free(bench->cache);
    arena_done(&bench->arena);
}

/* Is the file of pod `index` this text? */
static bool hosts_are(struct bench *bench, size_t index, const char *want)
{
    char path[80];
    uint64_t hash = 0;
    struct buf text = {0};
    (void)snprintf(path, sizeof(path), "%s/hosts", bench->folder);
    EXPECT(hosts_write(bench->hosts, &bench->pods[index], bench->folder, &hash, NULL) == 0);
    EXPECT(hash != 0);
    EXPECT(files_read(path, 4096, &text));
    bool same = str_is(buf_str(&text), want);
    buf_done(&text);
    return same;
}

#define LOCAL                                                       \
    "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\t" \
    "localhost ip6-localhost ip6-loopback\n"
#define WEB                                                 \
    "127.32.0.2\tweb.b web.b.svc web.b.svc.cluster.local\n" \
    "127.32.0.2\talias.b alias.b.svc alias.b.svc.cluster.local\n"
#define SERVER \
    "127.0.0.1\tkubernetes.default kubernetes.default.svc kubernetes.default.svc.cluster.local\n"
#define ZERO     "127.64.0.1\tzero.w zero.w.a zero.w.a.svc zero.w.a.svc.cluster.local\n"
#define ONE      "127.64.0.2\tw-1.w w-1.w.a w-1.w.a.svc w-1.w.a.svc.cluster.local\n"
#define HEADLESS "\tw w.a w.a.svc w.a.svc.cluster.local\n"

TEST(hosts_name_the_pod_its_gang_its_services_and_the_api_server)
{
    struct bench bench;
    bench_open(&bench);
    EXPECT(hosts_are(&bench, 0,
                     LOCAL "127.64.0.1\tzero.w.a.svc.cluster.local zero\n# Entries added by "
                           "HostAliases.\n10.1.1.1\tfar\taway\n" ZERO ONE "127.64.0.1" HEADLESS
                           "127.64.0.2" HEADLESS WEB SERVER));
    EXPECT(hosts_are(&bench, 2,
                     LOCAL "127.64.0.3\tx\n" ZERO ONE "127.64.0.1" HEADLESS
                           "127.64.0.2" HEADLESS WEB SERVER));
    bench_close(&bench);
}

TEST(hosts_name_what_was_written_for_a_headless_service)
{
    struct bench bench;
    bench_open(&bench);
    struct object *service = object_of(
        &kind_service, "{\"metadata\":{\"name\":\"db\",\"namespace\":\"a\",\"uid\":\"8\"},"
                       "\"spec\":{\"clusterIP\":\"None\"}}");
    struct object *slice =
        object_of(&kind_endpointslice,
                  "{\"metadata\":{\"name\":\"db-1\",\"namespace\":\"a\",\"uid\":\"9\",\"labels\":{"
                  "\"kubernetes.io/service-name\":\"db\"}},\"addressType\":\"IPv4\",\"endpoints\":["
                  "{\"addresses\":[\"10.9.0.5\"],\"hostname\":\"one\"}]}");
    cache_put(bench.cache, service);
    cache_put(bench.cache, slice);
    object_unref(service);
    object_unref(slice);
    EXPECT(hosts_are(&bench, 2,
                     LOCAL
                     "127.64.0.3\tx\n" ZERO ONE "127.64.0.1" HEADLESS "127.64.0.2" HEADLESS WEB
                     "10.9.0.5\tdb db.a db.a.svc db.a.svc.cluster.local\n"
                     "10.9.0.5\tone.db one.db.a one.db.a.svc one.db.a.svc.cluster.local\n" SERVER));
    bench_close(&bench);
}

TEST(hosts_follow_a_pod_that_ends_once_they_are_told)
{
    struct bench bench;
    bench_open(&bench);
    EXPECT(!hosts_take_changed(bench.hosts));
    EXPECT(hosts_are(&bench, 2,
                     LOCAL "127.64.0.3\tx\n" ZERO ONE "127.64.0.1" HEADLESS
                           "127.64.0.2" HEADLESS WEB SERVER));
    bench.pods[1].named = false;
    hosts_changed(bench.hosts);
    EXPECT(hosts_take_changed(bench.hosts));
    EXPECT(!hosts_take_changed(bench.hosts));
    EXPECT(hosts_are(&bench, 2, LOCAL "127.64.0.3\tx\n" ZERO "127.64.0.1" HEADLESS WEB SERVER));
    bench_close(&bench);
}

TEST(hosts_matter_for_pods_that_others_have_names_for)
{
    struct bench bench;
    bench_open(&bench);
    EXPECT(hosts_matter(bench.hosts, &bench.pods[0]));
    EXPECT(!hosts_matter(bench.hosts, &bench.pods[2]));
    struct net_pod selected = bench.pods[0];
    selected.root = bench.pods[2].root; /* no subdomain, but a headless service selects it */
    EXPECT(hosts_matter(bench.hosts, &selected));
    bench_close(&bench);
}

TEST(a_service_without_a_selector_selects_no_pod)
{
    static const struct {
        const char *service;
        bool want;
        const char *why;
    } rows[] = {
        {"{\"spec\":{\"selector\":{\"job\":\"w\"}}}", true, "the label it wants"},
        {"{\"spec\":{\"selector\":{\"job\":\"v\"}}}", false, "another value"},
        {"{\"spec\":{\"selector\":{\"job\":\"w\",\"a\":\"b\"}}}", false, "one of two labels"},
        {"{\"spec\":{\"selector\":{}}}", false, "an empty selector"},
        {"{\"spec\":{}}", false, "no selector"},
    };
    struct arena arena = {0};
    struct object *pod = object_of(&kind_pod, pods_text[0]);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct json *root = NULL;
        test_case(rows[i].why);
        EXPECT(json_parse(&arena, str_from(rows[i].service), &root, NULL) == 0);
        EXPECT(service_selects(root, pod) == rows[i].want);
    }
    object_unref(pod);
    arena_done(&arena);
}

TEST(a_pod_asks_the_name_servers_that_its_policy_says)
{
#define NONE                                                                                      \
    "{\"dnsPolicy\":\"None\",\"dnsConfig\":{\"nameservers\":[\"1.1.1.1\"],\"searches\":[\"a.b\"," \
    "\"c\"],"                                                                                     \
    "\"options\":[{\"name\":\"ndots\",\"value\":\"2\"},{\"name\":\"edns0\"}]}}"
    static const char machine[] = "# ours\nnameserver 127.0.0.53\nnameserver 9.9.9.9\n"
                                  "search far.example  near.example\noptions edns0 trust-ad\n";
    static const struct {
        const char *spec;
        const char *server;
        const char *want;
        const char *why;
    } rows[] = {
        {NONE, "10.1.128.1", "nameserver 1.1.1.1\nsearch a.b c\noptions ndots:2 edns0\n",
         "nothing but its own words"},
        {"{}", "10.1.128.1",
         "nameserver 10.1.128.1\nnameserver 9.9.9.9\nsearch n.svc.cluster.local svc.cluster.local "
         "cluster.local far.example near.example\noptions ndots:5\n",
         "the cluster's, and the machine's while muster is away"},
        {"{\"dnsPolicy\":\"ClusterFirst\",\"dnsConfig\":{\"nameservers\":[\"1.1.1.1\",\"2.2.2.2\"],"
         "\"searches\":[\"a.b\"],\"options\":[{\"name\":\"ndots\",\"value\":\"2\"}]}}",
         "10.1.128.1",
         "nameserver 10.1.128.1\nnameserver 1.1.1.1\nnameserver 2.2.2.2\n"
         "search n.svc.cluster.local svc.cluster.local cluster.local far.example near.example a.b\n"
         "options ndots:2\n",
         "its own words count before the machine's"},
        {"{\"dnsPolicy\":\"Default\"}", "10.1.128.1",
         "nameserver 9.9.9.9\nsearch far.example near.example\noptions edns0 trust-ad\n",
         "the machine's, but those on its loopback"},
        {"{}", "", "nameserver 9.9.9.9\nsearch far.example near.example\noptions edns0 trust-ad\n",
         "there is no server of ours"},
        {"{\"hostNetwork\":true,\"dnsPolicy\":\"ClusterFirst\"}", "10.1.128.1",
         "nameserver 9.9.9.9\nsearch far.example near.example\noptions edns0 trust-ad\n",
         "on the machine's network this policy means the machine's"},
        {"{\"hostNetwork\":true,\"dnsPolicy\":\"ClusterFirstWithHostNet\"}", "10.1.128.1",
         "nameserver 10.1.128.1\nnameserver 9.9.9.9\nsearch n.svc.cluster.local svc.cluster.local "
         "cluster.local far.example near.example\noptions ndots:5\n",
         "and this one the cluster's"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct buf text = {0};
        struct json *spec = NULL;

        test_case(rows[i].why);
        EXPECT(json_parse(&arena, str_from(rows[i].spec), &spec, NULL) == 0);
        resolv_conf_write(spec, &(struct resolv_cluster){rows[i].server, STR("n")},
                          str_from(machine), &text);
        EXPECT(str_is(buf_str(&text), rows[i].want));
        buf_done(&text);
        arena_done(&arena);
    }
#undef NONE
}
