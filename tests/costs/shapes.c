#include "shapes.h"

#include "api/kind.h"
#include "api/schema.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_DEPTH_MAX 6
#define PARTS_MAX        64 /* lists and maps that are large at once */
#define PODS_HASH        1  /* of every schema of a pod */

/* A message: one of Kubernetes' types, or an object in the schema of a CRD. */
struct node {
    const struct type *type;
    const struct schema *schema;
};

enum what {
    IS_TEXT,
    IS_QUANTITY,
    IS_NUMBER,
    IS_TRUTH,
    IS_ANY,
    IS_OBJECT,
};

struct field {
    struct str name;
    enum what what; /* of an item or a value, where it is a list or a map */
    bool list;
    bool map;
    bool required;
    bool time;
    const struct json *allowed;
    struct node inside;
};

struct fields VEC_FIELDS(struct field);

/* Where a field stands. */
struct place {
    const struct place *up; /* the field of the message that it is in; NULL: the root */
    struct field field;
};

/* ---- what a message has ---- */

static enum what what_of_form(unsigned form)
{
    switch ((enum type_form)form) {
    case TYPE_STRING:
    case TYPE_BYTES:
    case TYPE_TIME:
    case TYPE_MICROTIME:
    case TYPE_INT_OR_STRING: return IS_TEXT;
    case TYPE_INT32:
    case TYPE_INT64:
    case TYPE_DOUBLE: return IS_NUMBER;
    case TYPE_BOOL: return IS_TRUTH;
    case TYPE_QUANTITY: return IS_QUANTITY;
    case TYPE_JSON: return IS_ANY;
    case TYPE_MESSAGE: break;
    }
    return IS_OBJECT;
}

static void fields_of_type(struct arena *arena, const struct type *type, struct fields *ret)
{
    for (size_t i = 0; i < type->field_count; i++) {
        const struct type_field *from = &type->fields[i];
        struct field field = {.name = str_from(from->name),
                              .what = what_of_form(from->form),
                              .list = from->flags & TYPE_LIST,
                              .map = from->flags & TYPE_MAP,
                              .required = from->flags & TYPE_REQUIRED,
                              .time = from->form == TYPE_TIME || from->form == TYPE_MICROTIME,
                              .inside.type = from->type};

        if (field.what == IS_OBJECT && from->type->bare)
            field.what = IS_ANY;
        if (from->flags & TYPE_INLINE)
            fields_of_type(arena, from->type, ret);
        else
            VEC_PUSH(arena, ret, field);
    }
}

static enum what what_of_schema(const struct schema *schema)
{
    switch (schema->type) {
    case SCHEMA_STRING: return IS_TEXT;
    case SCHEMA_INTEGER:
    case SCHEMA_NUMBER: return IS_NUMBER;
    case SCHEMA_BOOLEAN: return IS_TRUTH;
    case SCHEMA_OBJECT: return schema->property_count ? IS_OBJECT : IS_ANY;
    case SCHEMA_ANY:
    case SCHEMA_ARRAY: break;
    }
    if (schema->quantity)
        return IS_QUANTITY;
    return schema->int_or_string ? IS_TEXT : IS_ANY;
}

static bool is_listed(const struct json *names, struct str name)
{
    JSON_FOREACH(names, item)
        if (str_eq(json_str(item), name))
            return true;
    return false;
}

static void fields_of_schema(struct arena *arena, const struct schema *schema, struct fields *ret)
{
    for (size_t i = 0; i < schema->property_count; i++) {
        const struct schema *own = schema->properties[i].schema;
        struct field field = {.name = schema->properties[i].name,
                              .list = own->type == SCHEMA_ARRAY,
                              .map = own->type == SCHEMA_OBJECT && own->additional,
                              .required = is_listed(schema->required, schema->properties[i].name)};
        const struct schema *value = field.list ? own->items : field.map ? own->additional : own;

        if (!value)
            continue;
        field.what = what_of_schema(value);
        field.allowed = value->allowed;
        field.time = str_is(value->format, "date-time");
        field.inside.schema = value;
        VEC_PUSH(arena, ret, field);
    }
}

static struct fields fields_of(struct arena *arena, struct node node)
{
    struct fields fields = {0};

