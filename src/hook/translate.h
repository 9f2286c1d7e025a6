#pragma once

#include <stddef.h>

struct err;
struct hook_asker;
struct json;
struct kind;
struct kinds;
struct object;
struct translator;

/* translate: objects of a CRD in another of its versions, as its conversion webhook has them.
 *
 * All objects of one call go in few questions, one after another: each has as many as fit. What is
 * answered is pruned and filled in by the schema of the version, as what clients send is. */
#define TRANSLATE_BYTES_MAX   ((size_t)1 << 20) /* of a question's objects; one alone may have more */
#define TRANSLATE_OBJECTS_MAX 500               /* of one question */
#define TRANSLATE_SECONDS     30                /* for one question, as kube-apiserver has it */
#define TRANSLATE_SECONDS_ALL 60                /* after this many no further one is asked */

/* err NULL: all of them are in that version now. Else its status is that of the answer. */
typedef void translate_done_fn(void *user, const struct err *err);

struct translator *translator_new(const struct kinds *kinds, const struct hook_asker *asker);
/* Nobody is asked any more: who waits is refused, and who comes later. NULL is fine. */
void translator_stop(struct translator *translator);
void translator_free(struct translator *translator);

struct translate {
    const struct json *webhook; /* spec.conversion.webhook, which lives as long as the store */
    const struct kind *to;
    const struct object **objects; /* the list must live until the answer, they are the caller's */
    size_t count;
    translate_done_fn *done;
    void *user;
};

/* Replaces each of the objects by itself as `to`. `done` is called once; from inside where nothing
 * has to be asked. */
void translate(struct translator *translator, const struct translate *what);
