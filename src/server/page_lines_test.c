#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "server/page_lines.h"
#include "test.h"

#include <stddef.h>
#include <string.h>

static struct object *pod_of(struct str text)
{
    struct object *object = NULL;

    EXPECT(object_new(&kind_pod, text, &object, NULL) == 0);
    return object;
}

TEST(page_lines_are_made_once_for_all_tabs)
{
    _cleanup_(object_unrefp) struct object *pod =
        pod_of(STR("{\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\",\"namespace\":\"b\","
                   "\"managedFields\":[]},\"spec\":{\"nodeName\":\"n\",\"volumes\":[]}}"));
    struct page_lines lines = {0};

    for (int tab = 0; tab < 20; tab++) {
        _cleanup_(buf_done) struct buf out = {0};

        page_lines_add(&lines, pod, &out);
        EXPECT(str_is(buf_str(&out), "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\",\"namespace\":"
                                     "\"b\"},\"spec\":{\"nodeName\":\"n\"}}"));
    }
    EXPECT(lines.made == 1);
    EXPECT(pod->refs == 2);
    page_lines_done(&lines);
    EXPECT(pod->refs == 1);
}

TEST(page_lines_of_many_objects_are_each_their_own)
{
    struct page_lines lines = {0};

    for (int i = 0; i < 3 * PAGE_LINES_MAX; i++) {
        _cleanup_(buf_done) struct buf text = {0};
        _cleanup_(buf_done) struct buf out = {0};

        buf_addf(&text, "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"p-%d\",\"namespace\":\"b\"}}",
                 i);
        struct object *pod = pod_of(buf_str(&text));
        page_lines_add(&lines, pod, &out);
        object_unref(pod); /* the address of one that is kept is not given to another */
        EXPECT(str_eq(buf_str(&out), buf_str(&text)));
    }
    page_lines_done(&lines);
}

TEST(page_lines_of_large_objects_are_not_kept)
{
    static char large[PAGE_LINE_KEPT_MAX];
    _cleanup_(buf_done) struct buf text = {0};
    _cleanup_(buf_done) struct buf out = {0};
    struct page_lines lines = {0};

    memset(large, 'x', sizeof(large) - 1);
    buf_addf(&text,
             "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\",\"namespace\":\"b\",\"labels\":"
             "{\"l\":\"%s\"}}}",
             large);
    _cleanup_(object_unrefp) struct object *pod = pod_of(buf_str(&text));
    page_lines_add(&lines, pod, &out);
    EXPECT(out.len == text.len);
    EXPECT(pod->refs == 1);
    page_lines_done(&lines);
}
