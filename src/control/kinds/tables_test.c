#include "api/crd.h"
#include "api/crd_builtin.h"
#include "api/decode.h"
#include "api/kind.h"
#include "api/quantity.h"
#include "api/schema.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "control/kinds/jobset.h"
#include "control/kinds/kubeflow.h"
#include "control/kinds/pytorch_job.h"
#include "control/kinds/tensorstack_job.h"
#include "control/kinds/torchrun_spec.h"
#include "control/kinds/trainjob.h"
#include "sched/decode.h"
#include "test.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Every schema of deploy/crds against the decode tables (api/decode.h) of the code that reads it.
 *
 * What a table names is in the schema, with a type, words, range and default that agree: nothing is
 * admitted that cannot be read, nothing is read that is pruned. What a schema has is read by a
 * table, or is said to be read by hand or only carried, and why. */

/* ---- the kinds ---- */
static const struct decode_note kubeflow_by_hand[] = {
    {"spec.runPolicy.schedulingPolicy.minAvailable", "grouping_kubeflow.c: the gang's minimum"},
    {"status", "job_status.c, kubeflow_status.c: what they wrote themselves"},
    {NULL, NULL},
};
static const struct decode_note kubeflow_carried[] = {
    {"spec.runPolicy.schedulingPolicy.minResources", "the pods say what they need"},
    {"spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds", "a gang waits as long as it must"},
    {NULL, NULL},
};
static const struct decode_kind pytorchjob_decode_kind = {
    .crd = "pytorchjobs.kubeflow.org",
    .uses = {{&kubeflow_policy_table, "spec"},
             {&kubeflow_replicas_table, "spec.pytorchReplicaSpecs.*"},
             {&pytorch_spec_table, "spec"},
             {&pytorch_elastic_table, "spec.elasticPolicy"}},
    .by_hand = kubeflow_by_hand,
    .carried = kubeflow_carried};

static const struct decode_kind tfjob_decode_kind = {
    .crd = "tfjobs.kubeflow.org",
    .uses = {{&kubeflow_policy_table, "spec"},
             {&kubeflow_replicas_table, "spec.tfReplicaSpecs.*"},
             {&tf_spec_table, "spec"}},
    .by_hand = kubeflow_by_hand,
    .carried = kubeflow_carried};
static const struct decode_note mpijob_carried[] = {
    {"spec.runPolicy.schedulingPolicy.minResources", "the pods say what they need"},
    {"spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds", "a gang waits as long as it must"},
    {"spec.sshAuthMountPath", "ranks are started through the API, not by ssh"},
    {NULL, NULL},
};
static const struct decode_kind mpijob_decode_kind = {
    .crd = "mpijobs.kubeflow.org",
    .uses = {{&kubeflow_policy_table, "spec"},
             {&kubeflow_replicas_table, "spec.mpiReplicaSpecs.*"},
             {&mpi_spec_table, "spec"}},
    .by_hand = kubeflow_by_hand,
    .carried = mpijob_carried};
static const struct decode_kind xgboostjob_decode_kind = {
    .crd = "xgboostjobs.kubeflow.org",
    .uses = {{&kubeflow_policy_table, "spec"},
             {&kubeflow_replicas_table, "spec.xgbReplicaSpecs.*"}},
    .by_hand = kubeflow_by_hand,
    .carried = kubeflow_carried};
static const struct decode_kind jaxjob_decode_kind = {
    .crd = "jaxjobs.kubeflow.org",
    .uses = {{&kubeflow_policy_table, "spec"},
             {&kubeflow_replicas_table, "spec.jaxReplicaSpecs.*"}},
    .by_hand = kubeflow_by_hand,
    .carried = kubeflow_carried};
static const struct decode_kind paddlejob_decode_kind = {
    .crd = "paddlejobs.kubeflow.org",
    .uses = {{&kubeflow_policy_table, "spec"},
             {&kubeflow_replicas_table, "spec.paddleReplicaSpecs.*"},
             {&paddle_spec_table, "spec"}},
    .by_hand = kubeflow_by_hand,
    .carried = kubeflow_carried};