    if (node.type)
        fields_of_type(arena, node.type, &fields);
    else if (node.schema)
        fields_of_schema(arena, node.schema, &fields);
    return fields;
}

/* ---- samples ---- */

#define POD      "{'containers':[{'name':'c','image':'i'}]}"
#define TEMPLATE "{'metadata':{'labels':{'a':'b'}},'spec':" POD "}"
#define ENDS                                                                                       \
    "{'metadata':{'labels':{'a':'b'}},'spec':{'restartPolicy':'Never','containers':[{'name':'c','" \
    "image':'i'}]}}"
#define TARGETS "'selector':{'matchLabels':{'a':'b'}},'template':" TEMPLATE
#define REPLICAS(container) \
    "{'replicas':1,'template':{'spec':{'containers':[{'name':'" container "','image':'i'}]}}}"
#define RULES                                                                                      \
    "'webhooks':[{'name':'a.b.c','admissionReviewVersions':['v1'],'sideEffects':'None','"          \
    "failurePolicy':'Ignore','clientConfig':{'url':'https://x/"                                    \
    "y'},'rules':[{'apiGroups':['x.y'],'apiVersions':['v1'],'operations':['CREATE'],'resources':[" \
    "'zs']}]}]"

/* The smallest that is accepted, where that is not what the table or the schema require. */
static const struct {
    const struct kind *kind;
    const char *body;
} bases[] = {
    {&kind_pod, "{'spec':" POD "}"},
    {&kind_service, "{'spec':{'selector':{'a':'b'},'ports':[{'port':80}]}}"},
    {&kind_pdb, "{'spec':{'minAvailable':1,'selector':{'matchLabels':{'a':'b'}}}}"},
    {&kind_job, "{'spec':{'template':" ENDS "}}"},
    {&kind_cronjob,
     "{'spec':{'schedule':'0 0 1 1 *','jobTemplate':{'spec':{'template':" ENDS "}}}}"},
    {&kind_deployment, "{'spec':{" TARGETS "}}"},
    {&kind_replicaset, "{'spec':{" TARGETS "}}"},
    {&kind_statefulset, "{'spec':{'serviceName':'s'," TARGETS "}}"},
    {&kind_daemonset, "{'spec':{" TARGETS "}}"},
    {&kind_replicationcontroller,
     "{'spec':{'replicas':1,'selector':{'a':'b'},'template':" TEMPLATE "}}"},
    {&kind_podtemplate, "{'template':" TEMPLATE "}"},
    {&kind_networkpolicy, "{'spec':{'podSelector':{}}}"},
    {&kind_ingress, "{'spec':{'defaultBackend':{'service':{'name':'s','port':{'number':80}}}}}"},
    {&kind_ingressclass, "{'spec':{'controller':'a.b/c'}}"},
    {&kind_flowschema, "{'spec':{'priorityLevelConfiguration':{'name':'p'}}}"},
    {&kind_prioritylevel, "{'spec':{'type':'Exempt'}}"},
    {&kind_csinode, "{'spec':{'drivers':[]}}"},
    {&kind_volumeattachment, "{'spec':{'attacher':'a','nodeName':'n','source':{}}}"},
    {&kind_csistoragecapacity, "{'storageClassName':'c'}"},
    {&kind_workload,
     "{'spec':{'podGroupTemplates':[{'name':'a','schedulingPolicy':{'basic':{}}}]}}"},
    {&kind_servicecidr, "{'spec':{'cidrs':['10.0.0.0/8']}}"},
    {&kind_ipaddress, "{'metadata':{'name':'10.0.0.1'},'spec':{'parentRef':{}}}"},
    {&kind_mutatingwebhooks, "{" RULES "}"},
    {&kind_validatingwebhooks, "{" RULES "}"},
    {&kind_admissionpolicy,
     "{'spec':{'matchConstraints':{'resourceRules':[{'apiGroups':['x.y'],'apiVersions':['v1'],'"
     "operations':['CREATE'],'resources':['zs']}]},'validations':[{'expression':'true'}]}}"},
    {&kind_admissionbinding, "{'spec':{'policyName':'p','validationActions':['Deny']}}"},
    {&kind_rolebinding,
     "{'roleRef':{'apiGroup':'rbac.authorization.k8s.io','kind':'ClusterRole','name':'view'}}"},
    {&kind_clusterrolebinding,
     "{'roleRef':{'apiGroup':'rbac.authorization.k8s.io','kind':'ClusterRole','name':'view'}}"},
    {&kind_runtimeclass, "{'handler':'runc'}"},
    {&kind_endpointslice, "{'addressType':'IPv4','endpoints':[{'addresses':['10.0.0.1']}]}"},
    {&kind_hpa, "{'spec':{'maxReplicas':2,'scaleTargetRef':{'apiVersion':'apps/"
                "v1','kind':'Deployment','name':'d'}}}"},
    {&kind_hpa_v1, "{'spec':{'maxReplicas':2,'scaleTargetRef':{'apiVersion':'apps/"
                   "v1','kind':'Deployment','name':'d'}}}"},
    {&kind_event_k8s, "{'eventTime':'2026-01-01T00:00:00.000000Z','reportingController':'a.b/"
                      "c','reportingInstance':'i','action':'a','reason':'r','type':'Normal','"
                      "regarding':{'namespace':'default'}}"},
    {&kind_limitrange, "{'spec':{'limits':[{'type':'Container'}]}}"},
    {&kind_topology, "{'spec':{'levels':[{'nodeLabel':'rack'}]}}"},
    {&kind_pytorchjob, "{'spec':{'pytorchReplicaSpecs':{'Master':" REPLICAS("pytorch") "}}}"},
    {&kind_tfjob, "{'spec':{'tfReplicaSpecs':{'Worker':" REPLICAS("tensorflow") "}}}"},
    {&kind_mpijob, "{'spec':{'mpiReplicaSpecs':{'Launcher':" REPLICAS("mpi") "}}}"},
    {&kind_xgboostjob, "{'spec':{'xgbReplicaSpecs':{'Master':" REPLICAS("xgboost") "}}}"},
    {&kind_jaxjob, "{'spec':{'jaxReplicaSpecs':{'Worker':" REPLICAS("jax") "}}}"},
    {&kind_paddlejob, "{'spec':{'paddleReplicaSpecs':{'Master':" REPLICAS("paddle") "}}}"},
};

