#include "api/api.h"
#include "api/kind.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "fuzz/fuzz.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

/* Requests, one a line: the verb (c u m j s a d), the kind's plural name, and a body. They go
 * through admission into a store in memory. Each is answered, with words where it is refused, and
 * afterwards everything that was stored can be listed. */
struct session {
    uv_loop_t loop;
    struct store *store;
    bool answered;
};

static const struct kind *kind_called(struct str plural)
{
    static const struct kind *const kinds[] = {
        &kind_pod,     &kind_configmap, &kind_job,       &kind_queue,  &kind_podgroup,
        &kind_service, &kind_node,      &kind_namespace, &kind_secret, &kind_crd,
    };

    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (str_is(plural, kinds[i]->plural))
            return kinds[i];
    return NULL;
}

static struct str next_word(struct str *line)
{
    size_t end = str_find(*line, ' ');
    struct str word = str_sub(*line, 0, end);

    *line = str_sub(*line, end < line->len ? end + 1 : end, line->len);
    return word;
}

static void session_done(void *user, const struct api_result *result)
{
    FUZZ_HOLDS(result->code == 0 || (result->err && result->err->text[0]));
    ((struct session *)user)->answered = true;
}

static void session_ask(struct session *session, const struct api_request *request)
{
    session->answered = false;
    api_call(store_api(session->store), request, session_done, session);
    while (!session->answered)
        (void)uv_run(&session->loop, UV_RUN_ONCE);
}

static void session_line(struct session *session, struct str line)
{
    static const struct {
        char letter;
        enum api_verb verb;
        enum api_patch patch;
    } verbs[] = {{'c', API_CREATE, 0},
                 {'u', API_UPDATE, 0},
                 {'m', API_PATCH, API_PATCH_MERGE},
                 {'j', API_PATCH, API_PATCH_JSON},
                 {'s', API_PATCH, API_PATCH_STRATEGIC},
                 {'a', API_PATCH, API_PATCH_APPLY},
                 {'d', API_DELETE, 0}};
    struct str verb = next_word(&line);
    const struct kind *kind = kind_called(next_word(&line));
    struct str ns = kind && kind->namespaced ? STR("default") : STR("");

    for (size_t i = 0; kind && verb.len && i < COUNT_OF(verbs); i++) {
        if (verb.p[0] != verbs[i].letter)
            continue;
        session_ask(session,
                    &(struct api_request){.verb = verbs[i].verb,
                                          .kind = kind,
                                          .ns = ns,
                                          .name = verbs[i].verb == API_CREATE ? STR("") : STR("a"),
                                          .patch = verbs[i].patch,
                                          .field_manager = STR("fuzz"),
                                          .body = line});
        session_ask(session, &(struct api_request){.verb = API_LIST, .kind = kind, .ns = ns});
    }
}

FUZZ(write)
{
    struct session session = {0};

    FUZZ_HOLDS(uv_loop_init(&session.loop) == 0);
    FUZZ_HOLDS(store_open(&(struct store_options){.loop = &session.loop, .seed = 1}, &session.store,
                          NULL) == 0);
    while (input.len) {
        size_t end = str_find(input, '\n');

        session_line(&session, str_sub(input, 0, end));
        input = str_sub(input, end < input.len ? end + 1 : end, input.len);
    }
    store_close(session.store);
    (void)uv_run(&session.loop, UV_RUN_DEFAULT);
    FUZZ_HOLDS(uv_loop_close(&session.loop) == 0);
}
