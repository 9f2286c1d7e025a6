#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/builtin/daemonset.h"
#include "test.h"

#include <stddef.h>
#include <string.h>

#define AFFINITY(terms)                 \
    "{\"affinity\":{\"nodeAffinity\":{" \
    "\"requiredDuringSchedulingIgnoredDuringExecution\":{\"nodeSelectorTerms\":[" terms "]}}}}"
#define WANTS(key, op, values)                                                \
    AFFINITY("{\"matchExpressions\":[{\"key\":\"" key "\",\"operator\":\"" op \
             "\",\"values\":[" values "]}]}")
#define NAMED(op, values)                                                      \
    AFFINITY("{\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":\"" op \
             "\",\"values\":[" values "]}]}")

/* A node with the labels zone=a, cores=8 and role, and a taint. */
static void node_make(struct arena *arena, const char *taint, struct object **ret)
{
    struct str text =
        str_printf(arena,
                   "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":"
                   "\"n1\",\"labels\":{\"zone\":\"a\",\"cores\":\"8\",\"role\":\"\"}},"
                   "\"spec\":{"
                   "\"taints\":[%s]}}",
                   taint);

    EXPECT(object_new(&kind_node, text, ret, NULL) == 0);
}

struct place_row {
    const char *why;
    const char *spec;
    const char *taint;
    enum daemon_place place;
};

static void check_rows(const struct place_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct object *node = NULL;
        struct json *spec = NULL;

        node_make(&arena, rows[i].taint ? rows[i].taint : "", &node);
        EXPECT(json_parse(&arena, str_from(rows[i].spec), &spec, NULL) == 0);
        if (node && daemon_place(&arena, spec, node) != rows[i].place)
            test_fail(__FILE__, __LINE__, rows[i].why);
        object_unref(node);
    }
}

TEST(daemonset_goes_where_node_affinity_says)
{
    static const struct place_row rows[] = {
        {"In, the value is listed", WANTS("zone", "In", "\"b\",\"a\""), NULL, DAEMON_RUN},
        {"In, another one", WANTS("zone", "In", "\"b\""), NULL, DAEMON_AWAY},
        {"In, no such label", WANTS("rack", "In", "\"a\""), NULL, DAEMON_AWAY},
        {"NotIn, the value is listed", WANTS("zone", "NotIn", "\"a\""), NULL, DAEMON_AWAY},
        {"NotIn, another one", WANTS("zone", "NotIn", "\"b\""), NULL, DAEMON_RUN},
        {"NotIn, no such label", WANTS("rack", "NotIn", "\"a\""), NULL, DAEMON_RUN},
        {"Exists", WANTS("zone", "Exists", ""), NULL, DAEMON_RUN},
        {"Exists, it does not", WANTS("rack", "Exists", ""), NULL, DAEMON_AWAY},
        {"DoesNotExist", WANTS("rack", "DoesNotExist", ""), NULL, DAEMON_RUN},
        {"DoesNotExist, it does", WANTS("zone", "DoesNotExist", ""), NULL, DAEMON_AWAY},
        {"Gt, more", WANTS("cores", "Gt", "\"7\""), NULL, DAEMON_RUN},
        {"Gt, as many", WANTS("cores", "Gt", "\"8\""), NULL, DAEMON_AWAY},
        {"Lt, fewer", WANTS("cores", "Lt", "\"9\""), NULL, DAEMON_RUN},
        {"Lt, as many", WANTS("cores", "Lt", "\"8\""), NULL, DAEMON_AWAY},
        {"Gt of a label that is no number", WANTS("zone", "Gt", "\"7\""), NULL, DAEMON_AWAY},
        {"Gt of what is no number", WANTS("cores", "Gt", "\"x\""), NULL, DAEMON_AWAY},
        {"Lt, no such label", WANTS("rack", "Lt", "\"9\""), NULL, DAEMON_AWAY},
        {"by name", NAMED("In", "\"n0\",\"n1\""), NULL, DAEMON_RUN},
        {"by another name", NAMED("In", "\"n0\""), NULL, DAEMON_AWAY},
        {"not by name", NAMED("NotIn", "\"n1\""), NULL, DAEMON_AWAY},
        {"not by another name", NAMED("NotIn", "\"n0\""), NULL, DAEMON_RUN},
        {"one of two terms is enough",
         AFFINITY("{\"matchExpressions\":[{\"key\":\"rack\",\"operator\":\"Exists\"}]},"
                  "{\"matchExpressions\":[{\"key\":\"zone\",\"operator\":\"Exists\"}]}"),
         NULL, DAEMON_RUN},
        {"a term that says nothing holds nowhere", AFFINITY("{}"), NULL, DAEMON_AWAY},
        {"nor does one with empty lists", AFFINITY("{\"matchExpressions\":[],\"matchFields\":[]}"),
         NULL, DAEMON_AWAY},
    };

    check_rows(rows, COUNT_OF(rows));
}

TEST(daemonset_goes_where_name_selector_and_taints_let_it)
{
    static const char none[] = "{\"key\":\"k\",\"value\":\"v\",\"effect\":\"NoSchedule\"}";
    static const char out[] = "{\"key\":\"k\",\"value\":\"v\",\"effect\":\"NoExecute\"}";
    static const char rather[] = "{\"key\":\"k\",\"effect\":\"PreferNoSchedule\"}";
    static const char cordoned[] =
        "{\"key\":\"node.kubernetes.io/unschedulable\",\"effect\":\"NoSchedule\"}";
    static const struct place_row rows[] = {
        {"it says nothing", "{}", NULL, DAEMON_RUN},
        {"its name", "{\"nodeName\":\"n1\"}", NULL, DAEMON_RUN},
        {"another name", "{\"nodeName\":\"n2\"}", NULL, DAEMON_AWAY},
        {"its label", "{\"nodeSelector\":{\"zone\":\"a\"}}", NULL, DAEMON_RUN},
        {"another label", "{\"nodeSelector\":{\"zone\":\"b\"}}", NULL, DAEMON_AWAY},
        {"a label without a value, as of roles", "{\"nodeSelector\":{\"role\":\"\"}}", NULL,
         DAEMON_RUN},
        {"which it does not have", "{\"nodeSelector\":{\"boss\":\"\"}}", NULL, DAEMON_AWAY},
        {"NoSchedule: what is there stays", "{}", none, DAEMON_STAY},
        {"NoExecute", "{}", out, DAEMON_AWAY},
        {"PreferNoSchedule is a wish", "{}", rather, DAEMON_RUN},
        {"what every DaemonSet tolerates", "{}", cordoned, DAEMON_RUN},
        {"tolerated by value", "{\"tolerations\":[{\"key\":\"k\",\"value\":\"v\"}]}", out,
         DAEMON_RUN},
        {"another value", "{\"tolerations\":[{\"key\":\"k\",\"value\":\"w\"}]}", out, DAEMON_AWAY},
        {"another effect",
         "{\"tolerations\":[{\"key\":\"k\",\"value\":\"v\",\"effect\":\"NoSchedule\"}]}", out,
         DAEMON_AWAY},
        {"everything is tolerated", "{\"tolerations\":[{\"operator\":\"Exists\"}]}", out,
         DAEMON_RUN},
    };

    check_rows(rows, COUNT_OF(rows));
}