static const struct decode_note jobset_by_hand[] = {
    {"status", "jobset.c, jobset_policy.c: what they wrote themselves"},
    {NULL, NULL},
};
static const struct decode_kind jobset_decode_kind = {.crd = "jobsets.jobset.x-k8s.io",
                                                      .uses = {{&jobset_spec_table, "spec"}},
                                                      .by_hand = jobset_by_hand};

static const struct decode_note trainjob_by_hand[] = {
    {"status", "trainjob.c: what it wrote itself; trainerStatus is the training's"},
    {NULL, NULL},
};
static const struct decode_kind trainjob_decode_kind = {.crd = "trainjobs.trainer.kubeflow.org",
                                                        .uses = {{&trainjob_spec_table, "spec"}},
                                                        .by_hand = trainjob_by_hand};
static const struct decode_note runtime_carried[] = {
    {"spec.podGroupPolicy", "for other schedulers; pod groups are the pod grouper's"},
    {"spec.mlPolicy.torch.elasticPolicy.metrics", "nothing scales a TrainJob while it runs"},
    {NULL, NULL},
};
static const struct decode_kind runtime_decode_kind = {
    .crd = "trainingruntimes.trainer.kubeflow.org",
    .uses = {{&trainjob_policy_table, "spec"}, {&trainjob_runtime_table, "spec"}},
    .carried = runtime_carried};
static const struct decode_kind cluster_runtime_decode_kind = {
    .crd = "clustertrainingruntimes.trainer.kubeflow.org",
    .uses = {{&trainjob_policy_table, "spec"}, {&trainjob_runtime_table, "spec"}},
    .carried = runtime_carried};

static const struct decode_note tensorstack_by_hand[] = {
    {"status", "tensorstack_status.c: what it wrote itself"},
    {NULL, NULL},
};
static const struct decode_kind tensorstack_decode_kind = {
    .crd = "pytorchtrainingjobs.batch.tensorstack.dev",
    .uses = {{&tensorstack_spec_table, "spec"}},
    .by_hand = tensorstack_by_hand};
static const struct decode_note tensorboard_by_hand[] = {
    {"spec.trainingLogFilesets", "tensorboard.c"},
    {"spec.logDir", "tensorboard.c"},
    {"spec.image", "tensorboard.c"},
    {"spec.suspend", "tensorboard.c"},
    {"spec.resources", "tensorboard.c"},
    {"status", "tensorboard.c, tensorstack_status.c"},
    {NULL, NULL},
};
static const struct decode_note tensorboard_carried[] = {
    {"spec.scheduler", "a TensorBoard waits in the default queue"},
    {NULL, NULL},
};
static const struct decode_kind tensorboard_decode_kind = {.crd = "tensorboards.tensorstack.dev",
                                                           .by_hand = tensorboard_by_hand,
                                                           .carried = tensorboard_carried};

/* Kinds that nothing here reads, each with what it is there for. */
static const struct decode_note bindrequest_carried[] = {
    {"spec", "KAI's scheduler tells its binder so; Muster binds pods itself and makes none"},
    {"status", "KAI's binder answers so"},
    {NULL, NULL},
};
static const struct decode_kind bindrequest_decode_kind = {.crd = "bindrequests.scheduling.run.ai",
                                                           .carried = bindrequest_carried};
static const struct decode_note installation_carried[] = {
    {"spec", "so that KAI's manifests apply; the command line configures this program"},
    {"status", "so that KAI's manifests apply"},
    {NULL, NULL},
};
static const struct decode_kind config_decode_kind = {.crd = "configs.kai.scheduler",
                                                      .carried = installation_carried};
static const struct decode_kind shard_decode_kind = {.crd = "schedulingshards.kai.scheduler",
                                                     .carried = installation_carried};

static const struct decode_note karta_by_hand[] = {
    {"spec.structureDefinition", "api/karta.c"},
    {"spec.optimizationInstructions", "api/karta.c, control/grouping/grouping_karta.c"},
    {NULL, NULL},
};
static const struct decode_note karta_carried[] = {
    {"status", "of whoever else reads Kartas"},
    {NULL, NULL},
};
static const struct decode_kind karta_decode_kind = {.crd = "kartas.run.ai",
                                                     .by_hand = karta_by_hand,
                                                     .carried = karta_carried};

