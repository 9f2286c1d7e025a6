#include "api/field.h"

#include "api/kind.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

static const struct {
    const struct kind *kind; /* NULL: every kind */
    const char *label;
    const char *path; /* NULL: the same */
} rows[] = {
    {NULL, "metadata.name", NULL},
    {&kind_pod, "spec.nodeName", NULL},
    {&kind_pod, "spec.restartPolicy", NULL},
    {&kind_pod, "spec.schedulerName", NULL},
    {&kind_pod, "spec.serviceAccountName", NULL},
    {&kind_pod, "spec.hostNetwork", NULL},
    {&kind_pod, "status.phase", NULL},
    {&kind_pod, "status.podIP", NULL},
    {&kind_pod, "status.nominatedNodeName", NULL},
    {&kind_event, "involvedObject.kind", NULL},
    {&kind_event, "involvedObject.namespace", NULL},
    {&kind_event, "involvedObject.name", NULL},
    {&kind_event, "involvedObject.uid", NULL},
    {&kind_event, "involvedObject.apiVersion", NULL},
    {&kind_event, "involvedObject.resourceVersion", NULL},
    {&kind_event, "involvedObject.fieldPath", NULL},
    {&kind_event, "reason", NULL},
    {&kind_event, "reportingComponent", NULL},
    {&kind_event, "source", "source.component|reportingComponent"},
    {&kind_event, "type", NULL},
    {&kind_event_k8s, "regarding.kind", "involvedObject.kind"},
    {&kind_event_k8s, "regarding.namespace", "involvedObject.namespace"},
    {&kind_event_k8s, "regarding.name", "involvedObject.name"},
    {&kind_event_k8s, "regarding.uid", "involvedObject.uid"},
    {&kind_event_k8s, "regarding.apiVersion", "involvedObject.apiVersion"},
    {&kind_event_k8s, "regarding.resourceVersion", "involvedObject.resourceVersion"},
    {&kind_event_k8s, "regarding.fieldPath", "involvedObject.fieldPath"},
    {&kind_event_k8s, "reason", NULL},
    {&kind_event_k8s, "reportingController", "reportingComponent"},
    {&kind_event_k8s, "type", NULL},
    {&kind_node, "spec.unschedulable", NULL},
    {&kind_secret, "type", NULL},
    {&kind_namespace, "status.phase", NULL},
    {&kind_job, "status.successful", "status.succeeded"},
    {&kind_service, "spec.clusterIP", NULL},
    {&kind_service, "spec.type", NULL},
    {&kind_csr, "spec.signerName", NULL},
};

/* STR_NONE: not one of those a client may name. */
static struct str path_of(const struct kind *kind, const struct kind_crd *crd, struct str label)
{
    bool own = kind == &kind_node || kind == &kind_namespace || kind == &kind_csr || kind->custom;

    if ((kind->namespaced || !own) && str_is(label, "metadata.namespace"))
        return label;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if ((!rows[i].kind || rows[i].kind == kind) && str_is(label, rows[i].label))
            return rows[i].path ? str_from(rows[i].path) : label;
    /* [{"jsonPath": ".spec.color"}] */
    JSON_FOREACH(crd ? crd->selectable : NULL, field) {
        struct str path = json_str(json_get(field, "jsonPath"));

        if (str_eq(str_sub(path, 1, path.len), label))
            return label;
    }
    return STR_NONE;
}

/* What the fields that are no texts count as where they are not there. They are compared as an empty
 * text then: so whoever asks for that value asks for the empty text as well. */
static void absent_add(struct arena *arena, struct selector_term *term)
{
    static const struct {
        const char *path;
        const char *value;
    } absent[] = {
        {"spec.hostNetwork", "false"},
        {"spec.unschedulable", "false"},
        {"status.succeeded", "0"},
    };

    for (size_t i = 0; i < COUNT_OF(absent); i++) {
        if (!str_is(term->key, absent[i].path) || !str_is(term->values[0], absent[i].value))
            continue;
        struct str *values = ARENA_ARRAY(arena, struct str, 2);
        values[0] = term->values[0];
        values[1] = STR("");
        term->values = values;
        term->value_count = 2;
    }
}

int field_selector_parse(struct arena *arena,
                         const struct kind *kind,
                         const struct kind_crd *crd,
                         struct str text,
                         struct selector *ret,
                         struct err *err)
{
    struct selector given = {0};
    int r = selector_parse_fields(arena, text, &given, err);

    if (r < 0)
        return r;
    struct selector_term *terms = ARENA_ARRAY(arena, struct selector_term, given.term_count);
    for (size_t i = 0; i < given.term_count; i++) {
        terms[i] = given.terms[i];
        terms[i].key = path_of(kind, crd, given.terms[i].key);
        if (!terms[i].key.p)
            return err_set(err, -EINVAL, "field label not supported: " STR_FMT,
                           STR_ARG(str_sub(given.terms[i].key, 0, 80)));
        if (!crd)
            absent_add(arena, &terms[i]);
    }
    *ret = (struct selector){.terms = terms, .term_count = given.term_count};
    return 0;
}
