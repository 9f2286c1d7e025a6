#include "cmd/credential.h"

#include "api/api.h"
#include "api/kind.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "cmd/look.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What serviceaccounts/token takes and answers. */
static const struct kind kind_tokenrequest = {.group = "",
                                              .version = "v1",
                                              .name = "TokenRequest",
                                              .plural = "serviceaccounts",
                                              .namespaced = true};

struct json *credential_object(struct arena *arena, struct str ns, struct str name)
{
    struct json *object = json_new_object(arena);
    struct json *meta = json_add_object(arena, object, "metadata");

    json_add_str(arena, meta, "name", name);
    if (ns.len)
        json_add_str(arena, meta, "namespace", ns);
    return object;
}

int credential_put(struct look *look,
                   const struct kind *kind,
                   struct str ns,
                   struct json *object,
                   struct err *err)
{
    struct str name = json_str_at(object, "metadata.name");
    struct str text = json_text(look->arena, object);
    int r = look_call(
        look, &(struct api_request){.verb = API_CREATE, .kind = kind, .ns = ns, .body = text}, NULL,
        err);

    if (r == 0 || err->http_status != 409)
        return r;
    return look_call(look,
                     &(struct api_request){.verb = API_PATCH,
                                           .kind = kind,
                                           .ns = ns,
                                           .name = name,
                                           .patch = API_PATCH_MERGE,
                                           .body = text},
                     NULL, err);
}

int credential_delete(struct look *look,
                      const struct kind *kind,
                      struct str ns,
                      struct str name,
                      struct err *err)
{
    struct err own = {0};
    int r = look_call(
        look, &(struct api_request){.verb = API_DELETE, .kind = kind, .ns = ns, .name = name}, NULL,
        &own);

    if (r < 0 && own.http_status != 404) {
        *err = own;
        return r;
    }
    return 0;
}

int credential_token(struct look *look,
                     const struct credential *wanted,
                     struct str *ret,
                     struct str *ret_until,
                     struct err *err)
{
    struct json *body = credential_object(look->arena, wanted->ns, wanted->account);
    const struct json *answer = NULL;

    json_add_c(look->arena, body, "apiVersion", "authentication.k8s.io/v1");
    json_add_c(look->arena, body, "kind", "TokenRequest");
    json_add_i64(look->arena, json_add_object(look->arena, body, "spec"), "expirationSeconds",
                 wanted->valid_ms / 1000);
    int r = look_call(look,
                      &(struct api_request){.verb = API_CREATE,
                                            .kind = &kind_tokenrequest,
                                            .ns = wanted->ns,
                                            .name = wanted->account,
                                            .subresource = STR("token"),
                                            .body = json_text(look->arena, body)},
                      &answer, err);
    if (r < 0)
        return r;
    *ret = json_str_at(answer, "status.token");
    *ret_until = json_str_at(answer, "status.expirationTimestamp");
    return ret->len ? 0 : err_set(err, -EPROTO, "the API server gave no token");
}
