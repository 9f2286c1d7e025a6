#include "pods.h"

#include "base/buf.h"
#include "base/count.h"
#include "base/rng.h"
#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

static void add_uid(struct buf *buf, struct rng *rng)
{
    uint64_t a = rng_next(rng);
    uint64_t b = rng_next(rng);

    buf_addf(buf, "\"%08x-%04x-4%03x-a%03x-%012llx\"", (unsigned)(a & 0xffffffff),
             (unsigned)(a >> 32 & 0xffff), (unsigned)(a >> 48 & 0xfff), (unsigned)(b & 0xfff),
             (unsigned long long)(b >> 16));
}

static void add_metadata(struct buf *buf, struct rng *rng, size_t job, size_t rank)
{
    buf_addf(
        buf,
        "\"metadata\":{\"name\":\"train-%zu-worker-%zu\",\"generateName\":\"train-%zu-worker-\","
        "\"namespace\":\"team-%zu\",\"uid\":",
        job, rank, job, job % 7);
    add_uid(buf, rng);
    buf_addf(
        buf,
        ",\"resourceVersion\":\"%llu\",\"creationTimestamp\":\"2026-11-15T02:%02u:%02uZ\","
        "\"labels\":{\"app.kubernetes.io/name\":\"trainer\",\"torchrun-job-name\":\"train-%zu\","
        "\"kai.scheduler/queue\":\"research-%zu\",\"training.kubeflow.org/replica-index\":\"%zu\","
        "\"training.kubeflow.org/replica-type\":\"worker\",\"pod-template-hash\":\"%08x\"},"
        "\"annotations\":{\"pod-group-name\":\"pg-train-%zu\",\"torchrun.ai/generation\":\"1\","
        "\"prometheus.io/scrape\":\"true\",\"description\":\"epoch sweep \\\"lr=3e-4\\\"\\nby "
        "team\"},"
        "\"ownerReferences\":[{\"apiVersion\":\"torchrun.ai/v1\",\"kind\":\"TorchrunJob\","
        "\"name\":\"train-%zu\",\"uid\":",
        (unsigned long long)rng_below(rng, 90000000), (unsigned)rng_below(rng, 60),
        (unsigned)rng_below(rng, 60), job, job % 11, rank, (unsigned)rng_below(rng, 1U << 31), job,
        job);
    add_uid(buf, rng);
    buf_add(
        buf,
        STR(",\"controller\":true,\"blockOwnerDeletion\":true}],\"managedFields\":[{\"manager\":"
            "\"muster\",\"operation\":\"Update\",\"apiVersion\":\"v1\",\"time\":"
            "\"2026-11-15T02:03:04Z\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{\"f:metadata\":{"
            "\"f:labels\":{\".\":{},\"f:torchrun-job-name\":{},\"f:kai.scheduler/queue\":{}},"
            "\"f:ownerReferences\":{\".\":{}}},\"f:spec\":{\"f:containers\":{"
            "\"k:{\\\"name\\\":\\\"pytorch\\\"}\":{\".\":{},\"f:command\":{},\"f:env\":{\".\":{}},"
            "\"f:image\":{},\"f:resources\":{\".\":{},\"f:limits\":{\".\":{}}}}},"
            "\"f:restartPolicy\":{},\"f:schedulerName\":{}}}}]},"));
}

static void add_container(struct buf *buf, struct rng *rng, size_t job, size_t rank)
{
    static const char *const names[] = {"MASTER_ADDR", "MASTER_PORT",        "WORLD_SIZE",
                                        "NODE_RANK",   "NCCL_SOCKET_IFNAME", "OMP_NUM_THREADS",
                                        "DATASET_URL", "PYTHONUNBUFFERED"};

    buf_add(buf,
            STR("\"containers\":[{\"name\":\"pytorch\",\"image\":\"registry.example/team/"
                "trainer:2.4.1-cuda12\","
                "\"command\":[\"torchrun\",\"--nnodes=4\",\"--nproc-per-node=8\",\"train.py\"],"
                "\"args\":[\"--config\",\"/etc/train/config.yaml\",\"--resume\"],\"workingDir\":\"/"
                "app\","
                "\"ports\":[{\"name\":\"rdzv\",\"containerPort\":29500,\"protocol\":\"TCP\"}],"
                "\"env\":["));
    for (size_t i = 0; i < COUNT_OF(names); i++)
        buf_addf(buf, "%s{\"name\":\"%s\",\"value\":\"train-%zu-worker-%zu.train-%zu:%llu\"}",
                 i ? "," : "", names[i], job, rank, job, (unsigned long long)rng_below(rng, 65536));
    buf_addf(
        buf,
        ",{\"name\":\"POD_IP\",\"valueFrom\":{\"fieldRef\":{\"apiVersion\":\"v1\",\"fieldPath\":"
        "\"status.podIP\"}}}],\"resources\":{\"limits\":{\"cpu\":\"%llu\",\"memory\":\"256Gi\","
        "\"nvidia.com/gpu\":\"8\"},\"requests\":{\"cpu\":\"32\",\"memory\":\"256Gi\","
        "\"nvidia.com/gpu\":\"8\"}},\"volumeMounts\":[{\"name\":\"workspace\",\"mountPath\":\"/"
        "app\"},"
        "{\"name\":\"shm\",\"mountPath\":\"/dev/"
        "shm\"},{\"name\":\"kube-api-access-x7k2p\",\"readOnly\":true,"
        "\"mountPath\":\"/var/run/secrets/kubernetes.io/serviceaccount\"}],"
        "\"terminationMessagePath\":\"/dev/termination-log\",\"terminationMessagePolicy\":\"File\","
        "\"imagePullPolicy\":\"IfNotPresent\"}],",
        (unsigned long long)rng_between(rng, 32, 96));
}

