#pragma once

#include "base/str.h"

#include <stdbool.h>

/* accept: which of the forms on offer an Accept header asks for, by the rules of kube-apiserver:
 * clauses in the order of their q, exact types before those with stars; the first one that can be
 * had counts. A parameter `as=` asks for another object than the one that is stored. */
enum media {
    MEDIA_JSON,
    MEDIA_YAML,
    MEDIA_PROTOBUF,
};

enum view {
    VIEW_OBJECT,
    VIEW_TABLE,    /* JSON and YAML only */
    VIEW_METADATA, /* PartialObjectMetadata */
};

struct accept {
    enum media media;
    enum view view;
};

struct accept_offer {
    bool protobuf; /* of whole objects; metadata has it always */
    bool views;    /* other ones than the object itself */
    bool stream;   /* one after the other: YAML cannot */
    bool list;     /* whose metadata is a PartialObjectMetadataList */
};

#define ACCEPT_CLAUSES_MAX 32 /* clients send five; further ones are not looked at */

/* "application/json", ... */
const char *accept_media_type(enum media media);
/* False: nothing on offer will do. An empty header asks for JSON. */
bool accept_choose(struct str header, struct accept_offer offer, struct accept *ret);
