#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/str.h"
#include "sched/decode_test.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/world_test.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where pods may go, as manifests say it: beside whom, and on which nodes. */

static void put(struct cluster *c, const struct kind *kind, const char *text)
{
    struct object *object = object_quoted(&c->arena, kind, text);

    EXPECT(sched_observe(c->sched, SCHED_PUT, object, NULL) == 0);
    object_unref(object);
}

static void put_node(struct cluster *c, const char *name, const char *labels, const char *spec)
{
    put(c, &kind_node,
        str_c(&c->arena,
              str_printf(&c->arena,
                         "{'metadata':{'name':'%s','labels':{'host':'%s'%s%s}},'spec':{%s},"
                         "'status':{'allocatable':{'cpu':'8','memory':'8Gi','pods':'20','nvidia."
                         "com/gpu':'1'}}}",
                         name, name, *labels ? "," : "", labels, spec)));
}

/* A pod that runs on `node`, or waits where that is ""; `more` goes into its metadata. */
struct manifest {
    const char *name;
    const char *ns; /* NULL: ns */
    const char *node;
    const char *labels;
    const char *spec;
    bool ending;
};

static void put_pod(struct cluster *c, const struct manifest *pod)
{
    put(c, &kind_pod,
        str_c(&c->arena,
              str_printf(&c->arena,
                         "{'metadata':{'namespace':'%s','name':'%s','uid':'%s','labels':{%s},%s"
                         "'annotations':{'pod-group-name':'g'}},'spec':{'nodeName':'%s'%s%s},"
                         "'status':{'phase':'%s'}}",
                         pod->ns ? pod->ns : "ns", pod->name, pod->name,
                         pod->labels ? pod->labels : "",
                         pod->ending ? "'deletionTimestamp':'2027-01-15T08:00:00Z'," : "",
                         pod->node, pod->spec ? "," : "", pod->spec ? pod->spec : "",
                         *pod->node ? "Running" : "Pending")));
}

