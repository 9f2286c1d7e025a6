#include "store/idle.h"

#include "api/kind.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/str.h"
#include "store/reply.h"
#include "store/write.h"

#include <stddef.h>

/* Kinds that are stored and served because charts contain them, and that nothing here acts on: who
 * writes one is told. */
static const struct {
    const struct kind *kind;
    const char *why;
} idle[] = {
    {&kind_ingress, "no ingress controller runs here; use kubectl port-forward or a Service"},
    {&kind_ingressclass, "no ingress controller runs here"},
    {&kind_networkpolicy, "pods are not kept apart by network policies here"},
    {&kind_servicecidr,
     "the addresses of Services come from the network of the one called kubernetes"},
    {&kind_ipaddress, "the addresses of Services are held by the Services alone"},
    {&kind_flowschema, "every user has the same limits here"},
    {&kind_prioritylevel, "every user has the same limits here"},
    {&kind_csidriver, "no volumes are mounted through drivers here"},
    {&kind_csinode, "no volumes are mounted through drivers here"},
    {&kind_volumeattachment, "no volumes are mounted through drivers here"},
    {&kind_csistoragecapacity, "no volumes are made by drivers here"},
    {&kind_workload, "it has templates only; make PodGroups of them, which are scheduled"},
    {&kind_hpa, "no autoscaler runs here, so nothing is scaled"},
    {&kind_hpa_v1, "no autoscaler runs here, so nothing is scaled"},
};

void idle_warn(struct write *write)
{
    struct str *warnings = &write->reply->result.warnings;

    for (size_t i = 0; !write->subresource.len && i < COUNT_OF(idle); i++)
        if (idle[i].kind == write->kind)
            *warnings = str_printf(write->arena,
                                   STR_FMT "%s%s \"" STR_FMT "\" is stored and has no effect: %s",
                                   STR_ARG(*warnings), warnings->len ? "\n" : "", write->kind->name,
                                   STR_ARG(write->name), idle[i].why);
}
