#include "base/count.h"
#include "base/str.h"
#include "server/accept.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

#define PROTOBUF "application/vnd.kubernetes.protobuf"
#define TABLE    "application/json;as=Table;v=v1;g=meta.k8s.io"

static const struct accept_offer accept_builtin = {.protobuf = true, .views = true};
static const struct accept_offer accept_custom = {.views = true};
static const struct accept_offer accept_status = {.protobuf = true};
static const struct accept_offer accept_watch = {.protobuf = true, .views = true, .stream = true};

TEST(accept_is_answered_as_kubernetes_answers_it)
{
    static const struct {
        const char *header;
        const struct accept_offer *offer;
        int media; /* -1: 406 */
        enum view view;
        const char *why;
    } rows[] = {
        {"", &accept_builtin, MEDIA_JSON, VIEW_OBJECT, "nothing asked for"},
        {"*/*", &accept_builtin, MEDIA_JSON, VIEW_OBJECT, "anything"},
        {"application/*", &accept_custom, MEDIA_JSON, VIEW_OBJECT, "JSON comes first"},
        {"text/html,application/xhtml+xml,*/*;q=0.8", &accept_builtin, MEDIA_JSON, VIEW_OBJECT,
         "a browser"},
        {"text/html", &accept_builtin, -1, VIEW_OBJECT, "nobody has that"},
        {PROTOBUF ",application/json", &accept_builtin, MEDIA_PROTOBUF, VIEW_OBJECT,
         "a typed client"},
        {PROTOBUF ",application/json", &accept_custom, MEDIA_JSON, VIEW_OBJECT,
         "of a custom resource"},
        {PROTOBUF, &accept_custom, -1, VIEW_OBJECT, "and nothing else will do"},
        {PROTOBUF, &accept_status, MEDIA_PROTOBUF, VIEW_OBJECT, "a Status has a type"},
        {PROTOBUF ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1", &accept_custom, MEDIA_PROTOBUF,
         VIEW_METADATA, "metadata has a type too"},
        {TABLE ",application/json", &accept_builtin, MEDIA_JSON, VIEW_TABLE, "kubectl get"},
        {TABLE "," PROTOBUF, &accept_builtin, MEDIA_JSON, VIEW_TABLE, "a table that is first wins"},
        {PROTOBUF ";as=Table;v=v1;g=meta.k8s.io,application/json", &accept_builtin, MEDIA_JSON,
         VIEW_OBJECT, "tables have no protobuf form"},
        {TABLE, &accept_status, -1, VIEW_OBJECT, "a Status is no table"},
        {"application/json;as=Rows;g=meta.k8s.io;v=v1," PROTOBUF, &accept_builtin, MEDIA_PROTOBUF,
         VIEW_OBJECT, "a view that nobody has is passed over"},
        {"application/json;q=0.5," PROTOBUF ";q=0.75", &accept_builtin, MEDIA_PROTOBUF, VIEW_OBJECT,
         "the higher q"},
        {"*/*," PROTOBUF, &accept_builtin, MEDIA_PROTOBUF, VIEW_OBJECT,
         "what is named comes first"},
        {PROTOBUF ";stream=watch", &accept_watch, MEDIA_PROTOBUF, VIEW_OBJECT, "a watch"},
        {"application/yaml", &accept_builtin, MEDIA_YAML, VIEW_OBJECT, "YAML"},
        {"application/yaml", &accept_watch, -1, VIEW_OBJECT, "YAML has no stream"},
        {"Application/JSON ; q=x", &accept_builtin, MEDIA_JSON, VIEW_OBJECT, "case and blanks"},
        {",;,*;q=,=", &accept_builtin, MEDIA_JSON, VIEW_OBJECT, "nonsense with a star in it"},
        {",;q=1,text/html", &accept_builtin, -1, VIEW_OBJECT, "nonsense without"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct accept accept = {0};

        test_case(rows[i].why);
        bool found = accept_choose(str_from(rows[i].header), *rows[i].offer, &accept);
        EXPECT(found == (rows[i].media >= 0));
        EXPECT(!found || ((int)accept.media == rows[i].media && accept.view == rows[i].view));
    }
}
