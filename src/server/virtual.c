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
    {"serviceaccounts", "token", "authentication.k8s.io", "v1", "TokenRequest", "\"create\""},
    {"services", "proxy", NULL, NULL, "ServiceProxyOptions",
     "\"create\",\"delete\",\"get\",\"patch\",\"update\""},
};
const size_t virtual_subresource_count = COUNT_OF(virtual_subresources);

const struct virtual_kind virtual_kinds[] = {
    {"authorization.k8s.io", "SelfSubjectAccessReview", "selfsubjectaccessreviews",
     "selfsubjectaccessreview", false},
    {"authorization.k8s.io", "SelfSubjectRulesReview", "selfsubjectrulesreviews",
     "selfsubjectrulesreview", false},
    {"authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews", "subjectaccessreview",
     false},
    {"authorization.k8s.io", "LocalSubjectAccessReview", "localsubjectaccessreviews",
     "localsubjectaccessreview", true},
    {"authentication.k8s.io", "SelfSubjectReview", "selfsubjectreviews", "selfsubjectreview",
     false},
    {"authentication.k8s.io", "TokenReview", "tokenreviews", "tokenreview", false},
};
const size_t virtual_kind_count = COUNT_OF(virtual_kinds);

const char *const virtual_groups[] = {"authentication.k8s.io", "authorization.k8s.io"};
const size_t virtual_group_count = COUNT_OF(virtual_groups);

bool virtual_applies(const struct virtual_subresource *sub, const struct kind *kind)
{
    return !kind->group[0] && strcmp(sub->plural, kind->plural) == 0;
}

bool virtual_has_group(struct str group)
{
    for (size_t i = 0; i < virtual_group_count; i++)
        if (str_is(group, virtual_groups[i]))
            return true;
    return false;
}