static void three_nodes(struct cluster *c, const struct sched_config *config)
{
    cluster_open_as(c, config);
    cluster_queue(c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    put_node(c, "a", "'zone':'z1','gen':'4'", "");
    put_node(c, "b", "'zone':'z2','gen':'x'", "");
    put_node(c, "c", "", "");
    cluster_put(c, &(struct job){.name = "g", .priority = 50});
    cluster_drop(c, "g-0");
}

/* The node it is bound to; promised: the same with a ~ before it; "-": it waits. */
static const char *place_of(struct cluster *c, const char *name)
{
    const struct sched_bind *bind = cluster_bind(c, name);
    struct str node = STR_NONE;

    if (bind)
        return str_c(&c->arena, bind->node);
    if (sched_promised(c->sched, STR("ns"), str_from(name), &node))
        return str_c(&c->arena, str_printf(&c->arena, "~" STR_FMT, STR_ARG(node)));
    return "-";
}

/* One of these words. */
static bool is_among(const char *words, const char *word)
{
    struct str rest = str_from(words);
    struct str part;

    while (str_cut(&rest, ' ', &part))
        if (str_is(part, word))
            return true;
    return false;
}

#define HARD "'requiredDuringSchedulingIgnoredDuringExecution':"
#define SOFT "'preferredDuringSchedulingIgnoredDuringExecution':"
#define NEAR(selector, more)                                                                   \
    "'affinity':{'podAffinity':{" HARD "[{'topologyKey':'zone','labelSelector':" selector more \
    "}]}}"
#define AWAY(selector, more)                                                                       \
    "'affinity':{'podAntiAffinity':{" HARD "[{'topologyKey':'zone','labelSelector':" selector more \
    "}]}}"
#define X              "{'matchLabels':{'app':'x'}}"
#define EXPR(op, more) "{'matchExpressions':[{'key':'app','operator':'" op "'" more "}]}"

TEST(a_pod_goes_beside_those_whom_its_terms_mean_and_away_from_the_others)
{
    static const struct {
        const char *why;
        struct manifest other;
        struct manifest pod;
        const char *where;
    } rows[] = {
        {"beside", {.labels = "'app':'x'", .node = "b"}, {.spec = NEAR(X, "")}, "b"},
        {"beside one of a list",
         {.labels = "'app':'x'", .node = "b"},
         {.spec = NEAR(EXPR("In", ",'values':['w','x']"), "")},
         "b"},
        {"beside whoever is another",
         {.labels = "'app':'x'", .node = "b"},
         {.spec = NEAR(EXPR("NotIn", ",'values':['w']"), "")},
         "b"},
        {"beside nobody of those",
         {.labels = "'app':'x'", .node = "b"},
         {.spec = NEAR(EXPR("NotIn", ",'values':['x']"), ""), .labels = "'app':'x'"},
         "-"},
        {"beside whoever has the label",
         {.labels = "'app':'x'", .node = "b"},
         {.spec = NEAR(EXPR("Exists", ""), "")},
         "b"},
        {"beside whoever lacks it",
         {.labels = "'b':'x'", .node = "b"},
         {.spec = NEAR(EXPR("DoesNotExist", ""), ""), .labels = "'app':'x'"},
         "b"},
        {"by an operator that is none of labels",
         {.labels = "'app':'4'", .node = "b"},
         {.spec = NEAR(EXPR("Gt", ",'values':['3']"), "")},
         "-"},
        {"without a selector beside nobody",
         {.labels = "'app':'x'", .node = "b"},
         {.spec = NEAR("null", "")},
         "-"},
        {"whoever it means is in no zone",
         {.labels = "'app':'x'", .node = "c"},
         {.spec = NEAR(X, "")},
         "-"},
        {"the first of its kind, in some zone",
         {.node = "b"},
         {.spec = NEAR(X, ""), .labels = "'app':'x'"},
         "a b"},
        {"nobody is there, and it is not of that kind itself",
         {.node = "b"},
         {.spec = NEAR(X, "")},
         "-"},
        {"in its own namespace",
         {.ns = "far", .labels = "'app':'x'", .node = "b"},
         {.spec = NEAR(X, "")},
         "-"},
        {"in one that is named",
         {.ns = "far", .labels = "'app':'x'", .node = "b"},
         {.spec = NEAR(X, ",'namespaces':['near','far']")},
         "b"},
        {"in none that is named",
         {.labels = "'app':'x'", .node = "b"},
         {.spec = NEAR(X, ",'namespaces':['near','far']")},
         "-"},
        {"in every namespace",
         {.ns = "far", .labels = "'app':'x'", .node = "b"},
         {.spec = NEAR(X, ",'namespaceSelector':{}")},
         "b"},
        {"away", {.labels = "'app':'x'", .node = "b"}, {.spec = AWAY(X, "")}, "a c"},
        {"away from one that leaves",
         {.labels = "'app':'x'", .node = "b", .ending = true},
         {.spec = AWAY(X, "") ",'nodeSelector':{'host':'b'}"},
         "~b"},
        {"kept away by the other",
         {.labels = "'k':'v'", .node = "b", .spec = AWAY(X, "")},
         {.labels = "'app':'x'"},
         "a c"},
        {"not kept away by one that means others",
         {.node = "b", .spec = AWAY(X, "")},
         {.labels = "'app':'y'", .spec = "'nodeSelector':{'host':'b'}"},
         "b"},
        {"not kept away by one in no zone",
         {.node = "c", .spec = AWAY(X, "")},
         {.labels = "'app':'x'", .spec = "'nodeSelector':{'host':'c'}"},
         "c"},
        {"better beside",
         {.labels = "'app':'x'", .node = "b"},
         {.spec = "'affinity':{'podAffinity':{" SOFT "[{'weight':5,'podAffinityTerm':{"
                  "'topologyKey':'zone','labelSelector':" X "}}]}}"},
         "b"},
        {"better away",
         {.labels = "'app':'x'", .node = "a"},
         {.spec = "'affinity':{'podAntiAffinity':{" SOFT "[{'weight':5,'podAffinityTerm':{"
                  "'topologyKey':'zone','labelSelector':" X "}}]}}"},
         "b c"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct manifest other = rows[i].other;
        struct manifest pod = rows[i].pod;
        struct sched_config config;
        struct cluster c;

        test_case(rows[i].why);
        sched_config_default(&config);
        three_nodes(&c, &config);
        other.name = "other";
        pod.name = "pod";
        pod.node = "";
        put_pod(&c, &other);
        put_pod(&c, &pod);
        cluster_decide(&c, 1000);
        EXPECT(is_among(rows[i].where, place_of(&c, "pod")));
        cluster_close(&c);
    }
}

#define SPREAD(more) \
    "'topologySpreadConstraints':[{'topologyKey':'zone','maxSkew':1,'labelSelector':" X more "}]"

TEST(a_pod_is_spread_over_zones_as_its_constraints_say)
{
    static const struct {
        const char *why;
        struct manifest others[3];
        struct manifest pod;
        const char *where;
    } rows[] = {
        {"where fewer are",
         {{.labels = "'app':'x'", .node = "a"}},
         {.labels = "'app':'x'", .spec = SPREAD("")},
         "b"},
        {"where any are, while it is not counted itself",
         {{.labels = "'app':'x'", .node = "a"}},
         {.spec = SPREAD("") ",'nodeSelector':{'zone':'z1'}"},
         "a"},
        {"those of other namespaces are not counted",
         {{.ns = "far", .labels = "'app':'x'", .node = "a"}},
         {.labels = "'app':'x'", .spec = SPREAD("") ",'nodeSelector':{'zone':'z1'}"},
         "a"},
        {"not on a node without the label",
         {{.node = "a"}},
         {.labels = "'app':'x'", .spec = SPREAD("") ",'nodeSelector':{'host':'c'}"},
         "-"},
        {"enough zones",
         {{.labels = "'app':'x'", .node = "a"}, {.labels = "'app':'x'", .node = "b"}},
         {.labels = "'app':'x'", .spec = SPREAD(",'minDomains':2")},
         "a b"},
        {"too few zones: they count as if an empty one was there",
         {{.labels = "'app':'x'", .node = "a"}, {.labels = "'app':'x'", .node = "b"}},
         {.labels = "'app':'x'", .spec = SPREAD(",'minDomains':3")},
         "-"},
        {"once one has left",
         {{.labels = "'app':'x'", .node = "a", .ending = true},
          {.labels = "'app':'x'", .node = "b"}},
         {.labels = "'app':'x'",
          .spec = SPREAD(",'minDomains':3") ",'affinity':{'podAntiAffinity':{" HARD
                                            "[{'topologyKey':'host','labelSelector':" X "}]}}"},
         "~a"},
        {"better where fewer are",
         {{.labels = "'app':'x'", .node = "a"}, {.labels = "'app':'x'", .node = "c"}},
         {.labels = "'app':'x'", .spec = SPREAD(",'whenUnsatisfiable':'ScheduleAnyway'")},
         "b c"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        static const char *const names[] = {"o0", "o1", "o2"};
        struct manifest pod = rows[i].pod;
        struct sched_config config;
        struct cluster c;

        test_case(rows[i].why);
        sched_config_default(&config);
        three_nodes(&c, &config);
        for (size_t k = 0; k < COUNT_OF(names); k++) {
            struct manifest other = rows[i].others[k];

            other.name = names[k];
            if (other.node)
                put_pod(&c, &other);
        }
        pod.name = "pod";
        pod.node = "";
        put_pod(&c, &pod);
        cluster_decide(&c, 1000);
        EXPECT(is_among(rows[i].where, place_of(&c, "pod")));
        cluster_close(&c);
    }
}

#define PORT(port) "'containers':[{'ports':[{'hostPort':" port "}]}]"

/* Kubernetes: a port is taken where protocol and address meet; no address, and 0.0.0.0, is all. */
TEST(a_host_port_is_had_by_one_pod_at_each_address)
{
    static const struct {
        const char *theirs;
        const char *own;
        const char *where;
        bool ending;
    } rows[] = {
        {PORT("80"), PORT("80"), "-", false},
        {PORT("80"), PORT("80"), "~a", true},
        {PORT("80"), PORT("81"), "a", false},
        {PORT("80"), PORT("80,'protocol':'UDP'"), "a", false},
        {PORT("80,'hostIP':'10.0.0.1'"), PORT("80,'hostIP':'10.0.0.2'"), "a", false},
        {PORT("80,'hostIP':'10.0.0.1'"), PORT("80,'hostIP':'10.0.0.1'"), "-", false},
        {PORT("80,'hostIP':'10.0.0.1'"), PORT("80,'hostIP':'0.0.0.0'"), "-", false},
        {PORT("80,'hostIP':'0.0.0.0'"), PORT("80,'hostIP':'10.0.0.1'"), "-", false},
        {PORT("80"), PORT("80,'hostIP':'10.0.0.1'"), "-", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct sched_config config;
        struct cluster c;

        test_case(rows[i].own);
        sched_config_default(&config);
        three_nodes(&c, &config);
        struct str spec = str_printf(&c.arena, "%s,'nodeSelector':{'host':'a'}", rows[i].own);
        put_pod(&c, &(struct manifest){.name = "other",
                                       .node = "a",
                                       .spec = rows[i].theirs,
                                       .ending = rows[i].ending});
        put_pod(&c, &(struct manifest){.name = "pod", .node = "", .spec = str_c(&c.arena, spec)});
        cluster_decide(&c, 1000);
        EXPECT(is_among(rows[i].where, place_of(&c, "pod")));
        cluster_close(&c);
    }
}

TEST(a_pod_goes_where_its_tolerations_meet_all_taints)
{
    static const struct {
        const char *taints;
        const char *tolerations;
        bool goes;
    } rows[] = {
        {"", "", true},
        {"{'key':'k','value':'v','effect':'NoSchedule'}", "", false},
        {"{'key':'k','value':'v','effect':'PreferNoSchedule'}", "", true},
        {"{'key':'k','value':'v','effect':'NoExecute'}", "{'operator':'Exists'}", true},
        {"{'key':'k','value':'v','effect':'NoSchedule'}", "{'key':'k','value':'v'}", true},
        {"{'key':'k','value':'v','effect':'NoSchedule'}", "{'key':'k','value':'w'}", false},
        {"{'key':'k','value':'v','effect':'NoSchedule'}", "{'key':'j','operator':'Exists'}", false},
        {"{'key':'k','value':'v','effect':'NoSchedule'}",
         "{'key':'k','operator':'Exists','effect':'NoExecute'}", false},
        {"{'key':'k','value':'v','effect':'NoExecute'}",
         "{'key':'k','operator':'Exists','effect':'NoExecute'}", true},
        {"{'key':'k','effect':'NoSchedule'},{'key':'j','effect':'NoSchedule'}",
         "{'key':'k','operator':'Exists'}", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct sched_config config;
        struct cluster c;

        test_case(rows[i].tolerations);
        sched_config_default(&config);
        three_nodes(&c, &config);
        put_node(&c, "t", "",
                 str_c(&c.arena, str_printf(&c.arena, "'taints':[%s]", rows[i].taints)));
        struct str spec = str_printf(&c.arena, "'nodeSelector':{'host':'t'},'tolerations':[%s]",
                                     rows[i].tolerations);
        put_pod(&c, &(struct manifest){.name = "pod", .node = "", .spec = str_c(&c.arena, spec)});
        cluster_decide(&c, 1000);
        EXPECT(cluster_bound(&c, "pod") == rows[i].goes);
        cluster_close(&c);
    }
}

#define NODES(expression) \
    "'affinity':{'nodeAffinity':{" HARD "{'nodeSelectorTerms':[{" expression "}]}}}"

/* Kubernetes: Gt and Lt are of whole numbers, one on each side; a term without either is nobody's. */
TEST(numbers_of_nodes_are_compared_where_they_are_numbers)
{
    static const struct {
        const char *term;
        const char *where;
    } rows[] = {
        {"'matchExpressions':[{'key':'gen','operator':'Gt','values':['3']}]", "a"},
        {"'matchExpressions':[{'key':'gen','operator':'Gt','values':['4']}]", "-"},
        {"'matchExpressions':[{'key':'gen','operator':'Lt','values':['5']}]", "a"},
        {"'matchExpressions':[{'key':'gen','operator':'Gt','values':['three']}]", "-"},
        {"'matchExpressions':[{'key':'gen','operator':'Gt','values':['3','2']}]", "-"},
        {"'matchExpressions':[{'key':'gen','operator':'NotIn','values':['4','x']}]", "c"},
        {"'matchFields':[{'key':'metadata.name','operator':'In','values':['b']}]", "b"},
        {"", "-"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct sched_config config;
        struct cluster c;

        test_case(rows[i].term);
        sched_config_default(&config);
        three_nodes(&c, &config);
        struct str spec = str_printf(&c.arena, NODES("%s"), rows[i].term);
        put_pod(&c, &(struct manifest){.name = "pod", .node = "", .spec = str_c(&c.arena, spec)});
        cluster_decide(&c, 1000);
        EXPECT(is_among(rows[i].where, place_of(&c, "pod")));
        cluster_close(&c);
    }
}

/* KAI's plugin "predicates" taken out of the list of a shard. */
TEST(without_filters_a_pod_goes_wherever_there_is_room)
{
    static const char *const specs[] = {
        PORT("80"),
        AWAY(X, "") ",'nodeSelector':{'host':'nowhere'}",
        "'nodeSelector':{'host':'nowhere'}",
    };

    for (int without = 0; without < 2; without++)
        for (size_t i = 0; i < COUNT_OF(specs); i++) {
            struct sched_config config;
            struct cluster c;

            test_case(specs[i]);
            sched_config_default(&config);
            config.policy.without_filters = without != 0;
            three_nodes(&c, &config);
            for (size_t n = 0; n < 3; n++) {
                static const char *const nodes[] = {"a", "b", "c"};
                static const char *const names[] = {"o0", "o1", "o2"};

                put_pod(&c, &(struct manifest){.name = names[n],
                                               .node = nodes[n],
                                               .labels = "'app':'x'",
                                               .spec = PORT("80")});
            }
            put_pod(&c, &(struct manifest){.name = "pod", .node = "", .spec = specs[i]});
            cluster_decide(&c, 1000);
            EXPECT(cluster_bound(&c, "pod") == (without != 0));
            cluster_close(&c);
        }
}

/* KAI: GPUs are cut into MIG instances where a label says so, or where none does and the node has
 * instances. GPU feature discovery writes the strategy of the cluster on every node, with or without
 * such GPUs. */
TEST(pods_go_to_mig_nodes_by_their_strategy_and_to_others_whatever_that_is)
{
#define STRATEGY(word) "'nvidia.com/mig.strategy':'" word "'"
#define ENABLED(word)  "'node-role.kubernetes.io/mig-enabled':'" word "'"
#define MIG            "'nvidia.com/mig-1g.5gb':'7'"
#define WHOLE          "'nvidia.com/gpu':'4'"
    static const struct {
        const char *labels;
        const char *has;
        bool whole;
        bool share;
        bool mig;
    } rows[] = {
        {"'a':'b'", WHOLE, true, true, false},
        {STRATEGY("single"), WHOLE, true, true, false},
        {STRATEGY("mixed"), WHOLE, true, true, false},
        {STRATEGY("single") "," ENABLED("true"), WHOLE, true, false, false},
        {STRATEGY("mixed"), MIG, false, false, true},
        {STRATEGY("mixed"), MIG "," WHOLE, false, false, true},
        {STRATEGY("none") "," ENABLED("True"), MIG "," WHOLE, true, false, true},
        {STRATEGY("mixed") "," ENABLED("false"), MIG "," WHOLE, true, true, false},
        {STRATEGY("mixed"), "'nvidia.com/mig-1g.5gb':'0'," WHOLE, true, true, false},
    };

    for (size_t i = 0; i < 3 * COUNT_OF(rows); i++) {
        static const char *const names[] = {"whole", "share", "mig"};
        bool goes[] = {rows[i / 3].whole, rows[i / 3].share, rows[i / 3].mig};
        struct cluster c;

        test_case(rows[i / 3].labels);
        cluster_open(&c, SCHED_QUIRKS_NONE);
        cluster_queue(&c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
        put(&c, &kind_node,
            str_c(&c.arena,
                  str_printf(&c.arena,
                             "{'metadata':{'name':'a','labels':{%s}},'status':{'allocatable':{"
                             "'cpu':'8','memory':'8Gi','pods':'20',%s}}}",
                             rows[i / 3].labels, rows[i / 3].has)));
        cluster_put(&c, &(struct job){.name = "g", .priority = 50});
        cluster_drop(&c, "g-0");
        put(&c, &kind_pod,
            str_c(&c.arena,
                  str_printf(&c.arena,
                             "{'metadata':{'namespace':'ns','name':'pod','annotations':{%s"
                             "'pod-group-name':'g'}},'spec':{'containers':[{'resources':{"
                             "'limits':{%s}}}]}}",
                             i % 3 == 1 ? "'gpu-fraction':'0.5'," : "",
                             i % 3 == 0   ? "'nvidia.com/gpu':1"
                             : i % 3 == 2 ? "'nvidia.com/mig-1g.5gb':1"
                                          : "")));
        cluster_decide(&c, 1000);
        if (cluster_bound(&c, "pod") != goes[i % 3])
            test_fail(__FILE__, __LINE__, names[i % 3]);
        cluster_close(&c);
    }
}

/* KAI's restrict-node-scheduling. */
TEST(where_nodes_have_roles_gpu_pods_and_others_go_to_their_own)
{
    static const struct {
        const char *role;
        bool gpu;
        bool goes;
    } rows[] = {
        {"gpu-worker", true, true},
        {"gpu-worker", false, false},
        {"cpu-worker", true, false},
        {"cpu-worker", false, true},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct sched_config config;
        struct cluster c;

        test_case(rows[i].role);
        sched_config_default(&config);
        config.policy.restrict_nodes = true;
        cluster_open_as(&c, &config);
        cluster_queue(&c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
        put_node(
            &c, "a",
            str_c(&c.arena, str_printf(&c.arena, "'node-role.kubernetes.io/%s':''", rows[i].role)),
            "");
        cluster_put(&c, &(struct job){.name = "j", .gpus = rows[i].gpu ? 1 : 0});
        cluster_decide(&c, 1000);
        EXPECT(cluster_bound(&c, "j-0") == rows[i].goes);
        cluster_close(&c);
    }
}

TEST(a_namespace_that_gets_another_label_or_goes_is_seen_by_those_who_select_it)
{
    struct sched_config config;
    struct cluster c;

    sched_config_default(&config);
    three_nodes(&c, &config);
    put(&c, &kind_namespace, "{'metadata':{'name':'far','labels':{'team':'red'}}}");
    put_pod(&c,
            &(struct manifest){.name = "there", .ns = "far", .node = "b", .labels = "'app':'x'"});
    put_pod(&c, &(struct manifest){
                    .name = "p",
                    .node = "",
                    .spec = "'affinity':{'podAffinity':{"
                            "'requiredDuringSchedulingIgnoredDuringExecution':[{"
                            "'topologyKey':'zone','labelSelector':{'matchLabels':{'app':'x'}},"
                            "'namespaceSelector':{'matchLabels':{'team':'blue'}}}]}}"});
    cluster_decide(&c, 1000);
    EXPECT(is_among("-", place_of(&c, "p")));
    put(&c, &kind_namespace, "{'metadata':{'name':'far','labels':{'team':'red'}}}");
    EXPECT(!sched_needs_cycle(c.sched)); /* nothing new */
    sched_drop_namespace(c.sched, STR("far"));
    EXPECT(sched_needs_cycle(c.sched));
    cluster_decide(&c, 1000);
    EXPECT(is_among("-", place_of(&c, "p")));
    put(&c, &kind_namespace, "{'metadata':{'name':'far','labels':{'team':'blue'}}}");
    EXPECT(sched_needs_cycle(c.sched));
    cluster_decide(&c, 1000);
    EXPECT(is_among("b", place_of(&c, "p")));
    cluster_close(&c);
}
