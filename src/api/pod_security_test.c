#include "api/pod_security.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <stddef.h>
#include <stdio.h>

static struct str violations(struct arena *arena,
                             const char *level,
                             const char *version,
                             const char *spec,
                             const char *annotations)
{
    struct pod_security policy = {0};

    EXPECT(pod_security_parse(str_from(level), str_from(version), &policy));
    return pod_security_violations(arena, &policy, test_json(arena, spec),
                                   test_json(arena, annotations));
}

struct row {
    const char *control; /* of the Pod Security Standards */
    const char *spec;
    const char *says; /* "": nothing */
};

static void expect_rows(const char *level, const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct str said = violations(&arena, level, "latest", rows[i].spec, "{}");
        const char *wanted = test_quotes(&arena, rows[i].says);

        test_case(rows[i].control);
        if (!str_is(said, wanted))
            (void)fprintf(stderr, "%s: " STR_FMT "\n", rows[i].control, STR_ARG(said));
        EXPECT(str_is(said, wanted));
    }
}

#define C(context) "{'containers':[{'name':'c','securityContext':" context "}]}"
#define P(context) "{'securityContext':" context ",'containers':[{'name':'c'}]}"

TEST(pod_security_baseline_refuses_what_reaches_the_node)
{
    static const struct row rows[] = {
        {"nothing asked for", "{'containers':[{'name':'c'}]}", ""},
        {"Host Namespaces", "{'hostNetwork':true,'hostPID':true,'hostIPC':true}",
         "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)"},
        {"Privileged Containers", C("{'privileged':true}"),
         "privileged (container 'c' must not set securityContext.privileged=true)"},
        {"Privileged Containers, at the beginning",
         "{'initContainers':[{'name':'i','securityContext':{'privileged':true}}],'containers':[{"
         "'name':'c','securityContext':{'privileged':true}}]}",
         "privileged (containers 'i', 'c' must not set securityContext.privileged=true)"},
        {"Capabilities", C("{'capabilities':{'add':['NET_RAW','CHOWN','NET_ADMIN']}}"),
         "non-default capabilities (container 'c' must not include 'NET_ADMIN', 'NET_RAW' in "
         "securityContext.capabilities.add)"},
        {"Capabilities of every container", C("{'capabilities':{'add':['CHOWN','KILL']}}"), ""},
        {"HostPath Volumes", "{'volumes':[{'name':'v','hostPath':{'path':'/'}}]}",
         "hostPath volumes (volume 'v')"},
        {"Host Ports", "{'containers':[{'name':'c','ports':[{'hostPort':80},{'hostPort':0}]}]}",
         "hostPort (container 'c' uses hostPort 80)"},
        {"AppArmor", C("{'appArmorProfile':{'type':'Unconfined'}}"),
         "forbidden AppArmor profile (container 'c' must not set AppArmor profile type to "
         "'Unconfined')"},
        {"AppArmor of the runtime", C("{'appArmorProfile':{'type':'RuntimeDefault'}}"), ""},
        {"SELinux type", P("{'seLinuxOptions':{'type':'spc_t'}}"),
         "seLinuxOptions (pod must not set securityContext.seLinuxOptions to a type other than "
         "those of containers, nor user or role)"},
        {"SELinux of containers", P("{'seLinuxOptions':{'type':'container_t','level':'s0'}}"), ""},
        {"/proc Mount Type", C("{'procMount':'Unmasked'}"),
         "procMount (container 'c' must not set securityContext.procMount to 'Unmasked')"},
        {"Seccomp", P("{'seccompProfile':{'type':'Unconfined'}}"),
         "seccompProfile (pod must not set securityContext.seccompProfile.type to 'Unconfined')"},
        {"Seccomp not named", P("{}"), ""},
        {"Sysctls", P("{'sysctls':[{'name':'kernel.msgmax'},{'name':'net.ipv4.tcp_syncookies'}]}"),
         "forbidden sysctls (kernel.msgmax)"},
        {"HostProcess", P("{'windowsOptions':{'hostProcess':true}}"),
         "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)"},
        {"Host Probes",
         "{'containers':[{'name':'c','livenessProbe':{'httpGet':{'host':'1.2.3.4'}}}"
         "]}",
         "probe or lifecycle host (container 'c' must not set host in probes or lifecycle "
         "handlers)"},
        {"Host Ports of two",
         "{'containers':[{'name':'a','ports':[{'hostPort':80},{'hostPort':81}]},"
         "{'name':'b','ports':[{'hostPort':80}]}]}",
         "hostPort (containers 'a', 'b' use hostPorts 80, 81)"},
        {"HostPath Volumes, two, beside another",
         "{'volumes':[{'name':'v','hostPath':{}},{'name':'e','emptyDir':{}},{'name':'w',"
         "'hostPath':{}}]}",
         "hostPath volumes (volumes 'v', 'w')"},
        {"SELinux user", C("{'seLinuxOptions':{'user':'u'}}"),
         "seLinuxOptions (container 'c' must not set securityContext.seLinuxOptions to a type "
         "other "
         "than those of containers, nor user or role)"},
        {"SELinux role, of both",
         "{'securityContext':{'seLinuxOptions':{'role':'r'}},'containers':[{'name':'c',"
         "'securityContext':{'seLinuxOptions':{'role':'r'}}}]}",
         "seLinuxOptions (pod and container 'c' must not set securityContext.seLinuxOptions to a "
         "type other than those of containers, nor user or role)"},
        {"Sysctls, two", P("{'sysctls':[{'name':'kernel.msgmax'},{'name':'kernel.sem'}]}"),
         "forbidden sysctls (kernel.msgmax, kernel.sem)"},
        {"Host Probes, of every kind",
         "{'containers':[{'name':'a','livenessProbe':{'tcpSocket':{'host':'h'}}},{'name':'b',"
         "'readinessProbe':{'httpGet':{'host':'h'}}},{'name':'c','startupProbe':{'httpGet':{"
         "'host':'h'}}},{'name':'d','lifecycle':{'postStart':{'httpGet':{'host':'h'}}}},{'name':"
         "'e','lifecycle':{'preStop':{'tcpSocket':{'host':'h'}}}},{'name':'f','livenessProbe':{"
         "'httpGet':{'port':1}}}]}",
         "probe or lifecycle host (containers 'a', 'b', 'c', 'd', 'e' must not set host in probes "
         "or lifecycle handlers)"},
        {"two at once",
         "{'hostPID':true,'containers':[{'name':'c','securityContext':{'privileged':"
         "true}}]}",
         "host namespaces (hostPID=true), privileged (container 'c' must not set "
         "securityContext.privileged=true)"},
    };

    expect_rows("baseline", rows, COUNT_OF(rows));
}

