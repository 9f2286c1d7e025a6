#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "exec/kai_config.h"
#include "test.h"

#include <stddef.h>

TEST(a_kai_config_gives_names_and_says_which_fields_have_no_effect)
{
    static const struct {
        const char *text;
        const char *queue_label;
        const char *ignored;
        const char *why;
    } rows[] = {
        {"{}", "", "", "an empty one changes nothing"},
        {"{\"spec\":{\"global\":{\"queueLabelKey\":\"team\"}}}", "team", "",
         "everything took effect"},
        {"{\"spec\":{\"namespace\":\"kai-system\",\"global\":{\"replicaCount\":2,"
         "\"queueLabelKey\":\"team\"},\"binder\":{\"replicas\":1}}}",
         "team", "no effect: namespace, global.replicaCount, binder; ", "each field is named"},
        {"{\"spec\":{\"global\":{\"queueLabelKey\":7}}}", "", "no effect: global.queueLabelKey; ",
         "not a text"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct kai_config config;
        struct json *tree = NULL;

        EXPECT(json_parse(&arena, str_from(rows[i].text), &tree, NULL) == 0);
        kai_config_read(tree, &arena, &config);
        EXPECT(str_is(config.queue_label, rows[i].queue_label));
        EXPECT(str_starts(config.ignored, str_from(rows[i].ignored)));
        EXPECT(config.ignored.len || !*rows[i].ignored);
    }
}
