#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "kube/feed.h"
#include "tool/file.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* kept pods|nodes FILE: print what an informer keeps of a list that an API server sent, in
 * whichever form it is: a JSON object a line. For tests/kubernetes/test_client.py. */

static bool print(void *user, const struct object *object)
{
    (void)user;
    (void)printf(STR_FMT "\n", STR_ARG(object->raw));
    return true;
}

int main(int argc, char *argv[])
{
    struct arena arena = {0};
    struct feed_page page = {0};
    struct str body = STR_NONE;
    struct err err = {0};
    int r = -1;

    if (argc != 3)
        (void)snprintf(err.text, sizeof(err.text), "usage: kept pods|nodes FILE");
    else
        r = file_read(&arena, argv[2], &body, &err);
    if (r == 0)
        r = feed_page_read(strcmp(argv[1], "nodes") == 0 ? &kind_node : &kind_pod, body, &page,
                           print, NULL, &err);
    if (r < 0)
        (void)fprintf(stderr, "kept: %s\n", err.text);
    buf_done(&page.continue_token);
    arena_done(&arena);
    return r < 0;
}