static struct json *parsed(struct arena *arena, const char *text)
{
    struct str own = str_dup(arena, str_from(text));
    struct json *ret = NULL;

    for (size_t i = 0; i < own.len; i++)
        if (own.p[i] == '\'')
            ((char *)(uintptr_t)own.p)[i] = '"';
    int r = json_parse(arena, own, &ret, NULL);
    assert(r == 0);
    return ret;
}

/* Words that fields of these names take. With a %, the index. */
static const struct {
    const char *name;
    const char *text;
} words[] = {{"image", "i"},
             {"operator", "Exists"},
             {"effect", "NoSchedule"},
             {"protocol", "TCP"},
             {"apiVersion", "v1"},
             {"kind", "Pod"},
             {"mountPath", "/n%"},
             {"path", "/n%"},
             {"ip", "10.0.0.1"},
             {"resource", "cpu"},
             {"restartPolicy", "Never"},
             {"fieldPath", "metadata.name"},
             {"expression", "true"},
             {"whenUnsatisfiable", "ScheduleAnyway"},
             {"accessModes", "ReadWriteOnce"},
             {"finalizers", "example.com/n%"},
             {"cidrs", "10.0.0.0/8"},
             {"verbs", "get"},
             {"operations", "CREATE"}};

static struct str numbered(struct arena *arena, const char *text, size_t index)
{
    const char *at = strchr(text, '%');

    return at ? str_printf(arena, "%.*s%zu%s", (int)(at - text), text, index, at + 1)
              : str_from(text);
}

static struct json *sample_text(struct arena *arena, const struct field *field, size_t index)
{
    if (json_count(field->allowed))
        return json_clone(arena, json_index(field->allowed, 0));
    if (field->time)
        return json_new_str(arena, STR("2026-01-01T00:00:00Z"));
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (str_is(field->name, words[i].name))
            return json_new_str(arena, numbered(arena, words[i].text, index));
    return json_new_str(arena, numbered(arena, "n%", index));
}

static struct json *sample_object(struct arena *arena,
                                  struct node node,
                                  size_t index,
                                  bool full,
                                  int depth);

static bool is_port(struct str name)
{
    return str_ends(name, STR("ort"));
}

