#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "server/column.h"
#include "server/table.h"
#include "test.h"

#include <stddef.h>

TEST(pod_status_is_the_word_people_know)
{
    static const struct {
        const char *status;
        const char *pod;
        long long ready;
        long long restarts;
    } rows[] = {
        {"Pending", "{\"spec\":{\"containers\":[{}]},\"status\":{\"phase\":\"Pending\"}}", 0, 0},
        {"ContainerCreating",
         "{\"spec\":{\"containers\":[{}]},\"status\":{\"phase\":\"Pending\",\"containerStatuses\":["
         "{\"state\":{\"waiting\":{\"reason\":\"ContainerCreating\"}}}]}}",
         0, 0},
        {"Running",
         "{\"spec\":{\"containers\":[{}]},\"status\":{\"phase\":\"Running\",\"containerStatuses\":["
         "{\"ready\":true,\"restartCount\":2,\"state\":{\"running\":{}}}]}}",
         1, 2},
        {"CrashLoopBackOff",
         "{\"spec\":{\"containers\":[{}]},\"status\":{\"phase\":\"Running\",\"containerStatuses\":["
         "{\"restartCount\":3,\"state\":{\"waiting\":{\"reason\":\"CrashLoopBackOff\"}}}]}}",
         0, 3},
        {"Completed",
         "{\"spec\":{\"containers\":[{}]},\"status\":{\"phase\":\"Succeeded\","
         "\"containerStatuses\":"
         "[{\"state\":{\"terminated\":{\"reason\":\"Completed\",\"exitCode\":0}}}]}}",
         0, 0},
        {"OOMKilled",
         "{\"spec\":{\"containers\":[{}]},\"status\":{\"phase\":\"Failed\",\"containerStatuses\":["
         "{\"state\":{\"terminated\":{\"reason\":\"OOMKilled\",\"exitCode\":137}}}]}}",
         0, 0},
        {"ExitCode:3",
         "{\"spec\":{\"containers\":[{}]},\"status\":{\"phase\":\"Failed\",\"containerStatuses\":["
         "{\"state\":{\"terminated\":{\"exitCode\":3}}}]}}",
         0, 0},
        {"Evicted",
         "{\"spec\":{\"containers\":[{}]},\"status\":{\"phase\":\"Failed\",\"reason\":\"Evicted\"}"
         "}",
         0, 0},
        {"SchedulingGated",
         "{\"spec\":{\"containers\":[{}],\"schedulingGates\":[{}]},\"status\":{\"phase\":"
         "\"Pending\"}}",
         0, 0},
        {"Init:0/2",
         "{\"spec\":{\"containers\":[{}],\"initContainers\":[{},{}]},\"status\":{\"phase\":"
         "\"Pending\","
         "\"initContainerStatuses\":[{\"state\":{\"running\":{}}}]}}",
         0, 0},
        {"Init:Error",
         "{\"spec\":{\"containers\":[{}],\"initContainers\":[{}]},\"status\":{\"phase\":"
         "\"Pending\","
         "\"initContainerStatuses\":[{\"restartCount\":1,\"state\":{\"terminated\":{\"exitCode\":1,"
         "\"reason\":\"Error\"}}}]}}",
         0, 1},
        {"Terminating",
         "{\"metadata\":{\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"},\"spec\":{\"containers\":["
         "{}]},\"status\":{\"phase\":\"Running\",\"containerStatuses\":[{\"ready\":true,\"state\":{"
         "\"running\":{}}}]}}",
         1, 0},
        {"NotReady",
         "{\"spec\":{\"containers\":[{},{}]},\"status\":{\"phase\":\"Running\","
         "\"containerStatuses\":"
         "[{\"state\":{\"terminated\":{\"reason\":\"Completed\",\"exitCode\":0}}},{\"ready\":true,"
         "\"state\":{\"running\":{}}}]}}",
         1, 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *root = NULL;
        struct pod_summary summary = {0};

        test_case(rows[i].status);
        EXPECT(json_parse(&arena, str_from(rows[i].pod), &root, NULL) == 0);
        pod_summarize(&arena, root, &summary);
        EXPECT(str_is(str_from(summary.status), rows[i].status));
        EXPECT(summary.ready == rows[i].ready && summary.restarts == rows[i].restarts);
    }
}