/* One line a kind of deploy/crds. */
static const struct decode_kind *const decode_kinds[] = {
    &tensorstack_decode_kind, &tensorboard_decode_kind,     &trainjob_decode_kind,
    &runtime_decode_kind,     &cluster_runtime_decode_kind, &tfjob_decode_kind,
    &mpijob_decode_kind,      &xgboostjob_decode_kind,      &jaxjob_decode_kind,
    &paddlejob_decode_kind,   &jobset_decode_kind,          &pytorchjob_decode_kind,
    &bindrequest_decode_kind, &config_decode_kind,          &podgroup_decode_kind,
    &queue_decode_kind,       &shard_decode_kind,           &topology_decode_kind,
    &torchrunjob_decode_kind, &torchrunqueue_decode_kind,   &numa_decode_kind,
    &karta_decode_kind,
};

/* ---- the check ---- */
struct problems VEC_FIELDS(struct str);

struct check {
    struct arena *arena;
    struct problems *problems;
    VEC(const struct schema *) read; /* nodes whose value, whole, is decoded */
};

static void say(struct check *check, struct str path, const char *what)
{
    VEC_PUSH(check->arena, check->problems,
             str_printf(check->arena, STR_FMT ": %s", STR_ARG(path), what));
}

static struct str below(struct check *check, struct str path, const char *name)
{
    return path.len ? str_printf(check->arena, STR_FMT ".%s", STR_ARG(path), name) : str_from(name);
}

static bool is_read(const struct check *check, const struct schema *schema)
{
    for (size_t i = 0; i < check->read.count; i++)
        if (check->read.items[i] == schema)
            return true;
    return false;
}

/* The schema at a path, NULL when there is none; a schema that keeps whatever it is given stands
 * for everything below it. */
static const struct schema *find(const struct schema *schema, const char *path)
{
    struct str rest = str_from(path);
    struct str name = STR_NONE;

    while (schema && str_cut(&rest, '.', &name)) {
        bool each = str_ends(name, STR("[]")); /* of a list */
        const struct schema *next =
            schema_property(schema, each ? str_sub(name, 0, name.len - 2) : name);

        if (!next && schema->preserve_unknown)
            return schema;
        schema = next && each ? next->items : next;
    }
    return schema;
}

static bool is_open(const struct schema *schema)
{
    return schema->preserve_unknown && !schema->property_count;
}

static const char *type_problem(const struct decode_field *field, const struct schema *schema)
{
    const struct schema *each = schema->items ? schema->items : schema->additional;
    bool scalar = schema->int_or_string || schema->type == SCHEMA_STRING ||
                  schema->type == SCHEMA_INTEGER || schema->type == SCHEMA_NUMBER;

    switch (field->type) {
    case DECODE_STR:
    case DECODE_DURATION:
    case DECODE_ENUM: return schema->type == SCHEMA_STRING ? NULL : "the schema has no string here";
    case DECODE_TIME:
        return schema->type == SCHEMA_STRING && str_is(schema->format, "date-time")
                   ? NULL
                   : "the schema has no date-time here";
    case DECODE_BOOL: return schema->type == SCHEMA_BOOLEAN ? NULL : "the schema has no boolean";
    case DECODE_I64: return schema->type == SCHEMA_INTEGER ? NULL : "the schema has no integer";
    case DECODE_NUMBER:
    case DECODE_QUANTITY:
    case DECODE_MILLI:
    case DECODE_WHOLE: return scalar ? NULL : "the schema has nothing that can be a quantity";
    case DECODE_JSON: return NULL;
    case DECODE_OBJECT: return schema->type == SCHEMA_OBJECT ? NULL : "the schema has no object";
    case DECODE_STRS:
        return schema->type == SCHEMA_ARRAY && each && each->type == SCHEMA_STRING
                   ? NULL
                   : "the schema has no list of strings";
    case DECODE_MAP:
        return schema->type == SCHEMA_OBJECT && each && each->type == SCHEMA_STRING
                   ? NULL
                   : "the schema has no map of strings";
    case DECODE_LIST:
        return schema->type == SCHEMA_ARRAY && each && each->type == SCHEMA_OBJECT
                   ? NULL
                   : "the schema has no list of objects";
    }
    return "of no known type";
}

static bool has_word(const char *const *words, struct str word)
{
    for (; *words; words++)
        if (str_is(word, *words))
            return true;
    return false;
}