#define GOOD                                                                                \
    "'allowPrivilegeEscalation':false,'runAsNonRoot':true,'capabilities':{'drop':['ALL']}," \
    "'seccompProfile':{'type':'RuntimeDefault'}"

TEST(pod_security_restricted_wants_what_hardens_a_pod)
{
    static const struct row rows[] = {
        {"all of it", C("{" GOOD "}"), ""},
        {"Privilege Escalation",
         C("{'runAsNonRoot':true,'capabilities':{'drop':['ALL']},'seccompProfile':{'type':"
           "'Localhost'}}"),
         "allowPrivilegeEscalation != false (container 'c' must set "
         "securityContext.allowPrivilegeEscalation=false)"},
        {"Running as Non-root",
         C("{'allowPrivilegeEscalation':false,'capabilities':{'drop':['ALL']},'seccompProfile':{"
           "'type':'RuntimeDefault'}}"),
         "runAsNonRoot != true (pod or container 'c' must set securityContext.runAsNonRoot=true)"},
        {"Running as Non-root, said of the pod",
         "{'securityContext':{'runAsNonRoot':true,'seccompProfile':{'type':'RuntimeDefault'}},"
         "'containers':[{'name':'c','securityContext':{'allowPrivilegeEscalation':false,"
         "'capabilities':{'drop':['ALL']}}}]}",
         ""},
        {"Running as Non-root, denied", C("{" GOOD ",'runAsNonRoot':false}"),
         "runAsNonRoot != true (container 'c' must not set securityContext.runAsNonRoot=false)"},
        {"Running as Non-root user", C("{" GOOD ",'runAsUser':0}"),
         "runAsUser=0 (container 'c' must not set runAsUser=0)"},
        {"Seccomp",
         C("{'allowPrivilegeEscalation':false,'runAsNonRoot':true,'capabilities':{'drop':['ALL']}"
           "}"),
         "seccompProfile (pod or container 'c' must set securityContext.seccompProfile.type to "
         "'RuntimeDefault' or 'Localhost')"},
        {"Capabilities",
         C("{'allowPrivilegeEscalation':false,'runAsNonRoot':true,'seccompProfile':{'type':"
           "'RuntimeDefault'},'capabilities':{'add':['CHOWN','NET_BIND_SERVICE']}}"),
         "unrestricted capabilities (container 'c' must set "
         "securityContext.capabilities.drop=['ALL']; container 'c' must not include 'CHOWN' in "
         "securityContext.capabilities.add)"},
        {"Capabilities, all dropped and one added",
         C("{'allowPrivilegeEscalation':false,'runAsNonRoot':true,'seccompProfile':{'type':"
           "'RuntimeDefault'},'capabilities':{'drop':['KILL','ALL'],'add':['CHOWN']}}"),
         "unrestricted capabilities (container 'c' must not include 'CHOWN' in "
         "securityContext.capabilities.add)"},
        {"Capabilities, some dropped",
         C("{'allowPrivilegeEscalation':false,'runAsNonRoot':true,'seccompProfile':{'type':"
           "'RuntimeDefault'},'capabilities':{'drop':['KILL']}}"),
         "unrestricted capabilities (container 'c' must set "
         "securityContext.capabilities.drop=['ALL'])"},
        {"Seccomp, none at all", C("{" GOOD ",'seccompProfile':{'type':'Unconfined'}}"),
         "seccompProfile (container 'c' must not set securityContext.seccompProfile.type to "
         "'Unconfined')"},
        {"Volume Types, one",
         "{'volumes':[{'name':'w','nfs':{},'configMap':null}],'containers':[{'name':'c',"
         "'securityContext':{" GOOD "}}]}",
         "restricted volume types (volume 'w' uses restricted volume type 'nfs')"},
        {"Volume Types",
         "{'volumes':[{'name':'v','hostPath':{}},{'name':'w','nfs':{}},{'name':'e','emptyDir':{}}],"
         "'containers':[{'name':'c','securityContext':{" GOOD "}}]}",
         "restricted volume types (volumes 'v', 'w' use restricted volume types 'hostPath', "
         "'nfs')"},
        {"baseline holds too",
         "{'hostPID':true,'containers':[{'name':'c','securityContext':{" GOOD "}}]}",
         "host namespaces (hostPID=true)"},
        {"Windows has no capabilities",
         "{'os':{'name':'windows'},'securityContext':{'runAsNonRoot':true},'containers':[{'name':"
         "'c'}]}",
         ""},
    };

    expect_rows("restricted", rows, COUNT_OF(rows));
}