static void add_spec(struct buf *buf, struct rng *rng, size_t job, size_t rank)
{
    buf_addf(
        buf,
        "\"spec\":{\"volumes\":[{\"name\":\"workspace\",\"persistentVolumeClaim\":{\"claimName\":"
        "\"train-%zu-workspace\"}},{\"name\":\"shm\",\"emptyDir\":{\"medium\":\"Memory\","
        "\"sizeLimit\":"
        "\"64Gi\"}},{\"name\":\"kube-api-access-x7k2p\",\"projected\":{\"sources\":[{"
        "\"serviceAccountToken\":{\"expirationSeconds\":3607,\"path\":\"token\"}},{\"configMap\":{"
        "\"name\":\"kube-root-ca.crt\",\"items\":[{\"key\":\"ca.crt\",\"path\":\"ca.crt\"}]}}],"
        "\"defaultMode\":420}}],",
        job);
    add_container(buf, rng, job, rank);
    buf_addf(
        buf,
        "\"restartPolicy\":\"Never\",\"terminationGracePeriodSeconds\":30,\"dnsPolicy\":"
        "\"ClusterFirst\",\"nodeSelector\":{\"nvidia.com/gpu.product\":\"H200\"},"
        "\"serviceAccountName\":\"default\",\"nodeName\":\"node-%llu\",\"hostname\":"
        "\"train-%zu-worker-%zu\",\"subdomain\":\"train-%zu\",\"securityContext\":{},"
        "\"schedulerName\":\"kai-scheduler\",\"tolerations\":[{\"key\":"
        "\"node.kubernetes.io/not-ready\",\"operator\":\"Exists\",\"effect\":\"NoExecute\","
        "\"tolerationSeconds\":300},{\"key\":\"nvidia.com/gpu\",\"operator\":\"Exists\",\"effect\":"
        "\"NoSchedule\"}],\"priority\":50,\"enableServiceLinks\":true,\"preemptionPolicy\":"
        "\"PreemptLowerPriority\"},",
        (unsigned long long)rng_below(rng, 1000), job, rank, job);
}

static void add_status(struct buf *buf, struct rng *rng)
{
    static const char *const conditions[] = {"PodReadyToStartContainers", "Initialized", "Ready",
                                             "ContainersReady", "PodScheduled"};

    buf_add(buf, STR("\"status\":{\"phase\":\"Running\",\"conditions\":["));
    for (size_t i = 0; i < COUNT_OF(conditions); i++)
        buf_addf(
            buf,
            "%s{\"type\":\"%s\",\"status\":\"True\",\"lastProbeTime\":null,\"lastTransitionTime\":"
            "\"2026-11-15T02:03:%02uZ\"}",
            i ? "," : "", conditions[i], (unsigned)rng_below(rng, 60));
    unsigned ip = (unsigned)rng_below(rng, 65536);
    buf_addf(
        buf,
        "],\"hostIP\":\"10.0.%u.%u\",\"hostIPs\":[{\"ip\":\"10.0.%u.%u\"}],\"podIP\":\"10.244.%u.%"
        "u\","
        "\"podIPs\":[{\"ip\":\"10.244.%u.%u\"}],\"startTime\":\"2026-11-15T02:03:04Z\","
        "\"containerStatuses\":[{\"name\":\"pytorch\",\"state\":{\"running\":{\"startedAt\":"
        "\"2026-11-15T02:03:05Z\"}},\"lastState\":{},\"ready\":true,\"restartCount\":0,\"image\":"
        "\"registry.example/team/trainer:2.4.1-cuda12\",\"imageID\":\"registry.example/team/"
        "trainer@sha256:%016llx%016llx\",\"containerID\":\"containerd://%016llx%016llx\","
        "\"started\":true}],\"qosClass\":\"Guaranteed\"}}",
        ip >> 8, ip & 255, ip >> 8, ip & 255, ip >> 8, ip & 255, ip >> 8, ip & 255,
        (unsigned long long)rng_next(rng), (unsigned long long)rng_next(rng),
        (unsigned long long)rng_next(rng), (unsigned long long)rng_next(rng));
}

void pods_write(struct buf *buf, size_t count)
{
    struct rng rng = {.state = 20261115};

    buf_add(buf,
            STR("{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":"
                "\"90000001\"},\"items\":["));
    for (size_t i = 0; i < count; i++) {
        buf_add(buf, i ? STR(",{") : STR("{"));
        add_metadata(buf, &rng, i / 4, i % 4);
        add_spec(buf, &rng, i / 4, i % 4);
        add_status(buf, &rng);
    }
    buf_add(buf, STR("]}\n"));
}