TEST(printer_column_paths_find_what_crds_ask_for)
{
    static const char text[] =
        "{\"spec\":{\"a\":{\"b\":1},\"x.y\":\"dot\",\"list\":[{\"n\":\"p\"},{\"n\":\"q\"}]},"
        "\"status\":{\"conditions\":[{\"type\":\"A\",\"status\":\"no\"},{\"type\":\"Ready\","
        "\"status\":\"True\"}]}}";
    static const struct {
        const char *path;
        const char *value; /* NULL: nothing */
    } rows[] = {
        {".spec.a.b", "1"},
        {".spec.x\\.y", "\"dot\""},
        {".spec['x.y']", "\"dot\""},
        {".spec.list[1].n", "\"q\""},
        {".spec.list[-1].n", "\"q\""},
        {".spec.list[*].n", "\"p\""},
        {".status.conditions[?(@.type==\"Ready\")].status", "\"True\""},
        {".status.conditions[?(@.type=='None')].status", NULL},
        {".status.conditions[-1:].type", "\"Ready\""},
        {".status.conditions[:1].type", "\"A\""},
        {".spec.nothing.at.all", NULL},
        {".spec.list[7].n", NULL},
        {".spec.list[", NULL},
    };
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *root = NULL;

    EXPECT(json_parse(&arena, str_from(text), &root, NULL) == 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct json *found = column_find(&arena, root, rows[i].path);

        test_case(rows[i].path);
        EXPECT(rows[i].value ? found && str_is(json_text(&arena, found), rows[i].value) : !found);
    }
}