static void check_words(struct check *check,
                        const struct decode_field *field,
                        const struct schema *schema,
                        struct str path)
{
    if (!schema->allowed) {
        say(check, path, "the table has words, the schema no enum");
        return;
    }
    JSON_FOREACH(schema->allowed, word)
        if (json_str(word).len && !has_word(field->words, json_str(word)))
            say(check, path,
                str_printf(check->arena, "the table lacks the word " STR_FMT,
                           STR_ARG(json_str(word)))
                    .p);
    for (const char *const *word = field->words; *word; word++) {
        bool there = !**word;

        JSON_FOREACH(schema->allowed, allowed)
            there = there || str_is(json_str(allowed), *word);
        if (!there)
            say(check, path, str_printf(check->arena, "the schema lacks the word %s", *word).p);
    }
}

/* A table may take more than the schema admits, never less. */
static void check_range(struct check *check,
                        const struct decode_field *field,
                        const struct schema *schema,
                        struct str path)
{
    int64_t from = INT64_MIN;
    int64_t to = INT64_MAX;

    if (!field->min && !field->max)
        return;
    (void)json_i64(schema->minimum, &from);
    (void)json_i64(schema->maximum, &to);
    if (from < field->min || to > field->max)
        say(check, path,
            str_printf(check->arena, "the schema does not keep it within %" PRId64 "..%" PRId64,
                       field->min, field->max)
                .p);
}

static void check_default(struct check *check,
                          const struct decode_field *field,
                          const struct schema *schema,
                          struct str path)
{
    struct str text = json_text(check->arena, schema->initial);
    struct quantity theirs = {0};
    struct quantity ours = {0};

    if (json_is_null(schema->initial) || field->type >= DECODE_JSON)
        return;
    if (json_is(schema->initial, JSON_STRING))
        text = json_str(schema->initial);
    if (field->absent && str_is(text, field->absent))
        return;
    if (field->absent && !quantity_parse(text, &theirs, NULL) &&
        !quantity_parse(str_from(field->absent), &ours, NULL) && !quantity_cmp(theirs, ours))
        return;
    say(check, path,
        str_printf(check->arena, "the schema's default is " STR_FMT ", the table's %s",
                   STR_ARG(text), field->absent ? field->absent : "nothing")
            .p);
}

static void check_table(struct check *check,
                        const struct decode_table *table,
                        const struct schema *schema,
                        struct str path);

// NOLINTNEXTLINE(misc-no-recursion)
static void check_field(struct check *check,
                        const struct decode_field *field,
                        const struct schema *owner,
                        const char *name,
                        struct str up)
{
    struct str path = below(check, up, name);
    const struct schema *schema = find(owner, name);
    const char *problem = NULL;

    if (!schema) {
        say(check, path, "a table reads it, the schema does not have it");
        return;
    }
    if (is_open(schema)) {
        VEC_PUSH(check->arena, &check->read, schema);
        return;
    }
    problem = type_problem(field, schema);
    if (problem) {
        say(check, path, problem);
        VEC_PUSH(check->arena, &check->read, schema); /* one complaint is enough */
        return;
    }
    if (field->type == DECODE_OBJECT) {
        check_table(check, field->table, schema, path);
        return;
    }
    if (field->type == DECODE_LIST) {
        check_table(check, field->table, schema->items,
                    str_printf(check->arena, STR_FMT "[]", STR_ARG(path)));
        return;
    }
    VEC_PUSH(check->arena, &check->read, schema);
    if (field->type == DECODE_ENUM)
        check_words(check, field, schema, path);
    if (field->type == DECODE_I64)
        check_range(check, field, schema, path);
    check_default(check, field, schema, path);
}

static bool requires(const struct schema *schema, const char *name)
{
    JSON_FOREACH(schema->required, required)
        if (str_is(json_str(required), name))
            return true;
    return false;
}

