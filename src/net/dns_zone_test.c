#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "cache/cache.h"
#include "net/dns_message.h"
#include "net/dns_zone.h"
#include "net/pods.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const char *const pods_text[] = {
    "{\"metadata\":{\"name\":\"w-0\",\"namespace\":\"a\",\"uid\":\"1\",\"labels\":{\"job\":\"w\"}},"
    "\"spec\":{\"hostname\":\"zero\",\"subdomain\":\"w\",\"containers\":[{\"ports\":[{\"name\":"
    "\"web\",\"containerPort\":8080}]}]}}",
    "{\"metadata\":{\"name\":\"w-1\",\"namespace\":\"a\",\"uid\":\"2\",\"labels\":{\"job\":\"w\"}},"
    "\"spec\":{\"subdomain\":\"w\"}}",
    "{\"metadata\":{\"name\":\"x\",\"namespace\":\"a\",\"uid\":\"3\",\"labels\":{\"job\":\"w\"}},"
    "\"spec\":{}}",
};
static const char *const services_text[] = {
    "{\"metadata\":{\"name\":\"w\",\"namespace\":\"a\",\"uid\":\"4\"},\"spec\":{\"clusterIP\":"
    "\"None\",\"selector\":{\"job\":\"w\"},\"ports\":[{\"name\":\"web\",\"port\":80,"
    "\"protocol\":\"TCP\",\"targetPort\":\"web\"},{\"name\":\"q\",\"port\":9,\"protocol\":"
    "\"UDP\"}]}}",
    "{\"metadata\":{\"name\":\"all\",\"namespace\":\"a\",\"uid\":\"5\"},\"spec\":{\"clusterIP\":"
    "\"None\",\"publishNotReadyAddresses\":true,\"selector\":{\"job\":\"w\"}}}",
    "{\"metadata\":{\"name\":\"web\",\"namespace\":\"b\",\"uid\":\"6\"},\"spec\":{\"clusterIP\":"
    "\"10.1.128.9\",\"selector\":{\"app\":\"web\"},\"ports\":[{\"name\":\"http\",\"port\":80,"
    "\"protocol\":\"TCP\",\"targetPort\":8080}]}}",
    "{\"metadata\":{\"name\":\"alias\",\"namespace\":\"b\",\"uid\":\"7\"},"
    "\"spec\":{\"type\":\"ExternalName\",\"externalName\":\"web.b.svc.cluster.local\"}}",
    "{\"metadata\":{\"name\":\"far\",\"namespace\":\"b\",\"uid\":\"8\"},"
    "\"spec\":{\"type\":\"ExternalName\",\"externalName\":\"www.example.com\"}}",
    "{\"metadata\":{\"name\":\"round\",\"namespace\":\"b\",\"uid\":\"9\"},"
    "\"spec\":{\"type\":\"ExternalName\",\"externalName\":\"round.b.svc.cluster.local\"}}",
    "{\"metadata\":{\"name\":\"db\",\"namespace\":\"b\",\"uid\":\"10\"},\"spec\":{\"clusterIP\":"
    "\"None\",\"ports\":[{\"name\":\"pg\",\"port\":5432,\"protocol\":\"TCP\"}]}}",
};
static const char *const slice_text =
    "{\"metadata\":{\"name\":\"db-1\",\"namespace\":\"b\",\"uid\":\"11\",\"labels\":{"
    "\"kubernetes.io/service-name\":\"db\"}},\"addressType\":\"IPv4\",\"ports\":[{\"name\":\"pg\","
    "\"port\":6432}],\"endpoints\":[{\"addresses\":[\"192.168.3.5\"],\"hostname\":\"one\"},{"
    "\"addresses\":[\"192.168.3.6\"],\"conditions\":{\"ready\":true}},{\"addresses\":["
    "\"192.168.3.7\"],\"conditions\":{\"ready\":false}}]}";