/* One item, one value, or the field itself where it is neither list nor map. */
// NOLINTNEXTLINE(misc-no-recursion)
static struct json *sample_one(struct arena *arena,
                               const struct field *field,
                               size_t index,
                               bool full,
                               int depth)
{
    if (str_is(field->name, "template") && field->what != IS_TEXT)
        return parsed(arena, TEMPLATE);
    if (str_is(field->name, "jobTemplate"))
        return parsed(arena, "{'spec':{'template':" ENDS "}}");
    switch (field->what) {
    case IS_TEXT: return sample_text(arena, field, index);
    case IS_QUANTITY: return json_new_str(arena, STR("1"));
    case IS_NUMBER:
        return json_new_i64(arena, is_port(field->name) ? 1 + (int64_t)index % 65000 : 1);
    case IS_TRUTH: return json_new_bool(arena, true);
    case IS_ANY: return json_new_object(arena);
    case IS_OBJECT: break;
    }
    return sample_object(arena, field->inside, index, full, depth + 1);
}

static struct str key_of(struct arena *arena, const struct field *field, size_t index)
{
    return numbered(arena, field->what == IS_QUANTITY ? "example.com/k%" : "k%", index);
}

// NOLINTNEXTLINE(misc-no-recursion)
static struct json *sample(struct arena *arena,
                           const struct field *field,
                           size_t index,
                           bool full,
                           int depth)
{
    struct json *one = sample_one(arena, field, index, full, depth);
    struct json *many = NULL;

    if (field->list)
        json_push(many = json_new_array(arena), one);
    else if (field->map)
        json_set(many = json_new_object(arena), key_of(arena, field, index), one);
    return many ? many : one;
}

static bool is_identity(const struct field *field)
{
    static const char *const names[] = {"name", "key", "containerPort", "port", "mountPath"};

    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (str_is(field->name, names[i]) && field->what != IS_OBJECT && !field->list)
            return true;
    return false;
}

/* Of subgroups of a gang: those that no other is below must have it, and only they. */
static bool is_of_leaves(const struct field *field)
{
    return str_is(field->name, "minMember");
}

/* With what it must have, and what tells it from others; `full`: with all of its texts, which are the
 * names of the one before. */
// NOLINTNEXTLINE(misc-no-recursion)
static struct json *sample_object(struct arena *arena,
                                  struct node node,
                                  size_t index,
                                  bool full,
                                  int depth)
{
    struct json *object = json_new_object(arena);
    struct fields fields = fields_of(arena, node);

    for (size_t i = 0; depth < SAMPLE_DEPTH_MAX && i < fields.count; i++) {
        const struct field *field = &fields.items[i];
        bool text = field->what == IS_TEXT && !field->list && !field->map;

        if (field->required || is_identity(field) || (!full && is_of_leaves(field)))
            json_set(object, field->name, sample(arena, field, index, full, depth));
        else if (full && text && index)
            json_set(object, field->name, sample_text(arena, field, index - 1));
    }
    return object;
}

static struct node root_of(const struct kinds *kinds, const struct kind *kind)
{
    char version[KIND_API_VERSION_BYTES];
    const struct kind_crd *crd = kinds_crd(kinds, kind);

    if (kind->custom)
        return (struct node){.schema = crd ? crd->schema : NULL};
    return (struct node){.type =
                             type_of_kind(kind_api_version(kind, version), str_from(kind->name))};
}

static const struct kinds *all_kinds;

struct json *shape_base(struct arena *arena, const struct kind *kind)
{
    char version[KIND_API_VERSION_BYTES];
    struct json *root = NULL;

    for (size_t i = 0; i < COUNT_OF(bases) && !root; i++)
        if (bases[i].kind == kind)
            root = parsed(arena, bases[i].body);
    if (!root)
        root = sample_object(arena, root_of(all_kinds, kind), 0, false, 0);
    json_add_str(arena, root, "apiVersion", str_dup(arena, kind_api_version(kind, version)));
    json_add_c(arena, root, "kind", kind->name);
    struct json *meta = json_make_path(arena, root, "metadata");
    if (!json_str(json_get(meta, "name")).len)
        json_add_c(arena, meta, "name", "x");
    return root;
}

/* ---- all of them ---- */

struct walk {
    struct shapes *shapes;
    const struct kind *kind;
    VEC(const struct type *) types;
    VEC(uint64_t) schemas;
};

