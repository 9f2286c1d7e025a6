#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "sched/decode_test.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/world_test.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Devices as drivers publish them, and who may have them: as manifests say it. */

static void tell(struct cluster *c,
                 enum sched_change change,
                 const struct kind *kind,
                 const char *text)
{
    struct object *object = object_quoted(&c->arena, kind, text);

    EXPECT(sched_observe(c->sched, change, object, NULL) == 0);
    object_unref(object);
}

static void put_slice(struct cluster *c, const char *name, const char *where, const char *devices)
{
    tell(c, SCHED_PUT, &kind_resourceslice,
         str_c(&c->arena,
               str_printf(&c->arena,
                          "{'metadata':{'name':'%s'},'spec':{'driver':'fpga.example.com',%s,"
                          "'pool':{'name':'%s','generation':1,'resourceSliceCount':1},"
                          "'devices':[%s]}}",
                          name, where, name, devices)));
}

static void put_class(struct cluster *c, const char *name, const char *made, const char *spec)
{
    tell(c, SCHED_PUT, &kind_deviceclass,
         str_c(&c->arena, str_printf(&c->arena,
                                     "{'metadata':{'name':'%s','creationTimestamp':'%s'},"
                                     "'spec':{%s}}",
                                     name, made, spec)));
}

static void put_claim(struct cluster *c, const char *name, const char *request)
{
    tell(c, SCHED_PUT, &kind_resourceclaim,
         str_c(&c->arena,
               str_printf(&c->arena,
                          "{'metadata':{'namespace':'ns','name':'%s','labels':{'kai.scheduler/"
                          "queue':'q'}},'spec':{'devices':{'requests':[{'name':'r',%s}]}}}",
                          name, request)));
}

#define EARLY "2026-01-01T00:00:00Z"
#define LATE  "2026-02-01T00:00:00Z"

