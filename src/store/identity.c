#include "store/identity.h"

#include "api/admit.h"
#include "api/kind.h"
#include "api/schema.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "store/host.h"
#include "store/reply.h"
#include "store/shelf.h"
#include "store/state.h"
#include "store/write.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static struct str new_uid(struct write *write)
{
    uint64_t a = store_random(write->store);
    uint64_t b = store_random(write->store);

    return str_printf(
        write->arena, "%08" PRIx64 "-%04" PRIx64 "-4%03" PRIx64 "-%04" PRIx64 "-%012" PRIx64,
        a >> 32, (a >> 16) & 0xffff, a & 0xfff, 0x8000 | (b >> 50), b & 0xffffffffffff);
}

#define GENERATED_NAME_MAX  63
#define GENERATED_SUFFIX    5
#define GENERATED_TRIES_MAX 20

struct str write_suffix(struct write *write)
{
    static const char letters[] = "bcdfghjklmnpqrstvwxz2456789";
    char suffix[GENERATED_SUFFIX];

    for (size_t i = 0; i < GENERATED_SUFFIX; i++)
        suffix[i] = letters[store_random(write->store) % (sizeof(letters) - 1)];
    return str_dup(write->arena, (struct str){suffix, GENERATED_SUFFIX});
}

static struct str generate_name(struct write *write, struct str prefix)
{
    struct str name = STR_NONE;

    for (int i = 0; i < GENERATED_TRIES_MAX; i++) {
        prefix = str_sub(prefix, 0, GENERATED_NAME_MAX - GENERATED_SUFFIX);
        name = str_printf(write->arena, STR_FMT STR_FMT, STR_ARG(prefix),
                          STR_ARG(write_suffix(write)));
        if (!entry_latest(shelf_find(write->shelf, write->ns, name)))
            break;
    }
    return name;
}

/* Kubernetes counts the generations of these only; elsewhere the number would be noise in diffs. */
static bool counts_generations(const struct kind *kind)
{
    return kind->custom || kind == &kind_pod || kind == &kind_job || kind == &kind_pdb ||
           kind == &kind_endpointslice || kind == &kind_priorityclass || kind == &kind_crd ||
           kind == &kind_deployment || kind == &kind_replicaset || kind == &kind_statefulset ||
           kind == &kind_daemonset || kind == &kind_replicationcontroller ||
           kind == &kind_cronjob || kind == &kind_ingress || kind == &kind_ingressclass ||
           kind == &kind_networkpolicy || kind == &kind_flowschema || kind == &kind_prioritylevel ||
           kind == &kind_podtemplate || kind == &kind_admissionpolicy ||
           kind == &kind_admissionbinding || kind == &kind_mutatingwebhooks ||
           kind == &kind_validatingwebhooks || kind == &kind_podgroup_k8s ||
           kind == &kind_workload || kind == &kind_resourceslice || kind == &kind_deviceclass;
}

/* Who deletes an object says when it goes, and no other write. */
static int keep_end(struct write *write, const struct json *given)
{
    static const char *const names[] = {"deletionTimestamp", "deletionGracePeriodSeconds"};
    struct admit admit = {.arena = write->arena, .kind = write->kind};

    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (json_get(given, names[i]))
            admit_invalid(&admit, str_printf(write->arena, "metadata.%s", names[i]),
                          json_get(given, names[i]), "field is immutable");
    return admit.causes.count ? reply_invalid(write->reply, write->kind, write->name, &admit) : 0;
}

int identity_check(struct write *write, const struct json *meta, const struct json *old)
{
    static const char *const names[] = {"namespace",
                                        "uid",
                                        "resourceVersion",
                                        "generation",
                                        "deletionTimestamp",
                                        "selfLink",
                                        "deletionGracePeriodSeconds",
                                        "creationTimestamp",
                                        "managedFields"}; /* which an update has looked at */
    struct admit admit = {.arena = write->arena, .kind = write->kind};
    struct json *given = json_new_object(write->arena);
    const struct schema *shape = write->store->meta_shape;

    for (size_t i = 0; i < COUNT_OF(names) - (old ? 1 : 0); i++) {
        const struct json *value = json_get(meta, names[i]);

        if (!json_is_null(value) && !(old && json_equal(value, json_get(old, names[i]))))
            json_set(given, str_from(names[i]), json_clone(write->arena, value));
    }
    if (!json_count(given))
        return 0;
    schema_prune(write->arena, shape, given, &write->unknown);
    if (schema_default(write->arena, shape, given, NULL) == 0)
        schema_validate(&admit, shape, given);
    if (!admit.causes.count)
        return old && !write->unversioned ? keep_end(write, given) : 0;
    int r = reply_misfit(write->reply, write->kind, "metadata.", &admit);
    return write->patched ? reply_patch(write->reply) : r;
}

/* Another name than a text is none, and not one that is left out. */
static bool has_wrong_name(const struct json *meta)
{
    const struct json *name = json_get(meta, "name");

    return !json_is_null(name) && !json_is(name, JSON_STRING);
}

int identity_give(struct write *write, struct json *meta)
{
    static const char *const not_for_clients[] = {"uid",          "resourceVersion",
                                                  "generation",   "deletionTimestamp",
                                                  "selfLink",     "deletionGracePeriodSeconds",
                                                  "managedFields"};
    struct str prefix = json_str(json_get(meta, "generateName"));

    struct str version = json_str(json_get(meta, "resourceVersion"));

    if (version.len && !str_is(version, "0"))
        return reply_fail(write->reply, 400, "BadRequest",
                          "resourceVersion should not be set on objects to be created");
    if (json_i64_or(json_get(meta, "generation"), 0) < 0 && !counts_generations(write->kind))
        return reply_wrong(write->reply, "metadata.generation",
                           "must be greater than or equal to 0");
    for (size_t i = 0; i < COUNT_OF(not_for_clients); i++)
        json_remove(meta, str_from(not_for_clients[i]));
    if (!write->name.len)
        write->name = json_str(json_get(meta, "name"));
    if (!write->name.len && prefix.len)
        write->name = generate_name(write, prefix);
    if (!write->name.len && write->kind == &kind_limitrange && !has_wrong_name(meta))
        write->name = new_uid(write);
    if (write->name.len)
        json_add_str(write->arena, meta, "name", write->name);
    json_add_str(write->arena, meta, "uid", new_uid(write));
    json_add_str(write->arena, meta, "creationTimestamp",
                 time_text(write->arena, store_now(write->store)));
    if (counts_generations(write->kind))
        json_add_i64(write->arena, meta, "generation", 1);
    return 0;
}