// NOLINTNEXTLINE(misc-no-recursion)
static uint64_t schema_hash(const struct schema *schema, int depth)
{
    uint64_t hash = (uint64_t)schema->type;

    for (size_t i = 0; depth < 3 && i < schema->property_count; i++)
        hash = hash * 31 + str_hash(schema->properties[i].name, 1) +
               schema_hash(schema->properties[i].schema, depth + 1);
    if (depth < 3 && schema->items)
        hash = hash * 37 + schema_hash(schema->items, depth + 1);
    return hash;
}

/* Pods have more or fewer fields in one CRD than in another, by the Kubernetes that it was made with. */
static bool is_pods(const struct schema *schema)
{
    size_t found = 0;

    for (size_t i = 0; i < schema->property_count; i++)
        found += str_is(schema->properties[i].name, "containers") ||
                 str_is(schema->properties[i].name, "nodeSelector");
    return found == 2;
}

/* Whether the message was met before. */
static bool is_known(struct walk *walk, struct node node)
{
    uint64_t hash = !node.schema           ? 0
                    : is_pods(node.schema) ? PODS_HASH
                                           : schema_hash(node.schema, 0);

    for (size_t i = 0; node.type && i < walk->types.count; i++)
        if (walk->types.items[i] == node.type)
            return true;
    for (size_t i = 0; node.schema && i < walk->schemas.count; i++)
        if (walk->schemas.items[i] == hash)
            return true;
    if (node.type)
        VEC_PUSH(walk->shapes->arena, &walk->types, node.type);
    else
        VEC_PUSH(walk->shapes->arena, &walk->schemas, hash);
    return false;
}

static struct str path_of(struct arena *arena, const struct place *place)
{
    return place->up ? str_printf(arena, STR_FMT ".%s", STR_ARG(path_of(arena, place->up)),
                                  str_c(arena, place->field.name))
                     : place->field.name;
}

static void add(struct walk *walk, const struct place *place, enum shape_form form)
{
    struct str path = path_of(walk->shapes->arena, place);

    VEC_PUSH(walk->shapes->arena, &walk->shapes->list,
             (struct shape){.kind = walk->kind,
                            .form = form,
                            .status = walk->kind->status && str_starts(path, STR("status.")),
                            .path = path,
                            .place = place});
}

/* Its items have texts that a list of what they must have does not have. */
static bool has_texts(struct arena *arena, const struct field *field)
{
    return !json_equal(sample_one(arena, field, 1, false, 0), sample_one(arena, field, 1, true, 0));
}

// NOLINTNEXTLINE(misc-no-recursion)
static void walk_node(struct walk *walk, struct node node, const struct place *up, int depth)
{
    struct arena *arena = walk->shapes->arena;
    struct fields fields = fields_of(arena, node);

    if (depth == SHAPE_DEPTH_MAX || is_known(walk, node))
        return;
    for (size_t i = 0; i < fields.count; i++) {
        const struct field *field = &fields.items[i];
        struct place *place = ARENA_NEW(arena, struct place);

        *place = (struct place){.up = up, .field = *field};
        if (!up && (str_is(field->name, "apiVersion") || str_is(field->name, "kind")))
            continue;
        if (field->list)
            add(walk, place, SHAPE_LIST);
        if (field->list && field->what == IS_OBJECT && has_texts(arena, field))
            add(walk, place, SHAPE_CHAIN);
        if (field->map || (field->what == IS_ANY && !field->list))
            add(walk, place, SHAPE_MAP);
        if ((field->what == IS_TEXT || field->what == IS_QUANTITY) && !field->list && !field->map)
            add(walk, place, SHAPE_TEXT);
        if (field->what == IS_OBJECT)
            walk_node(walk, field->inside, place, depth + 1);
    }
}

void shapes_make(struct shapes *shapes)
{
    struct walk walk = {.shapes = shapes};

    all_kinds = shapes->kinds;
    /* What all objects have is met in one that nothing happens to. */
    for (size_t i = 0; i <= kinds_count(shapes->kinds); i++) {
        const struct kind *kind = i ? kinds_at(shapes->kinds, i - 1) : &kind_configmap;
        struct node root = root_of(shapes->kinds, kind);

        walk.kind = kind;
        if (i && kind == &kind_configmap)
            continue;
        if (root.type || root.schema)
            walk_node(&walk, root, NULL, 0);
        VEC_PUSH(shapes->arena, &shapes->list,
                 (struct shape){.kind = kind, .form = SHAPE_WHOLE, .path = STR("*")});
    }
}