// NOLINTNEXTLINE(misc-no-recursion)
static void check_table(struct check *check,
                        const struct decode_table *table,
                        const struct schema *schema,
                        struct str path)
{
    if (table->at) {
        path = below(check, path, table->at);
        schema = find(schema, table->at);
    }
    if (!schema) {
        say(check, path, "a table reads it, the schema does not have it");
        return;
    }
    for (size_t i = 0; i < table->count; i++) {
        const struct decode_field *field = &table->fields[i];

        check_field(check, field, schema, field->name, path);
        if (field->alias)
            check_field(check, field, schema, field->alias, path);
        if (field->required && !strchr(field->name, '.') && !requires(schema, field->name))
            say(check, below(check, path, field->name),
                "the table requires it, the schema does not");
    }
}

/* What no table has read, down to the leaves. */
// NOLINTNEXTLINE(misc-no-recursion)
static void check_unread(struct check *check, const struct schema *schema, struct str path)
{
    if (is_read(check, schema))
        return;
    if (schema->type == SCHEMA_ARRAY && schema->items && schema->items->property_count) {
        check_unread(check, schema->items, str_printf(check->arena, STR_FMT "[]", STR_ARG(path)));
        return;
    }
    if (!schema->property_count) {
        say(check, path, "nothing reads it; read it, or say in the kind's `carried` why not");
        return;
    }
    for (size_t i = 0; i < schema->property_count; i++) {
        struct str name = schema->properties[i].name;

        if (!path.len &&
            (str_is(name, "apiVersion") || str_is(name, "kind") || str_is(name, "metadata")))
            continue;
        check_unread(check, schema->properties[i].schema,
                     below(check, path, str_c(check->arena, name)));
    }
}

// NOLINTNEXTLINE(misc-no-recursion)
static bool any_read(const struct check *check, const struct schema *schema)
{
    bool any = is_read(check, schema) || (schema->items && any_read(check, schema->items));

    for (size_t i = 0; i < schema->property_count && !any; i++)
        any = any_read(check, schema->properties[i].schema);
    return any;
}

/* A table at a path; "*" at its end: at everything below. */
static void check_use(struct check *check, const struct decode_use *use, const struct schema *root)
{
    struct str path = str_from(use->at);

    if (!str_ends(path, STR(".*"))) {
        const struct schema *schema = use->at ? find(root, use->at) : root;

        check_table(check, use->table, schema, path);
        return;
    }
    path.len -= 2;
    const struct schema *map = find(root, str_c(check->arena, path));
    if (!map || (!map->property_count && !map->additional)) {
        say(check, path, "a table reads what is below it, the schema has nothing there");
        return;
    }
    if (map->additional) {
        check_table(check, use->table, map->additional, str_from(use->at));
        VEC_PUSH(check->arena, &check->read, map);
    }
    for (size_t i = 0; i < map->property_count; i++)
        check_table(check, use->table, map->properties[i].schema,
                    below(check, path, str_c(check->arena, map->properties[i].name)));
}

static void check_notes(struct check *check,
                        const struct decode_note *notes,
                        const char *what,
                        const struct schema *root)
{
    for (const struct decode_note *note = notes; note && note->path; note++) {
        const struct schema *schema = find(root, note->path);
        struct str path = str_from(note->path);

        if (!schema)
            say(check, path,
                str_printf(check->arena, "is said to be %s, the schema does not have it", what).p);
        else if (any_read(check, schema))
            say(check, path,
                str_printf(check->arena, "is said to be %s, but is read already", what).p);
        else if (strlen(note->text) < 8)
            say(check, path, str_printf(check->arena, "is %s, without a word why", what).p);
        else
            VEC_PUSH(check->arena, &check->read, schema);
    }
}

static void check_kind(struct arena *arena,
                       const struct decode_kind *kind,
                       const struct schema *schema,
                       struct problems *problems)
{
    struct check check = {.arena = arena, .problems = problems};

    for (size_t i = 0; i < DECODE_USES_MAX && kind->uses[i].table; i++)
        check_use(&check, &kind->uses[i], schema);
    check_notes(&check, kind->by_hand, "read by hand", schema);
    check_notes(&check, kind->carried, "carried", schema);
    check_unread(&check, schema, STR_NONE);
}

static const struct decode_kind *kind_of(const char *crd, const char *version)
{
    for (size_t i = 0; i < COUNT_OF(decode_kinds); i++)
        if (strcmp(decode_kinds[i]->crd, crd) == 0 &&
            (!decode_kinds[i]->version || strcmp(decode_kinds[i]->version, version) == 0))
            return decode_kinds[i];
    return NULL;
}

