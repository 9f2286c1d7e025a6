#include "server/virtual.h"

#include "api/kind.h"
#include "base/count.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

const struct virtual_subresource virtual_subresources[] = {
    {"pods", "log", NULL, NULL, NULL, "\"get\""},
    {"pods", "attach", NULL, NULL, "PodAttachOptions", "\"create\",\"get\""},
    {"pods", "ephemeralcontainers", NULL, NULL, NULL, "\"get\",\"patch\",\"update\""},
    {"pods", "exec", NULL, NULL, "PodExecOptions", "\"create\",\"get\""},
    {"pods", "portforward", NULL, NULL, "PodPortForwardOptions", "\"create\",\"get\""},
    {"pods", "binding", NULL, NULL, "Binding", "\"create\""},
    {"pods", "eviction", "policy", "v1", "Eviction", "\"create\""},
    {"pods", "proxy", NULL, NULL, "PodProxyOptions",
     "\"create\",\"delete\",\"get\",\"patch\",\"update\""},
    {"certificatesigningrequests", "approval", NULL, NULL, NULL, "\"get\",\"patch\",\"update\""},
    {"serviceaccounts", "token", "authentication.k8s.io", "v1", "TokenRequest", "\"create\""},
    {"services", "proxy", NULL, NULL, "ServiceProxyOptions",
     "\"create\",\"delete\",\"get\",\"patch\",\"update\""},
};
const size_t virtual_subresource_count = COUNT_OF(virtual_subresources);

#define AUTHN   "authentication.k8s.io", "v1"
#define AUTHZ   "authorization.k8s.io", "v1"
#define METRICS "metrics.k8s.io", "v1beta1"

const struct virtual_kind virtual_kinds[] = {
    {AUTHZ, "SelfSubjectAccessReview", "selfsubjectaccessreviews", "selfsubjectaccessreview", false,
     "\"create\""},
    {AUTHZ, "SelfSubjectRulesReview", "selfsubjectrulesreviews", "selfsubjectrulesreview", false,
     "\"create\""},
    {AUTHZ, "SubjectAccessReview", "subjectaccessreviews", "subjectaccessreview", false,
     "\"create\""},
    {AUTHZ, "LocalSubjectAccessReview", "localsubjectaccessreviews", "localsubjectaccessreview",
     true, "\"create\""},
    {AUTHN, "SelfSubjectReview", "selfsubjectreviews", "selfsubjectreview", false, "\"create\""},
    {AUTHN, "TokenReview", "tokenreviews", "tokenreview", false, "\"create\""},
    {METRICS, "NodeMetrics", "nodes", "", false, "\"get\",\"list\""},
    {METRICS, "PodMetrics", "pods", "", true, "\"get\",\"list\""},
};
const size_t virtual_kind_count = COUNT_OF(virtual_kinds);

const struct virtual_group virtual_groups[] = {{AUTHN}, {AUTHZ}, {METRICS}};
const size_t virtual_group_count = COUNT_OF(virtual_groups);

bool virtual_applies(const struct virtual_subresource *sub, const struct kind *kind)
{
    return (!kind->group[0] || kind == &kind_csr) && strcmp(sub->plural, kind->plural) == 0;
}

const struct virtual_group *virtual_group(struct str name)
{
    for (size_t i = 0; i < virtual_group_count; i++)
        if (str_is(name, virtual_groups[i].name))
            return &virtual_groups[i];
    return NULL;
}
