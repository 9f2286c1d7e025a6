#include "server/accept.h"

#include "base/count.h"
#include "base/str.h"
#include "http1/parse.h"

#include <stdbool.h>
#include <stddef.h>

static const char *const media_types[] = {
    [MEDIA_JSON] = "application/json",
    [MEDIA_YAML] = "application/yaml",
    [MEDIA_PROTOBUF] = "application/vnd.kubernetes.protobuf",
};

const char *accept_media_type(enum media media)
{
    return media_types[media];
}

struct clause {
    struct str media;  /* "application/json", "application/" for all of its kind, "" for all */
    struct str params; /* "as=Table;v=v1" */
    int stars;
    int rank; /* the lowest comes first */
};

/* The value of a parameter; STR_NONE: absent. */
static struct str clause_param(const struct clause *clause, const char *name)
{
    struct str rest = clause->params;
    struct str part;

    while (str_cut(&rest, ';', &part)) {
        part = str_trim(part);
        size_t at = str_find(part, '=');
        if (at < part.len && http_equal_nocase(str_trim(str_sub(part, 0, at)), str_from(name)))
            return str_trim(str_sub(part, at + 1, part.len));
    }
    return STR_NONE;
}

/* "0.75" is 750; what is not understood is 1, as Kubernetes has it. */
static int clause_weight(const struct clause *clause)
{
    struct str text = clause_param(clause, "q");
    int weight = 0;
    int unit = 1000;
    bool point = false;

    if (!text.len)
        return 1000;
    for (size_t i = 0; i < text.len && unit; i++) {
        if (text.p[i] == '.' && !point) {
            point = true;
            continue;
        }
        if (text.p[i] < '0' || text.p[i] > '9' || (!point && i > 0))
            return 1000;
        unit = point ? unit / 10 : unit;
        weight += (text.p[i] - '0') * unit;
    }
    return weight > 1000 ? 1000 : weight;
}

static struct clause clause_read(struct str text)
{
    size_t end = str_find(text, ';');
    struct clause clause = {.media = str_trim(str_sub(text, 0, end)),
                            .params = str_sub(text, end + 1, text.len)};

    while (str_ends(clause.media, STR("*")) || str_is(clause.media, "*/")) {
        clause.media.len -= str_is(clause.media, "*/") ? 2 : 1;
        clause.stars++;
    }
    clause.rank = 3 * (1000 - clause_weight(&clause)) + clause.stars;
    return clause;
}

static bool clause_matches(const struct clause *clause, enum media media)
{
    struct str type = str_from(media_types[media]);

    if (!clause->media.len)
        return clause->stars > 0;
    if (str_ends(clause->media, STR("/")))
        type = str_sub(type, 0, clause->media.len);
    return http_equal_nocase(clause->media, type);
}

/* Which view a clause means; false: one that nobody has. */
static bool clause_view(const struct clause *clause, struct accept_offer offer, enum view *ret)
{
    struct str as = clause_param(clause, "as");
    struct str group = clause_param(clause, "g");
    struct str version = clause_param(clause, "v");

    *ret = VIEW_OBJECT;
    if (!as.len)
        return true;
    if ((group.len && !str_is(group, "meta.k8s.io")) ||
        (version.len && !str_is(version, "v1") && !str_is(version, "v1beta1")))
        return false;
    *ret = str_is(as, "Table") ? VIEW_TABLE : VIEW_METADATA;
    return *ret == VIEW_TABLE ||
           (str_is(as, "PartialObjectMetadata") && (!offer.list || offer.stream)) ||
           (str_is(as, "PartialObjectMetadataList") && (offer.list || offer.stream));
}

static bool offer_has(struct accept_offer offer, enum media media, enum view view)
{
    if (view != VIEW_OBJECT && !offer.views)
        return false;
    if (media == MEDIA_YAML)
        return !offer.stream;
    if (media != MEDIA_PROTOBUF)
        return true;
    return view == VIEW_METADATA || (view == VIEW_OBJECT && offer.protobuf);
}

bool accept_choose(struct str header, struct accept_offer offer, struct accept *ret)
{
    struct clause clauses[ACCEPT_CLAUSES_MAX];
    size_t count = 0;
    struct str part;

    if (!str_trim(header).len) {
        *ret = (struct accept){MEDIA_JSON, VIEW_OBJECT};
        return true;
    }
    while (count < COUNT_OF(clauses) && str_cut(&header, ',', &part)) {
        struct clause clause = clause_read(part);
        size_t at = count++;

        for (; at && clauses[at - 1].rank > clause.rank; at--)
            clauses[at] = clauses[at - 1];
        clauses[at] = clause;
    }
    for (size_t i = 0; i < count; i++) {
        enum view view;

        if (!clause_view(&clauses[i], offer, &view))
            continue;
        for (size_t media = 0; media < COUNT_OF(media_types); media++)
            if (clause_matches(&clauses[i], (enum media)media) &&
                offer_has(offer, (enum media)media, view)) {
                *ret = (struct accept){(enum media)media, view};
                return true;
            }
    }
    return false;
}