struct bench {
    struct arena arena;
    struct cache *cache;
    struct net_pod pods[COUNT_OF(pods_text)];
    struct dns_zone zone;
};

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
    static const char *const ips[] = {"10.1.0.2", "10.1.0.3", "10.1.0.4"};

    *bench = (struct bench){.cache = cache_new(1)};
    for (size_t i = 0; i < COUNT_OF(pods_text); i++) {
        struct object *object = NULL;

        EXPECT(object_new(&kind_pod, str_from(pods_text[i]), &object, NULL) == 0);
        arena_defer(&bench->arena, object_release, object);
        bench->pods[i] = (struct net_pod){.object = object,
                                          .root = object_json(object, &bench->arena),
                                          .ip = ips[i],
                                          .named = true,
                                          .ready = i != 1};
    }
    for (size_t i = 0; i < COUNT_OF(services_text); i++) {
        struct object *object = NULL;

        EXPECT(object_new(&kind_service, str_from(services_text[i]), &object, NULL) == 0);
        cache_put(bench->cache, object);
        object_unref(object);
    }
    struct object *slice = NULL;
    EXPECT(object_new(&kind_endpointslice, str_from(slice_text), &slice, NULL) == 0);
    cache_put(bench->cache, slice);
    object_unref(slice);
    bench->zone = (struct dns_zone){.cache = bench->cache,
                                    .pods = {next_pod, bench},
                                    .api_address = 0x0a018001u,
                                    .network = 0x0a010000u,
                                    .mask = 0xffff0000u};
}

static void bench_close(struct bench *bench)
{
    cache_free(bench->cache);
    arena_done(&bench->arena);
}

/* "A 10.1.0.2 A 10.1.0.3", in the order of the answer. */
static void tell(struct str answer, struct buf *out)
{
    struct dns_record record;

    for (size_t cursor = 0; dns_next_record(answer, &cursor, &record);) {
        const unsigned char *data = (const unsigned char *)record.data.p;

        if (out->len)
            buf_addc(out, ' ');
        if (record.type == DNS_A)
            buf_addf(out, "A %u.%u.%u.%u", data[0], data[1], data[2], data[3]);
        else if (record.type == DNS_CNAME)
            buf_addf(out, "CNAME %s", record.target);
        else if (record.type == DNS_SRV)
            buf_addf(out, "SRV %u:%.*s", (unsigned)data[4] << 8 | data[5], (int)data[6],
                     record.data.p + 7);
        else if (record.type == DNS_PTR)
            buf_addf(out, "PTR %.*s", (int)data[0], record.data.p + 1);
    }
}