TEST(rows_have_a_cell_for_each_column)
{
    static const struct {
        const struct kind *kind;
        const char *object;
        const char *cells;
    } rows[] = {
        {&kind_node,
         "{\"metadata\":{\"name\":\"n\",\"labels\":{\"node-role.kubernetes.io/worker\":\"\"}},"
         "\"spec\":{\"unschedulable\":true},\"status\":{\"conditions\":[{\"type\":\"Ready\","
         "\"status\":\"True\"}],\"addresses\":[{\"type\":\"InternalIP\",\"address\":\"10.0.0.1\"}],"
         "\"nodeInfo\":{\"kubeletVersion\":\"v1\",\"osImage\":\"os\",\"kernelVersion\":\"k\","
         "\"containerRuntimeVersion\":\"r\"}}}",
         "[\"n\",\"Ready,SchedulingDisabled\",\"worker\",\"<unknown>\",\"v1\",\"10.0.0.1\","
         "\"<none>\",\"os\",\"k\",\"r\"]"},
        {&kind_pv,
         "{\"metadata\":{\"name\":\"v\"},\"spec\":{\"capacity\":{\"storage\":\"1Gi\"},"
         "\"accessModes\":[\"ReadWriteOnce\"],\"persistentVolumeReclaimPolicy\":\"Delete\","
         "\"claimRef\":{\"namespace\":\"a\",\"name\":\"b\"},\"storageClassName\":\"s\"},"
         "\"status\":{\"phase\":\"Bound\"}}",
         "[\"v\",\"1Gi\",\"RWO\",\"Delete\",\"Bound\",\"a/b\",\"s\",\"<unset>\",\"\",\"<unknown>\","
         "\"<unset>\"]"},
        {&kind_rolebinding,
         "{\"metadata\":{\"name\":\"b\"},\"roleRef\":{\"kind\":\"Role\",\"name\":\"r\"},"
         "\"subjects\":[{\"kind\":\"User\",\"name\":\"u\"},{\"kind\":\"ServiceAccount\","
         "\"namespace\":\"d\",\"name\":\"a\"},{\"kind\":\"User\",\"name\":\"v\"}]}",
         "[\"b\",\"Role/r\",\"<unknown>\",\"u, v\",\"\",\"d/a\"]"},
        {&kind_endpointslice,
         "{\"metadata\":{\"name\":\"e\"},\"addressType\":\"IPv4\",\"ports\":[{\"port\":80},{"
         "\"port\":81}],\"endpoints\":[{\"addresses\":[\"10.0.0.1\",\"10.0.0.2\"]},{\"addresses\":["
         "\"10.0.0.3\",\"10.0.0.4\"]}]}",
         "[\"e\",\"IPv4\",\"80,81\",\"10.0.0.1,10.0.0.2,10.0.0.3 + 1 more...\",\"<unknown>\"]"},
        {&kind_ingress,
         "{\"metadata\":{\"name\":\"i\"},\"spec\":{\"rules\":[{\"host\":\"a.b\"}],\"tls\":[{}]}}",
         "[\"i\",\"<none>\",\"a.b\",\"\",\"80, 443\",\"<unknown>\"]"},
        {&kind_networkpolicy,
         "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"podSelector\":{\"matchLabels\":{\"a\":\"b\"},"
         "\"matchExpressions\":[{\"key\":\"c\",\"operator\":\"NotIn\",\"values\":[\"d\",\"e\"]},{"
         "\"key\":\"f\",\"operator\":\"DoesNotExist\"}]}}}",
         "[\"p\",\"a=b,c notin (d,e),!f\",\"<unknown>\"]"},
        {&kind_prioritylevel,
         "{\"metadata\":{\"name\":\"l\"},\"spec\":{\"type\":\"Limited\",\"limited\":{"
         "\"nominalConcurrencyShares\":5,\"limitResponse\":{\"type\":\"Queue\",\"queuing\":{"
         "\"queues\":8,\"handSize\":2,\"queueLengthLimit\":5}}}}}",
         "[\"l\",\"Limited\",5,8,2,5,\"<unknown>\"]"},
        {&kind_csidriver,
         "{\"metadata\":{\"name\":\"d\"},\"spec\":{\"tokenRequests\":[{\"audience\":\"a\"}],"
         "\"volumeLifecycleModes\":[\"Persistent\"]}}",
         "[\"d\",true,false,false,\"a\",false,\"Persistent\",\"<unknown>\"]"},
        {&kind_ipaddress,
         "{\"metadata\":{\"name\":\"10.0.0.1\"},\"spec\":{\"parentRef\":{\"resource\":\"services\","
         "\"namespace\":\"n\",\"name\":\"s\"}}}",
         "[\"10.0.0.1\",\"services/n/s\",\"<unknown>\"]"},
        {&kind_secret, "{\"metadata\":{\"name\":\"s\"},\"data\":{\"a\":\"\",\"b\":\"\"}}",
         "[\"s\",\"Opaque\",2,\"<unknown>\"]"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        _cleanup_(buf_done) struct buf cells = {0};
        _cleanup_(buf_done) struct buf columns = {0};
        _cleanup_(object_unrefp) struct object *object = NULL;
        struct json *heads = NULL;
        struct json *wanted = NULL;

        test_case(rows[i].cells);
        EXPECT(object_new(rows[i].kind, str_from(rows[i].object), &object, NULL) == 0);
        buf_addc(&cells, '[');
        table_cells(&arena, &cells, object, object_json(object, &arena), 0);
        buf_addc(&cells, ']');
        table_columns(&columns, rows[i].kind);
        EXPECT(str_is(buf_str(&cells), rows[i].cells));
        EXPECT(json_parse(&arena, str_from(rows[i].cells), &wanted, NULL) == 0);
        EXPECT(json_parse(&arena, buf_str(&columns), &heads, NULL) == 0);
        EXPECT(json_count(heads) == json_count(wanted));
    }
}