TEST(every_crd_says_what_the_tables_read_and_nothing_else)
{
    _cleanup_(arena_done) struct arena arena = {0};
    size_t checked = 0;

    for (size_t i = 0; i < crd_builtin_count; i++) {
        const struct crd_builtin *builtin = &crd_builtins[i];
        struct json *root = NULL;
        struct crd *crd = NULL;

        test_case(builtin->name);
        EXPECT(json_parse(&arena, (struct str){builtin->text, builtin->text_len}, &root, NULL) ==
               0);
        EXPECT(crd_parse(&arena, root, &crd, NULL) == 0);
        for (size_t j = 0; crd && j < crd->version_count; j++) {
            const char *version = crd->versions[j].kind.version;
            const struct decode_kind *kind = kind_of(builtin->name, version);
            struct problems problems = {0};

            if (!kind)
                (void)fprintf(stderr, "%s %s: add its decode_kind to the list in %s\n",
                              builtin->name, version, __FILE__);
            EXPECT(kind != NULL);
            if (!kind)
                continue;
            check_kind(&arena, kind, crd->versions[j].crd.schema, &problems);
            for (size_t k = 0; k < problems.count; k++)
                (void)fprintf(stderr, "%s %s: " STR_FMT "\n", builtin->name, version,
                              STR_ARG(problems.items[k]));
            EXPECT(problems.count == 0);
            checked++;
        }
    }
    EXPECT(checked >= COUNT_OF(decode_kinds));
}

/* ---- the check, checked ---- */
struct sample_item {
    struct str name;
};
struct sample {
    int64_t count;
    enum {
        SAMPLE_A,
        SAMPLE_B
    } word;
    struct str text;
    const struct sample_item *items;
    size_t item_count;
};
static const char *const sample_words[] = {"A", "B", NULL};
static const struct decode_field sample_item_fields[] = {
    DECODE_FIELD(struct sample_item, name, "name", STR, .required = true),
};
static const struct decode_table sample_item_table =
    DECODE_TABLE(struct sample_item, NULL, sample_item_fields);
static const struct decode_field sample_fields[] = {
    DECODE_FIELD(struct sample, count, "count", I64, .min = 1, .max = 9, .absent = "3"),
    DECODE_FIELD(struct sample, word, "word", ENUM, .words = sample_words),
    DECODE_FIELD(struct sample, text, "text", STR, .alias = "old.text"),
    DECODE_ITEMS(struct sample, items, item_count, "items", LIST, .table = &sample_item_table),
};
static const struct decode_table sample_table = DECODE_TABLE(struct sample, "spec", sample_fields);
static const struct decode_note sample_carried[] = {{"spec.note", "for people"}, {NULL, NULL}};
static const struct decode_kind sample_kind = {.crd = "samples",
                                               .uses = {{&sample_table, NULL}},
                                               .carried = sample_carried};