TEST(names_of_the_cluster_mean_what_kubernetes_says)
{
    static const struct {
        const char *name;
        unsigned type;
        enum dns_found found;
        const char *answer;
        const char *why;
    } rows[] = {
        {"web.b.svc.cluster.local", DNS_A, DNS_FOUND, "A 10.1.128.9", "a service"},
        {"web.b.svc.cluster.local", DNS_AAAA, DNS_FOUND, "", "which has no IPv6"},
        {"web.c.svc.cluster.local", DNS_A, DNS_NOT_FOUND, "", "of another namespace"},
        {"_http._tcp.web.b.svc.cluster.local", DNS_SRV, DNS_FOUND, "SRV 80:web", "its port"},
        {"_http._udp.web.b.svc.cluster.local", DNS_SRV, DNS_NOT_FOUND, "", "by TCP only"},
        {"_http._tcp.web.b.svc.cluster.local", DNS_A, DNS_FOUND, "", "a port has no address"},
        {"w.a.svc.cluster.local", DNS_A, DNS_FOUND, "A 10.1.0.2 A 10.1.0.4",
         "a headless one: its ready pods"},
        {"all.a.svc.cluster.local", DNS_A, DNS_FOUND, "A 10.1.0.2 A 10.1.0.3 A 10.1.0.4",
         "or all, where it says so"},
        {"_web._tcp.w.a.svc.cluster.local", DNS_SRV, DNS_FOUND, "SRV 8080:zero",
         "the port that the pod gives this name; who has none is left out"},
        {"_q._udp.w.a.svc.cluster.local", DNS_SRV, DNS_FOUND, "SRV 9:zero SRV 9:10-1-0-4",
         "without a hostname a pod is known by its address"},
        {"zero.w.a.svc.cluster.local", DNS_A, DNS_FOUND, "A 10.1.0.2", "a pod by its hostname"},
        {"w-1.w.a.svc.cluster.local", DNS_A, DNS_FOUND, "A 10.1.0.3",
         "or its name, before it is ready: gangs meet that way"},
        {"10-1-0-4.w.a.svc.cluster.local", DNS_A, DNS_FOUND, "A 10.1.0.4", "or its address"},
        {"two.w.a.svc.cluster.local", DNS_A, DNS_NOT_FOUND, "", "nobody"},
        {"db.b.svc.cluster.local", DNS_A, DNS_FOUND, "A 192.168.3.5 A 192.168.3.6",
         "what somebody wrote for one without a selector, as far as it is ready"},
        {"_pg._tcp.db.b.svc.cluster.local", DNS_SRV, DNS_FOUND, "SRV 6432:one SRV 6432:192-168-3-6",
         "with the port that is written there"},
        {"one.db.b.svc.cluster.local", DNS_A, DNS_FOUND, "A 192.168.3.5", "by its hostname"},
        {"192-168-3-6.db.b.svc.cluster.local", DNS_A, DNS_FOUND, "A 192.168.3.6", "or address"},
        {"192-168-3-7.db.b.svc.cluster.local", DNS_A, DNS_NOT_FOUND, "", "which is not ready"},
        {"10-1-0-2.a.pod.cluster.local", DNS_A, DNS_FOUND, "A 10.1.0.2", "a pod"},
        {"10-1-0-2.b.pod.cluster.local", DNS_A, DNS_NOT_FOUND, "", "it is in another namespace"},
        {"alias.b.svc.cluster.local", DNS_A, DNS_FOUND,
         "CNAME web.b.svc.cluster.local A 10.1.128.9", "another name for a service"},
        {"far.b.svc.cluster.local", DNS_A, DNS_ALIAS, "CNAME www.example.com",
         "for something outside"},
        {"far.b.svc.cluster.local", DNS_CNAME, DNS_FOUND, "CNAME www.example.com",
         "who asks for the alias gets that"},
        {"kubernetes.default.svc.cluster.local", DNS_A, DNS_FOUND, "A 10.1.128.1",
         "the API server, before its service is there"},
        {"9.128.1.10.in-addr.arpa", DNS_PTR, DNS_FOUND, "PTR web", "the address of a service"},
        {"2.0.1.10.in-addr.arpa", DNS_PTR, DNS_FOUND, "PTR zero", "of a pod"},
        {"4.0.1.10.in-addr.arpa", DNS_PTR, DNS_FOUND, "PTR 10-1-0-4", "of one without a name"},
        {"99.0.1.10.in-addr.arpa", DNS_PTR, DNS_NOT_FOUND, "", "of nobody"},
        {"8.8.8.8.in-addr.arpa", DNS_PTR, DNS_ELSEWHERE, "", "of somebody else"},
        {"www.example.com", DNS_A, DNS_ELSEWHERE, "", "a name of others"},
        {"notcluster.local", DNS_A, DNS_ELSEWHERE, "", "that ends alike"},
        {"svc.cluster.local", DNS_A, DNS_FOUND, "", "there is something below"},
        {"nothing.cluster.local", DNS_A, DNS_NOT_FOUND, "", "here there is not"},
        {"a.b.c.d.e.f.g.h.i.cluster.local", DNS_A, DNS_NOT_FOUND, "", "far too deep"},
    };
    static struct dns_writer writer;
    struct bench bench;

    bench_open(&bench);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct buf text = {0};
        struct dns_query query = {.type = (uint16_t)rows[i].type};
        struct str target = STR_NONE;

        test_case(rows[i].why);
        (void)snprintf(query.name, sizeof(query.name), "%s", rows[i].name);
        /* A header and a question, so that it can be read again. */
        char message[300] = {0};
        struct str rest = str_from(rows[i].name), label;
        size_t len = 12;
        while (str_cut(&rest, '.', &label)) {
            message[len++] = (char)label.len;
            memcpy(message + len, label.p, label.len);
            len += label.len;
        }
        query.question_end = len + 5;
        dns_begin(&writer, &query, (struct str){message, query.question_end}, DNS_MESSAGE_MAX);
        EXPECT(dns_zone_answer(&bench.zone, &arena, &query, &writer, &target) == rows[i].found);
        tell(dns_end(&writer, DNS_FINE, true), &text);
        EXPECT(str_is(buf_str(&text), rows[i].answer));
        EXPECT((rows[i].found == DNS_ALIAS) == str_is(target, "www.example.com"));
        buf_done(&text);
        arena_done(&arena);
    }
    bench_close(&bench);
}

TEST(an_alias_that_leads_to_itself_ends)
{
    static struct dns_writer writer;
    struct bench bench;
    struct arena arena = {0};
    struct str target = STR_NONE;
    struct dns_query query = {.type = DNS_A, .name = "round.b.svc.cluster.local"};

    bench_open(&bench);
    dns_begin(&writer, &query, STR(""), DNS_MESSAGE_MAX);
    EXPECT(dns_zone_answer(&bench.zone, &arena, &query, &writer, &target) == DNS_FOUND);
    EXPECT(writer.answers <= 5);
    arena_done(&arena);
    bench_close(&bench);
}