TEST(pod_security_a_version_has_its_own_controls)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const char *keepalive = P("{'sysctls':[{'name':'net.ipv4.tcp_keepalive_time'}]}");
    const char *root = C("{" GOOD ",'runAsUser':0}");
    struct pod_security policy = {0};

    EXPECT(violations(&arena, "baseline", "v1.28", keepalive, "{}").len);
    EXPECT(!violations(&arena, "baseline", "v1.29", keepalive, "{}").len);
    EXPECT(!violations(&arena, "restricted", "v1.22", root, "{}").len);
    EXPECT(violations(&arena, "restricted", "v1.23", root, "{}").len);
    EXPECT(!violations(&arena, "privileged", "", "{'hostPID':true}", "{}").len);
    EXPECT(violations(&arena, "baseline", "", "{}",
                      "{'container.apparmor.security.beta.kubernetes.io/c':'unconfined'}")
               .len);
    EXPECT(!violations(&arena, "baseline", "", "{}",
                       "{'container.apparmor.security.beta.kubernetes.io/c':'runtime/default',"
                       "'container.apparmor.security.beta.kubernetes.io/d':'localhost/x',"
                       "'container.apparmor.security.beta.kubernetes.io/e':'','a':'unconfined'}")
                .len);
    EXPECT(str_is(violations(&arena, "baseline", "", "{}",
                             "{'container.apparmor.security.beta.kubernetes.io/c':'unconfined',"
                             "'container.apparmor.security.beta.kubernetes.io/d':'x'}"),
                  "forbidden AppArmor profile (annotation "
                  "\"container.apparmor.security.beta.kubernetes.io/c\"=\"unconfined\", annotation "
                  "\"container.apparmor.security.beta.kubernetes.io/d\"=\"x\")"));
    EXPECT(!pod_security_parse(STR("baseline"), STR("v1.x"), &policy));
    EXPECT(!pod_security_parse(STR("strict"), STR(""), &policy));
    EXPECT(!pod_security_parse(STR("baseline"), STR("1.29"), &policy));
    EXPECT(!pod_security_parse(STR("baseline"), STR("v2.0"), &policy));
    EXPECT(pod_security_parse(STR("restricted"), STR("v1.29"), &policy));
    EXPECT(str_is(pod_security_text(&arena, &policy), "restricted:v1.29"));
}
