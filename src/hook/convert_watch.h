#pragma once

#include "api/api.h"

#include <stdbool.h>

struct convert_watch;
struct kind_crd;
struct translator;

/* convert_watch: a watch of objects that a webhook converts. Events keep their order: they wait
 * behind those that are being converted, and go in few questions. */
#define CONVERT_WATCH_BATCH   256  /* events that are converted at a time */
#define CONVERT_WATCH_WAITING 8192 /* changes behind them; with more the watch ends with 410 */

/* Those of one converter. */
struct convert_watches {
    struct api *below;
    struct translator *translator;
    struct convert_watch *first;
};

struct api_watch *convert_watch(struct convert_watches *watches,
                                const struct kind_crd *crd,
                                const struct api_watch_request *request,
                                api_watch_fn *fn,
                                void *user);
/* False: it is none of these. */
bool convert_watch_stop(struct convert_watches *watches, struct api_watch *watch);
/* All of them, whether their owners stopped them or not. */
void convert_watches_free(struct convert_watches *watches);

struct arena;
struct selector;
/* True: the selector asks for more than name and namespace, so that it holds for what an object is
 * converted to. False also when it is none: the store says what is wrong with it. */
bool convert_selects_fields(struct arena *arena,
                            const struct kind *kind,
                            const struct kind_crd *crd,
                            struct str text,
                            struct selector *ret);
