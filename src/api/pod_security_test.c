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
    EXPECT(!pod_security_parse(STR("strict"), STR(""), &policy));
    EXPECT(!pod_security_parse(STR("baseline"), STR("1.29"), &policy));
    EXPECT(!pod_security_parse(STR("baseline"), STR("v2.0"), &policy));
    EXPECT(pod_security_parse(STR("restricted"), STR("v1.29"), &policy));
    EXPECT(str_is(pod_security_text(&arena, &policy), "restricted:v1.29"));
}