/* ---- bodies ---- */

/* The object that the field is in, made where it is missing. */
// NOLINTNEXTLINE(misc-no-recursion)
static struct json *holder(struct arena *arena, struct json *root, const struct place *place)
{
    if (!place->up)
        return root;
    const struct field *field = &place->up->field;
    struct json *above = holder(arena, root, place->up);
    struct json *value = json_get_str(above, field->name);

    if (json_is_null(value) || ((field->list || field->map) && !json_count(value)))
        value = json_set(above, field->name, sample(arena, field, 0, false, 0));
    return field->list || field->map ? json_first(value) : value;
}

static size_t bytes_of(const struct json *value)
{
    _cleanup_(buf_done) struct buf text = {0};

    json_write(&text, value);
    return text.len + 1;
}

static struct json *long_text(struct arena *arena, const struct field *field, size_t bytes)
{
    static const struct {
        const char *name;
        const char *before;
        const char *again;
        const char *after;
    } rows[] = {{"expression", "1", "+1", ">0"},      {"messageExpression", "'a'", "+'a'", ""},
                {"schedule", "1", ",1", " * * * *"},  {"pattern", "", "(a|b)*", ""},
                {"labelSelector", "a=b", ",a=b", ""}, {"", "", "a", ""}};
    _cleanup_(buf_done) struct buf text = {0};
    size_t row = 0;

    while (rows[row].name[0] && !str_is(field->name, rows[row].name))
        row++;
    buf_add(&text, str_from(rows[row].before));
    while (text.len < bytes)
        buf_add(&text, str_from(field->what == IS_QUANTITY ? "1" : rows[row].again));
    buf_add(&text, str_from(rows[row].after));
    return json_new_str(arena, str_dup(arena, buf_str(&text)));
}

/* What the last one of a chain has. */
static void end_chain(struct arena *arena, struct node node, struct json *item)
{
    struct fields fields = fields_of(arena, node);

    for (size_t i = 0; json_is(item, JSON_OBJECT) && i < fields.count; i++)
        if (is_of_leaves(&fields.items[i]))
            json_set(item, fields.items[i].name, json_new_i64(arena, 1));
}

static struct json *large(struct arena *arena,
                          const struct field *field,
                          enum shape_form form,
                          size_t bytes)
{
    bool full = form == SHAPE_CHAIN;

    if (form == SHAPE_TEXT)
        return long_text(arena, field, bytes);
    struct json *many = form == SHAPE_MAP ? json_new_object(arena) : json_new_array(arena);
    for (size_t i = 0, used = 0; used < bytes; i++) {
        struct json *one = field->what == IS_ANY ? json_new_str(arena, STR("v"))
                                                 : sample_one(arena, field, i, full, 0);

        if (form == SHAPE_MAP)
            json_append(many, key_of(arena, field, i), one);
        else
            json_push(many, one);
        used += bytes_of(one) + (form == SHAPE_MAP ? key_of(arena, field, i).len + 4 : 0);
        if (full && used >= bytes)
            end_chain(arena, field->inside, one);
    }
    return many;
}

/* Pods with many volumes, mounts of them, variables that name others, ports and tolerations. */
static void large_pod(struct arena *arena, struct json *spec, size_t bytes)
{
    struct json *container = json_first(json_get(spec, "containers"));
    struct json *volumes = json_add_array(arena, spec, "volumes");
    struct json *mounts = json_add_array(arena, container, "volumeMounts");
    struct json *env = json_add_array(arena, container, "env");
    struct json *ports = json_add_array(arena, container, "ports");
    struct json *tolerations = json_add_array(arena, spec, "tolerations");

    for (size_t i = 0; i < bytes / 210; i++) { /* so long are these, together */
        static const char *const items[] = {
            "{'name':'v%','configMap':{'name':'c','optional':true}}",
            "{'name':'v%','mountPath':'/m%'}", "{'name':'E%','value':'$(E0)'}",
            "{'containerPort':%}", "{'key':'t%','operator':'Exists'}"};
        struct json *const lists[] = {volumes, mounts, env, ports, tolerations};

        for (size_t k = 0; k < COUNT_OF(items); k++) {
            struct str text = numbered(arena, items[k], i + 1);

            text = numbered(arena, str_c(arena, text), i + 1);
            json_push(lists[k], parsed(arena, str_c(arena, text)));
        }
    }
}