TEST(the_check_of_schemas_finds_each_difference)
{
    /* Each row changes one thing of a schema that agrees: `from` becomes `to`. */
    static const struct {
        const char *why;
        const char *from;
        const char *to;
        const char *problem;
    } rows[] = {
        {"it agrees", "", "", NULL},
        {"a field is gone", "'text':{'type':'string'},'old'", "'old'",
         "spec.text: a table reads it, the schema does not have it"},
        {"the other spelling is gone",
         "'old':{'type':'object','properties':{'text':{'type':'string'}}},", "",
         "spec.old.text: a table reads it, the schema does not have it"},
        {"another type", "'count':{'type':'integer'", "'count':{'type':'string'",
         "spec.count: the schema has no integer"},
        {"another default", "'default':3", "'default':4",
         "spec.count: the schema's default is 4, the table's 3"},
        {"a wider range", "'maximum':9", "'maximum':10",
         "spec.count: the schema does not keep it within 1..9"},
        {"no range", "'minimum':1,", "", "spec.count: the schema does not keep it within 1..9"},
        {"a word more", "['A','B']", "['A','B','C']", "spec.word: the table lacks the word C"},
        {"a word less", "['A','B']", "['A']", "spec.word: the schema lacks the word B"},
        {"no words", ",'enum':['A','B']", "", "spec.word: the table has words, the schema no enum"},
        {"an unread field", "'text':{'type':'string'},'old'",
         "'text':{'type':'string'},'new':{'type':'string'},'old'",
         "spec.new: nothing reads it; read it, or say in the kind's `carried` why not"},
        {"an unread field in a list", "'name':{'type':'string'}",
         "'name':{'type':'string'},'size':{'type':'integer'}",
         "spec.items[].size: nothing reads it; read it, or say in the kind's `carried` why not"},
        {"no longer required", "'required':['name'],", "",
         "spec.items[].name: the table requires it, the schema does not"},
        {"carried, and gone", ",'note':{'type':'string'}", "",
         "spec.note: is said to be carried, the schema does not have it"},
    };
    static const char agreeing[] =
        "{'type':'object','properties':{'kind':{'type':'string'},'spec':{'type':'object',"
        "'properties':{'count':{'type':'integer','minimum':1,'maximum':9,'default':3},"
        "'word':{'type':'string','enum':['A','B']},"
        "'text':{'type':'string'},'old':{'type':'object','properties':{'text':{'type':'string'}}},"
        "'items':{'type':'array','items':{'type':'object','required':['name'],"
        "'properties':{'name':{'type':'string'}}}},'note':{'type':'string'}}}}}";
    _cleanup_(arena_done) struct arena arena = {0};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *at = strstr(agreeing, rows[i].from);
        struct problems problems = {0};
        const struct schema *schema = NULL;
        struct json *source = NULL;
        char *text = NULL;

        test_case(rows[i].why);
        EXPECT(at != NULL);
        text = str_c(&arena, str_printf(&arena, "%.*s%s%s", (int)(at - agreeing), agreeing,
                                        rows[i].to, at + strlen(rows[i].from)));
        for (char *c = text; *c; c++)
            *c = *c == '\'' ? '"' : *c;
        EXPECT(json_parse(&arena, str_from(text), &source, NULL) == 0);
        EXPECT(schema_compile(&arena, source, &schema, NULL) == 0);
        check_kind(&arena, &sample_kind, schema, &problems);
        for (size_t k = 0; k < problems.count; k++)
            if (!rows[i].problem || !str_is(problems.items[k], rows[i].problem))
                (void)fprintf(stderr, "got: " STR_FMT "\n", STR_ARG(problems.items[k]));
        EXPECT(rows[i].problem ? problems.count == 1 && str_is(problems.items[0], rows[i].problem)
                               : problems.count == 0);
    }
}

static void expect_described(const char *crd,
                             const struct json *schema,
                             struct str path,
                             struct arena *arena)
{
    JSON_FOREACH(json_get(schema, "properties"), field) {
        struct str name =
            str_printf(arena, STR_FMT "." STR_FMT, STR_ARG(path), STR_ARG(json_key(field)));
        bool own =
            path.len || !(str_is(json_key(field), "apiVersion") ||
                          str_is(json_key(field), "kind") || str_is(json_key(field), "metadata"));

        if (own && !json_str(json_get(field, "description")).len)
            (void)fprintf(stderr, "%s: " STR_FMT " has no description\n", crd, STR_ARG(name));
        EXPECT(!own || json_str(json_get(field, "description")).len);
        expect_described(crd, field, name, arena);
    }
    if (json_get(schema, "items"))
        expect_described(crd, json_get(schema, "items"), path, arena);
    if (json_get(schema, "additionalProperties"))
        expect_described(crd, json_get(schema, "additionalProperties"), path, arena);
}

TEST(every_field_of_the_kinds_of_scheduling_says_what_it_means)
{
    size_t seen = 0;

    for (size_t i = 0; i < crd_builtin_count; i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct crd_builtin *builtin = &crd_builtins[i];
        struct str name = str_from(builtin->name);
        struct json *root = NULL;

        if (!str_ends(name, STR("scheduling.run.ai")) && !str_ends(name, STR("kai.scheduler")))
            continue;
        seen++;
        EXPECT(json_parse(&arena, (struct str){builtin->text, builtin->text_len}, &root, NULL) ==
               0);
        JSON_FOREACH(json_at(root, "spec.versions"), version)
            expect_described(builtin->name, json_at(version, "schema.openAPIV3Schema"), STR(""),
                             &arena);
    }
    EXPECT(seen == 6);
}
