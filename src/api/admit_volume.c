#include "api/admit.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What Kubernetes fills in where a pod gets its files from. kubectl and typed clients count on it:
 * they follow pointers to these fields without looking. */

struct filling {
    const char *source; /* of the volume */
    const char *field;
    const char *text;
};

static const struct filling texts[] = {
    {"hostPath", "type", ""},
    {"iscsi", "iscsiInterface", "default"},
    {"rbd", "pool", "rbd"},
    {"rbd", "user", "admin"},
    {"rbd", "keyring", "/etc/ceph/keyring"},
    {"azureDisk", "cachingMode", "ReadWrite"},
    {"azureDisk", "fsType", "ext4"},
    {"azureDisk", "kind", "Shared"},
    {"scaleIO", "storageMode", "ThinProvisioned"},
    {"scaleIO", "fsType", "xfs"},
};

#define FILE_MODE       0644
#define TOKEN_S_DEFAULT 3600

static bool lacks(const struct json *object, const char *key)
{
    return json_is(object, JSON_OBJECT) && json_is_null(json_get(object, key));
}

void admit_field_ref_default(struct admit *admit, struct json *parent)
{
    struct json *field = json_get(parent, "fieldRef");
    struct json *resource = json_get(parent, "resourceFieldRef");

    if (lacks(field, "apiVersion"))
        json_add_c(admit->arena, field, "apiVersion", "v1");
    if (lacks(resource, "divisor"))
        json_add_c(admit->arena, resource, "divisor", "0");
}

static void default_files(struct admit *admit, const struct json *downward)
{
    JSON_FOREACH(json_get(downward, "items"), item)
        admit_field_ref_default(admit, item);
}

static void default_modes(struct admit *admit, const struct json *volume)
{
    static const char *const with_mode[] = {"configMap", "secret", "downwardAPI", "projected"};

    for (size_t i = 0; i < COUNT_OF(with_mode); i++) {
        struct json *source = json_get(volume, with_mode[i]);

        if (lacks(source, "defaultMode"))
            json_add_i64(admit->arena, source, "defaultMode", FILE_MODE);
    }
}

static void default_projected(struct admit *admit, const struct json *projected)
{
    JSON_FOREACH(json_get(projected, "sources"), source) {
        struct json *token = json_get(source, "serviceAccountToken");

        if (lacks(token, "expirationSeconds"))
            json_add_i64(admit->arena, token, "expirationSeconds", TOKEN_S_DEFAULT);
        default_files(admit, json_get(source, "downwardAPI"));
    }
}

void admit_volume_default(struct admit *admit, struct json *volume)
{
    struct json *disk = json_get(volume, "azureDisk");
    struct json *claim = json_at(volume, "ephemeral.volumeClaimTemplate.spec");

    if (!json_is(volume, JSON_OBJECT))
        return;
    if (json_count(volume) == 1 && json_get(volume, "name"))
        json_add_object(admit->arena, volume, "emptyDir");
    default_modes(admit, volume);
    default_files(admit, json_get(volume, "downwardAPI"));
    default_projected(admit, json_get(volume, "projected"));
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct json *source = json_get(volume, texts[i].source);

        if (lacks(source, texts[i].field))
            json_add_c(admit->arena, source, texts[i].field, texts[i].text);
    }
    if (lacks(disk, "readOnly"))
        json_add_bool(admit->arena, disk, "readOnly", false);
    if (lacks(claim, "volumeMode"))
        json_add_c(admit->arena, claim, "volumeMode", "Filesystem");
}
