#include "api/admit.h"
#include "api/kind.h"
#include "api/schema.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

TEST(types_have_keys_that_their_items_have_and_defaults_that_fit)
{
    for (size_t i = 0; i < type_count; i++) {
        const struct type *type = &types[i];
        _cleanup_(arena_done) struct arena arena = {0};
        const struct schema *schema = type_schema(&arena, type);
        struct json *object = json_new_object(&arena);
        struct admit admit = {.arena = &arena, .kind = &kind_pod, .object = object};

        test_case(type->name);
        EXPECT(schema_default(&arena, schema, object, NULL) == 0);
        schema_validate(&admit, schema, object);
        EXPECT(admit.causes.count == 0);
        for (size_t j = 0; j < type->field_count; j++) {
            const struct type_field *field = &type->fields[j];
            bool merged = field->flags & (TYPE_MERGE | TYPE_APPLY);

            EXPECT(!merged || (field->flags & TYPE_LIST));
            EXPECT(!field->keys || (merged && field->form == TYPE_MESSAGE));
            if (field->when) {
                struct str rest = str_from(field->when + (field->when[0] == '!'));
                struct str name;

                EXPECT(str_cut(&rest, ':', &name) && rest.len);
                const struct type_field *other = type_field_named(type, name);
                EXPECT(other && other->form == TYPE_STRING && other->number < field->number);
            }
            for (size_t k = 0; type_field_key(field, k).len; k++)
                EXPECT(type_field_named(field->type, type_field_key(field, k)) != NULL);
        }
    }
}

TEST(types_say_what_each_kind_and_each_field_is)
{
    for (size_t i = 0; i < type_count; i++) {
        const struct type *type = &types[i];
        bool list = str_ends(str_from(type->name), STR("List"));

        test_case(type->name);
        EXPECT(!type->kind || list || type->about[0]);
        for (size_t j = 0; j < type->field_count; j++) {
            test_case(type->fields[j].name);
            /* JSON has the fields of an inline message, not the message. */
            EXPECT(type->fields[j].about[0] || (type->fields[j].flags & TYPE_INLINE));
        }
    }
}

TEST(types_prune_fill_in_and_refuse_as_they_say)
{
    static const struct {
        const struct kind *kind;
        const char *given;
        const char *stored; /* NULL: refused */
        const char *why;
    } rows[] = {
        {&kind_pod,
         "{\"status\":{\"phase\":\"Running\",\"feeling\":\"well\"},\"spec\":{\"os\":null}}",
         "{\"status\":{\"phase\":\"Running\"},\"spec\":{\"restartPolicy\":\"Always\","
         "\"terminationGracePeriodSeconds\":30,\"dnsPolicy\":\"ClusterFirst\",\"securityContext\":{"
         "},"
         "\"schedulerName\":\"default-scheduler\",\"enableServiceLinks\":true}}",
         "a field that a status does not have"},
        {&kind_pod, "{\"spec\":{\"priority\":4294967296}}", NULL, "a number beyond 32 bits"},
        {&kind_role, "{\"rules\":[{\"verbs\":[\"get\"],\"verb\":\"get\"}]}",
         "{\"rules\":[{\"verbs\":[\"get\"]}]}", "a kind that had no shape before"},
        {&kind_role, "{\"rules\":[{\"verbs\":\"get\"}]}", NULL, "a text for a list"},
        {&kind_storageclass, "{\"provisioner\":\"p\"}",
         "{\"provisioner\":\"p\",\"reclaimPolicy\":\"Delete\",\"volumeBindingMode\":\"Immediate\"}",
         "defaults of a kind"},
        {&kind_crd,
         "{\"spec\":{\"versions\":[{\"schema\":{\"openAPIV3Schema\":{\"properties\":{\"a\":{"
         "\"items\":{\"x\":1},\"default\":{\"y\":null},\"enum\":[null,1],\"no\":1}}}}}]}}",
         "{\"spec\":{\"versions\":[{\"schema\":{\"openAPIV3Schema\":{\"properties\":{\"a\":{"
         "\"items\":{\"x\":1},\"default\":{\"y\":null},\"enum\":[null,1]}}}}}],"
         "\"conversion\":{\"strategy\":\"None\"}}}",
         "a type that holds itself, and values that are anything"},
        {&kind_daemonset, "{\"spec\":{\"updateStrategy\":{\"type\":\"RollingUpdate\"}}}",
         "{\"spec\":{\"updateStrategy\":{\"type\":\"RollingUpdate\",\"rollingUpdate\":{"
         "\"maxUnavailable\":1,\"maxSurge\":0}},\"revisionHistoryLimit\":10}}",
         "a default that holds for one word of another field"},
        {&kind_daemonset, "{\"spec\":{\"updateStrategy\":{\"type\":\"OnDelete\"}}}",
         "{\"spec\":{\"updateStrategy\":{\"type\":\"OnDelete\"},\"revisionHistoryLimit\":10}}",
         "and not for the others"},
        {&kind_rolebinding,
         "{\"subjects\":[{\"kind\":\"User\"},{\"kind\":\"Group\"},{\"kind\":\"ServiceAccount\"}]}",
         "{\"subjects\":[{\"kind\":\"User\",\"apiGroup\":\"rbac.authorization.k8s.io\"},"
         "{\"kind\":\"Group\",\"apiGroup\":\"rbac.authorization.k8s.io\"},"
         "{\"kind\":\"ServiceAccount\"}]}",
         "for one of two words"},
        {&kind_service, "{\"spec\":{\"type\":\"ExternalName\"}}",
         "{\"spec\":{\"type\":\"ExternalName\",\"sessionAffinity\":\"None\"}}",
         "unless it is this word"},
        {&kind_job, "{\"spec\":{\"suspend\":true}}",
         "{\"spec\":{\"suspend\":true,\"manualSelector\":false,"
         "\"completionMode\":\"NonIndexed\"}}",
         "defaults of the object itself"},
        {&kind_cronjob,
         "{\"spec\":{\"suspend\":true,\"jobTemplate\":{\"spec\":{\"template\":{}}}}}",
         "{\"spec\":{\"suspend\":true,\"jobTemplate\":{\"spec\":{\"template\":{}}},"
         "\"concurrencyPolicy\":\"Allow\",\"successfulJobsHistoryLimit\":3,"
         "\"failedJobsHistoryLimit\":1}}",
         "which a template of it does not have"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct schema *schema = type_schema(&arena, type_place_root(rows[i].kind).type);
        struct schema_unknown unknown = {0};
        struct json *object = NULL;

        test_case(rows[i].why);
        EXPECT(json_parse(&arena, str_from(rows[i].given), &object, NULL) == 0);
        struct admit admit = {.arena = &arena, .kind = rows[i].kind, .object = object};
        schema_prune(&arena, schema, object, &unknown);
        EXPECT(schema_default(&arena, schema, object, NULL) == 0);
        schema_validate(&admit, schema, object);
        EXPECT((admit.causes.count == 0) == (rows[i].stored != NULL));
        EXPECT(!rows[i].stored || str_is(json_text(&arena, object), rows[i].stored));
    }
}
