#include "api/gpus.h"

#include "api/account.h"
#include "base/json.h"
#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

int64_t gpus_of(const struct json *resources)
{
    int64_t gpus = json_i64_or(json_get(resources, "nvidia.com/gpu"), 0);

    (void)str_to_i64(json_str(json_get(resources, "nvidia.com/gpu")), &gpus);
    return gpus;
}

int64_t gpus_times(int64_t gpus, int64_t count)
{
    return account_gpus(account_gpus(gpus) * account_gpus(count));
}

int64_t gpus_asked(const struct json *resources)
{
    int64_t limit = gpus_of(json_get(resources, "limits"));

    return account_gpus(limit ? limit : gpus_of(json_get(resources, "requests")));
}

int64_t gpus_of_pod(const struct json *pod)
{
    int64_t gpus = 0;

    JSON_FOREACH(json_at(pod, "spec.containers"), container)
        gpus = account_gpus(gpus + gpus_asked(json_get(container, "resources")));
    return gpus;
}

int64_t gpus_of_roles(const struct json *roles)
{
    int64_t gpus = 0;

    JSON_FOREACH(roles, role)
        gpus = account_gpus(gpus + gpus_times(gpus_of_pod(json_get(role, "template")),
                                              json_i64_or(json_get(role, "replicas"), 1)));
    return gpus;
}