#define LABELS_MAX      900   /* an object has 1,000 at most */
#define ANNOTATIONS_MAX 15000 /* and a map 20,000 members */

/* Labels or annotations, as many as have so many bytes. */
static void large_names(struct arena *arena, struct json *object, const char *path, size_t bytes)
{
    struct json *names = json_make_path(arena, object, path);
    size_t most = str_ends(str_from(path), STR("labels")) ? LABELS_MAX : ANNOTATIONS_MAX;

    for (size_t i = 0; i < bytes / 14 && i < most; i++)
        json_append(names, numbered(arena, "k%", i), json_new_str(arena, STR("v")));
}

// NOLINTNEXTLINE(misc-no-recursion)
static bool large_pods(struct arena *arena, struct json *value, size_t bytes)
{
    bool any = false;

    if (json_is(json_at(value, "spec.containers"), JSON_ARRAY))
        large_names(arena, value, "metadata.labels", bytes / 4);
    if (json_is(json_get(value, "containers"), JSON_ARRAY)) {
        large_pod(arena, value, bytes);
        return true;
    }
    JSON_FOREACH(value, inside)
        any |= large_pods(arena, inside, bytes);
    return any;
}

struct parts {
    struct json *holder[PARTS_MAX];
    struct field field[PARTS_MAX];
    size_t count;
};

// NOLINTNEXTLINE(misc-no-recursion)
static void find_parts(struct arena *arena,
                       struct node node,
                       struct json *object,
                       int depth,
                       struct parts *ret)
{
    struct fields fields = fields_of(arena, node);

    for (size_t i = 0; depth < 4 && i < fields.count; i++) {
        const struct field *field = &fields.items[i];

        if (str_is(field->name, "metadata") || str_is(field->name, "status"))
            continue;
        if ((field->list || field->map) && ret->count < PARTS_MAX) {
            ret->holder[ret->count] = object;
            ret->field[ret->count++] = *field;
        } else if (field->what == IS_OBJECT && json_get_str(object, field->name)) {
            find_parts(arena, field->inside, json_get_str(object, field->name), depth + 1, ret);
        }
    }
}

static void large_whole(struct arena *arena,
                        const struct kind *kind,
                        struct json *root,
                        size_t bytes)
{
    struct parts parts = {0};

    if (large_pods(arena, root, bytes / 2)) {
        large_names(arena, root, "metadata.annotations", bytes / 6);
        if (!json_at(root, "spec.containers"))
            large_names(arena, root, "metadata.labels", bytes / 6);
        return;
    }
    find_parts(arena, root_of(all_kinds, kind), root, 0, &parts);
    for (size_t i = 0; i < parts.count; i++)
        json_set(parts.holder[i], parts.field[i].name,
                 large(arena, &parts.field[i], parts.field[i].list ? SHAPE_CHAIN : SHAPE_MAP,
                       bytes / (parts.count + 1)));
    large_names(arena, root, "metadata.annotations", bytes / (parts.count + 1) / 2);
    large_names(arena, root, "metadata.labels", bytes / (parts.count + 1) / 2);
}

struct str shape_body(struct arena *arena, const struct shape *shape, size_t bytes)
{
    struct json *root = shape_base(arena, shape->kind);

    if (shape->form == SHAPE_WHOLE) {
        large_whole(arena, shape->kind, root, bytes);
    } else {
        const struct place *place = shape->place;

        json_set(holder(arena, root, place), place->field.name,
                 large(arena, &place->field, shape->form, bytes));
    }
    return json_text(arena, root);
}

void shape_name(const struct shape *shape, char *ret, size_t bytes)
{
    static const char *const forms[] = {"text", "list", "chain", "map", "whole"};

    (void)snprintf(ret, bytes, "%s/%s:" STR_FMT ":%s", shape->kind->group, shape->kind->plural,
                   STR_ARG(shape->path), forms[shape->form]);
}