static void two_nodes(struct cluster *c)
{
    cluster_open(c, SCHED_QUIRKS_NONE);
    cluster_queue(c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    for (int i = 0; i < 2; i++)
        tell(c, SCHED_PUT, &kind_node,
             i ? "{'metadata':{'name':'b','labels':{'rack':'r2'}},'status':{'allocatable':{"
                 "'cpu':'8','memory':'64Gi','pods':'10'}}}"
               : "{'metadata':{'name':'a','labels':{'rack':'r1'}},'status':{'allocatable':{"
                 "'cpu':'8','memory':'64Gi','pods':'10'}}}");
    put_class(c, "fpga", EARLY, "");
}

/* "b/d0": the node, and the device of its claim; "-": it waits. */
static const char *given(struct cluster *c, const char *pod)
{
    const struct sched_bind *bind = cluster_bind(c, pod);

    if (!bind || !bind->more || !bind->more->claim_count || !bind->more->claims[0].device_count)
        return "-";
    return str_c(&c->arena, str_printf(&c->arena, STR_FMT "/" STR_FMT, STR_ARG(bind->node),
                                       STR_ARG(bind->more->claims[0].devices[0].device)));
}

#define EXACTLY(more) "'exactly':{'deviceClassName':'fpga'" more "}"

TEST(a_device_can_be_used_where_its_slice_says)
{
    static const struct {
        const char *where;
        const char *device; /* its other fields */
        const char *given;
        bool everywhere;
    } rows[] = {
        {"'nodeName':'b'", "", "b/d", false},
        {"'nodeName':'gone'", "", "-", false},
        {"'allNodes':true", "", "a/d", true},
        {"'nodeSelector':{'nodeSelectorTerms':[{'matchExpressions':[{'key':'rack','operator':'In',"
         "'values':['r2']}]}]}",
         "", "b/d", false},
        {"'nodeSelector':{'nodeSelectorTerms':[{'matchFields':[{'key':'metadata.name',"
         "'operator':'In','values':['c']}]},{'matchExpressions':[{'key':'rack','operator':'In',"
         "'values':['r2']}]}]}",
         "", "b/d", false},
        {"'nodeSelector':{'nodeSelectorTerms':[]}", "", "-", false},
        {"'perDeviceNodeSelection':true", ",'nodeName':'b'", "b/d", false},
        {"'perDeviceNodeSelection':true", ",'allNodes':true", "a/d", true},
        {"'nodeName':'b'", ",'consumesCounters':[{'counterSet':'s'}]", "-", false},
        {"'nodeName':'b'", ",'bindingConditions':['Attached']", "-", false},
        {"'nodeName':'b'", ",'allowMultipleAllocations':true", "-", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cluster c;

        test_case(rows[i].where);
        two_nodes(&c);
        put_slice(&c, "s", rows[i].where,
                  str_c(&c.arena, str_printf(&c.arena, "{'name':'d'%s}", rows[i].device)));
        put_claim(&c, "c", EXACTLY(""));
        cluster_put(&c, &(struct job){.name = "j", .claim = "c"});
        cluster_decide(&c, 1000);
        EXPECT(str_is(str_from(rows[i].given), given(&c, "j-0")));
        const struct sched_bind *bind = cluster_bind(&c, "j-0");
        EXPECT(!bind || bind->more->claims[0].everywhere == rows[i].everywhere);
        cluster_close(&c);
    }
}

/* Kubernetes: NoSchedule and NoExecute keep claims away that do not tolerate them. */
TEST(a_tainted_device_is_given_to_who_tolerates_it)
{
    static const struct {
        const char *taint;
        const char *tolerations;
        bool goes;
    } rows[] = {
        {"{'key':'k','effect':'None'}", "", true},
        {"{'key':'k','value':'v','effect':'NoSchedule'}", "", false},
        {"{'key':'k','value':'v','effect':'NoExecute'}", "", false},
        {"{'key':'k','value':'v','effect':'NoSchedule'}", "{'operator':'Exists'}", true},
        {"{'key':'k','value':'v','effect':'NoSchedule'}", "{'key':'k','operator':'Exists'}", true},
        {"{'key':'k','value':'v','effect':'NoSchedule'}", "{'key':'j','operator':'Exists'}", false},
        {"{'key':'k','value':'v','effect':'NoSchedule'}",
         "{'key':'k','operator':'Exists','effect':'NoExecute'}", false},
        {"{'key':'k','value':'v','effect':'NoExecute'}",
         "{'key':'k','operator':'Exists','effect':'NoExecute'}", true},
        {"{'key':'k','value':'v','effect':'NoSchedule'}", "{'key':'k','value':'v'}", true},
        {"{'key':'k','value':'v','effect':'NoSchedule'}",
         "{'key':'k','operator':'Equal','value':'w'},{'key':'k','value':'v'}", true},
        {"{'key':'k','value':'v','effect':'NoSchedule'}", "{'key':'k','value':'w'}", false},
        {"{'key':'k','value':'v','effect':'NoSchedule'}", "{'value':'v'}", false},
        {"{'key':'k','effect':'NoSchedule'},{'key':'j','effect':'NoSchedule'}",
         "{'key':'k','operator':'Exists'}", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cluster c;

        test_case(rows[i].tolerations);
        two_nodes(&c);
        put_slice(
            &c, "s", "'nodeName':'b'",
            str_c(&c.arena, str_printf(&c.arena, "{'name':'d','taints':[%s]}", rows[i].taint)));
        put_claim(&c, "c",
                  str_c(&c.arena,
                        str_printf(&c.arena, EXACTLY(",'tolerations':[%s]"), rows[i].tolerations)));
        cluster_put(&c, &(struct job){.name = "j", .claim = "c"});
        cluster_decide(&c, 1000);
        EXPECT(cluster_bound(&c, "j-0") == rows[i].goes);
        cluster_close(&c);
    }
}

TEST(a_claim_that_cannot_be_served_says_why)
{
    static const struct {
        const char *class;
        const char *request;
        const char *words;
    } rows[] = {
        {"", "'exactly':{'deviceClassName':'gone'}", "DeviceClass gone does not exist"},
        {"'selectors':[{'cel':{'expression':'device.driver =='}}]", EXACTLY(""), "DeviceClass own"},
        {"'selectors':[{'cel':{'expression':'device.driver'}}]", EXACTLY(""), "DeviceClass own"},
        {"", EXACTLY(",'capacity':{'requests':{'memory':'1Gi'}}"), "capacity"},
        {"", EXACTLY(",'adminAccess':true"), "adminAccess"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cluster c;

        test_case(rows[i].words);
        two_nodes(&c);
        put_class(&c, "own", EARLY, rows[i].class);
        put_slice(&c, "s", "'nodeName':'b'", "{'name':'d'},{'name':'e'}");
        struct str request = str_from(rows[i].request);
        if (*rows[i].class)
            request = STR("'exactly':{'deviceClassName':'own'}");
        put_claim(&c, "c", str_c(&c.arena, request));
        cluster_put(&c, &(struct job){.name = "j", .claim = "c"});
        cluster_decide(&c, 1000);
        EXPECT(!cluster_bound(&c, "j-0"));
        EXPECT(str_contains(cluster_waiting(&c, "j")->message, str_from(rows[i].words)));
        cluster_close(&c);
    }
}

/* An attribute without a domain is one of its driver. */
TEST(devices_of_one_attribute_are_found_by_its_full_name)
{
    static const char devices[] =
        "{'name':'d0','attributes':{'board':{'int':1}}},{'name':'d1','attributes':{'board':{'int':"
        "2}}},{'name':'d2','attributes':{'board':{'int':2}}},{'name':'d3'}";
    static const struct {
        const char *attribute;
        const char *given;
    } rows[] = {
        {"fpga.example.com/board", "b/d1"},
        {"gpu.example.com/board", "-"},
        {"board", "b/d1"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cluster c;

        test_case(rows[i].attribute);
        two_nodes(&c);
        put_slice(&c, "s", "'nodeName':'b'", devices);
        tell(&c, SCHED_PUT, &kind_resourceclaim,
             str_c(&c.arena, str_printf(&c.arena,
                                        "{'metadata':{'namespace':'ns','name':'c'},'spec':{"
                                        "'devices':{'requests':[{'name':'r'," EXACTLY(
                                            ",'count':2") "}],'constraints':[{'matchAttribute':"
                                                          "'%s'}]}}}",
                                        rows[i].attribute)));
        cluster_put(&c, &(struct job){.name = "j", .claim = "c"});
        cluster_decide(&c, 1000);
        EXPECT(str_is(str_from(rows[i].given), given(&c, "j-0")));
        cluster_close(&c);
    }
}

TEST(devices_come_and_go_with_their_slices_and_classes)
{
    struct cluster c;

    two_nodes(&c);
    put_class(&c, "fpga", EARLY,
              "'selectors':[{'cel':{'expression':'device.driver.startsWith(\\'fpga\\')'}}]");
    put_class(&c, "same", EARLY,
              "'selectors':[{'cel':{'expression':'device.driver.startsWith(\\'fpga\\')'}}]");
    put_slice(&c, "s", "'nodeName':'b'", "{'name':'d0'},{'name':'d1'}");
    put_slice(&c, "t", "'nodeName':'a'", "{'name':'d0'}");
    put_claim(&c, "one", EXACTLY(""));
    cluster_put(&c, &(struct job){.name = "one", .claim = "one"});
    cluster_decide(&c, 1000);
    EXPECT(str_is(STR("a/d0"), given(&c, "one-0")));
    /* The others of its pool, and all of the class, are gone; then there are others. */
    tell(&c, SCHED_DROP, &kind_resourceslice, "{'metadata':{'name':'s'}}");
    tell(&c, SCHED_DROP, &kind_resourceslice, "{'metadata':{'name':'never'}}");
    put_claim(&c, "two", EXACTLY(""));
    cluster_put(&c, &(struct job){.name = "two", .claim = "two"});
    cluster_decide(&c, 1000);
    EXPECT(!cluster_bound(&c, "two-0"));
    put_slice(&c, "u", "'nodeName':'b'", "{'name':'x0'},{'name':'x1'}");
    tell(&c, SCHED_DROP, &kind_deviceclass, "{'metadata':{'name':'fpga'}}");
    tell(&c, SCHED_DROP, &kind_deviceclass, "{'metadata':{'name':'never'}}");
    cluster_decide(&c, 1000);
    EXPECT(!cluster_bound(&c, "two-0"));
    EXPECT(str_contains(cluster_waiting(&c, "two")->message, STR("fpga does not exist")));
    put_class(&c, "fpga", EARLY, "");
    cluster_decide(&c, 1000);
    EXPECT(str_is(STR("b/x0"), given(&c, "two-0")));
    cluster_close(&c);
}

/* Kubernetes: of the classes with that name the one made last counts, of those made at once the first
 * by name. */
TEST(gpus_by_their_old_name_are_of_the_class_that_was_made_last)
{
    static const struct {
        const char *made[3];
        const char *class;
    } rows[] = {
        {{EARLY, LATE, EARLY}, "b"},
        {{LATE, LATE, EARLY}, "a"},
        {{EARLY, LATE, LATE}, "b"},
        {{EARLY, EARLY, LATE}, "c"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        static const char *const names[] = {"c", "b", "a"}; /* put in another order than by name */
        struct cluster c;

        test_case(rows[i].class);
        two_nodes(&c);
        for (size_t k = 0; k < 3; k++)
            put_class(&c, names[k], rows[i].made[2 - k], "'extendedResourceName':'nvidia.com/gpu'");
        tell(&c, SCHED_PUT, &kind_resourceslice,
             "{'metadata':{'name':'s'},'spec':{'driver':'gpu.nvidia.com','nodeName':'b','pool':{"
             "'name':'b','generation':1,'resourceSliceCount':1},'devices':[{'name':'g0',"
             "'attributes':{'type':{'string':'gpu'}}},{'name':'m0','attributes':{'type':{'string':"
             "'mig'}}}]}}");
        cluster_put(&c, &(struct job){.name = "j", .gpus = 1});
        cluster_decide(&c, 1000);
        const struct sched_bind *bind = cluster_bind(&c, "j-0");
        EXPECT(bind && bind->more && bind->more->whole_count == 1);
        EXPECT(bind && str_is(bind->more->whole[0].class, rows[i].class));
        EXPECT(bind && str_is(bind->more->whole[0].device, "g0"));
        cluster_close(&c);
    }
}
