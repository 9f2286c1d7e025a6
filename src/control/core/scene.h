#pragma once

#include "base/arena.h"
#include "base/str.h"
#include "control/core/action.h"
#include "control/core/control.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cache;
struct controller;
struct json;
struct kind;
struct kinds;

/* scene: a small world for the tests of controllers: objects in a cache, a clock, and actions that
 * are carried out at once. JSON is written with ' for ". */
struct scene {
    struct arena arena;
    struct cache *cache;    /* what controllers see: of pods and nodes what api/kept.h keeps */
    struct cache *whole;    /* what was written, and what embedded controllers see */
    struct actions actions; /* of the last reaction */
    struct control_config config;
    const struct kinds *kinds; /* that the registry has learnt; NULL: those that are built in */
    int64_t now_ms;
    uint64_t revision;
    struct str refusal;     /* of the server: nothing is created while there is one */
    struct str told;        /* the refusal that was told of, as the runner does */
    struct str events;      /* reasons of all events so far, with blanks between */
    struct str posts;       /* "URL BODY" of everything posted so far, a line each */
    struct str event_words; /* and their messages, a line each */
    struct room {
        char *p;
        size_t bytes;
    } events_room, words_room; /* what events and event_words grow in */
    /* A kind whose CRD is somebody else's, and the members of status that it has (NULL-terminated):
     * all others are dropped, of what is read as of what is written. NULL: none. */
    const struct kind *foreign;
    const char *const *foreign_status;
    size_t patches; /* of objects of that kind, by the controller, so far */
};

void scene_open(struct scene *scene);
void scene_close(struct scene *scene);
/* JSON with ' for ". */
struct str scene_text(struct scene *scene, const char *text);
/* An object appears or is replaced; uid is u-<name> unless said. */
void scene_put(struct scene *scene, const struct kind *kind, const char *text);
/* Merge a patch, {...}, into an object that is there. */
void scene_patch(struct scene *scene, const struct kind *kind, const char *name, const char *patch);
/* The same with a tree, for texts that have a ' of their own. */
void scene_change(struct scene *scene,
                  const struct kind *kind,
                  const char *name,
                  const struct json *patch);
void scene_drop(struct scene *scene, const struct kind *kind, const char *name);
/* Let the controller look at n/<name> and carry out what it wants, until it wants nothing more (at
 * most SCENE_TURNS_MAX times). All objects live in the namespace "n". */
#define SCENE_TURNS_MAX 20
void scene_run(struct scene *scene, const struct controller *controller, const char *name);
/* The same, once; false: it wants nothing more. */
bool scene_turn(struct scene *scene, const struct controller *controller, const char *name);
/* The tree of an object, or NULL. */
struct json *scene_get(struct scene *scene, const struct kind *kind, const char *name);
/* "Type=Status" of every condition of an object's status, in order, with blanks between. */
struct str scene_conditions(struct scene *scene, const struct kind *kind, const char *name);
/* Names of the objects of a kind, in the order they appeared, with blanks between. */
struct str scene_names(struct scene *scene, const struct kind *kind);
/* The texts of a list, with blanks between. */
struct str scene_words(struct scene *scene, const struct json *list);
/* Names of the keys to which a change of an object matters, with blanks between. */
struct str scene_keys(struct scene *scene,
                      const struct controller *controller,
                      const struct kind *kind,
                      const char *name);
