#include "sched/affinity.h"

#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/claim.h"
#include "sched/filter.h"
#include "sched/group.h"
#include "sched/names.h"
#include "sched/node.h"
#include "sched/pick.h"
#include "sched/place.h"
#include "sched/pod.h"
#include "sched/pool.h"
#include "sched/queue.h"
#include "sched/resource.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Constraints between pods: affinity, anti-affinity (both ways), topology spread, host ports,
 * resource claims.
 *
 * affinity_prepare() walks the pods that hold room once and counts, for every term, how many match
 * in each topology domain; a node is then judged by its own label. For a pod without terms it walks
 * those that keep others away. A term that only terminating pods break is broken now but not later. */

/* Counting a pod for the terms of another takes as long as so many looks at it. */
#define AFFINITY_STEPS 8

struct domain {
    struct str value;
    int64_t active;
    int64_t promised; /* of these: their room alone */
    int64_t releasing;
};

struct term {
    struct str key;
    VEC(struct domain) domains;
    bool self;     /* the pod itself matches */
    int64_t total; /* matching pods anywhere */
    int64_t weight;
    int64_t max_skew;
    int64_t min_domains;
    bool required;
    bool counts; /* spread: the node that is being looked at is one of those that count */
};

struct term_vec VEC_FIELDS(struct term);

struct affinity {
    struct sched *sched;
    struct pod *pod;
    struct term_vec near;
    struct term_vec away; /* own and others' anti-affinity alike */
    struct term_vec soft; /* preferences; negative weights push away */
    struct term_vec spread;
    bool ports;
    bool claims;
    double score_min, score_max;
};

static bool expression_holds(const struct sched_expression *expression, struct str value)
{
    bool in = false;

    for (size_t j = 0; j < expression->value_count; j++)
        in = in || (str_is_set(value) && str_eq(expression->values[j], value));
    return expression->op == SCHED_IN           ? in
           : expression->op == SCHED_NOT_IN     ? !in
           : expression->op == SCHED_EXISTS     ? str_is_set(value)
           : expression->op == SCHED_NOT_EXISTS ? !str_is_set(value)
                                                : false;
}

static bool selector_matches(const struct sched_selector *selector, const struct pod *pod)
{
    if (!selector->set)
        return false;
    for (size_t i = 0; i < selector->expression_count; i++) {
        const struct sched_expression *expression = &selector->expressions[i];
        struct str value = STR_NONE;

        for (size_t j = 0; j < pod->label_count; j++)
            if (str_eq(name_text(pod->labels[j].key), expression->key))
                value = name_text(pod->labels[j].value);
        if (!expression_holds(expression, value))
            return false;
    }
    return true;
}

bool affinity_selector_means(const struct sched_selector *selector,
                             const struct sched_namespace *space)
{
    for (size_t i = 0; i < selector->expression_count; i++) {
        const struct sched_expression *expression = &selector->expressions[i];
        struct str value = STR_NONE;

        for (size_t j = 0; space && j < space->label_count; j++)
            if (str_eq(space->labels[j].key, expression->key))
                value = space->labels[j].value;
        if (!expression_holds(expression, value))
            return false;
    }
    return selector->set;
}

bool affinity_term_means(const struct sched *sched,
                         const struct sched_pod_term *term,
                         struct str own_ns,
                         const struct pod *pod)
{
    struct str name = pod_ns(pod);
    bool ns = !term->namespace_count && !term->namespace_selector.set && str_eq(own_ns, name);

    for (size_t i = 0; i < term->namespace_count; i++)
        ns = ns || str_eq(term->namespaces[i], name);
    if (!ns && !term->namespace_selector.set)
        return false;
    return selector_matches(&term->selector, pod) &&
           (ns ||
            affinity_selector_means(&term->namespace_selector, map_get(&sched->namespaces, name)));
}

static struct domain *domain_of(struct arena *arena, struct term *term, struct str value)
{
    for (size_t i = 0; i < term->domains.count; i++)
        if (str_eq(term->domains.items[i].value, value))
            return &term->domains.items[i];
    VEC_PUSH(arena, &term->domains, (struct domain){.value = value});
    return &term->domains.items[term->domains.count - 1];
}

static const struct domain *domain_find(const struct term *term, const struct node *node)
{
    struct str value = node_label(node, term->key);

    for (size_t i = 0; str_is_set(value) && i < term->domains.count; i++)
        if (str_eq(term->domains.items[i].value, value))
            return &term->domains.items[i];
    return NULL;
}

static void term_count(struct arena *arena, struct term *term, const struct pod *other)
{
    struct str value = node_label(other->node, term->key);

    if (!str_is_set(value))
        return;
    struct domain *domain = domain_of(arena, term, value);
    if (other->status == ST_RELEASING)
        domain->releasing++;
    else
        domain->active++;
    domain->promised += other->status == ST_PIPELINED;
    term->total++;
}

static void terms_open(struct arena *arena,
                       struct term_vec *list,
                       const struct sched_pod_term *terms,
                       size_t count,
                       int64_t sign)
{
    for (size_t i = 0; i < count; i++)
        VEC_PUSH(arena, list,
                 (struct term){.key = terms[i].topology_key, .weight = sign * terms[i].weight});
}

static void terms_count(const struct affinity *affinity,
                        struct term *terms,
                        const struct sched_pod_term *specs,
                        size_t count,
                        const struct pod *other)
{
    for (size_t i = 0; i < count; i++)
        if (affinity_term_means(affinity->sched, &specs[i], pod_ns(affinity->pod), other))
            term_count(affinity->sched->arena, &terms[i], other);
}

/* Near is who is meant by all terms at once, wherever each of them looks. */
static void near_count(struct affinity *affinity, const struct pod *other)
{
    const struct sched_pod *spec = &affinity->pod->shape->spec;

    for (size_t i = 0; i < spec->affinity_count; i++)
        if (!affinity_term_means(affinity->sched, &spec->affinity[i], pod_ns(affinity->pod), other))
            return;
    for (size_t i = 0; i < spec->affinity_count; i++)
        term_count(affinity->sched->arena, &affinity->near.items[i], other);
}

/* The term, behind the pod's own, that has the places with that key which others keep it away from. */
static struct term *kept_away_by(struct affinity *affinity, struct str key)
{
    for (size_t i = affinity->pod->shape->spec.anti_affinity_count; i < affinity->away.count; i++)
        if (str_eq(affinity->away.items[i].key, key))
            return &affinity->away.items[i];
    VEC_PUSH(affinity->sched->arena, &affinity->away, (struct term){.key = key});
    return &affinity->away.items[affinity->away.count - 1];
}

/* Pods with anti-affinity keep others away, too, by each of their terms that means this pod. */
static void others_keep_away(struct affinity *affinity, const struct pod *other)
{
    const struct sched_pod *spec = &other->shape->spec;

    for (size_t i = 0; i < spec->anti_affinity_count; i++) {
        if (affinity_term_means(affinity->sched, &spec->anti_affinity[i], pod_ns(other),
                                affinity->pod))
            term_count(affinity->sched->arena,
                       kept_away_by(affinity, spec->anti_affinity[i].topology_key), other);
    }
}

static void spreads_open(struct affinity *affinity)
{
    const struct sched_pod *spec = &affinity->pod->shape->spec;

    if (QUIRK(affinity->sched, NO_SPREAD))
        return;
    for (size_t i = 0; i < spec->spread_count; i++) {
        const struct sched_spread *spread = &spec->spreads[i];

        VEC_PUSH(affinity->sched->arena, &affinity->spread,
                 (struct term){.key = spread->topology_key,
                               .max_skew = spread->max_skew,
                               .min_domains = spread->min_domains,
                               .required = spread->required,
                               .self = selector_matches(&spread->selector, affinity->pod)});
    }
}

/* Which constraints the node counts for, as Kubernetes does it: it has the labels of all of them
 * that are as strict, and the pod may use it, as far as they ask for that. That there is a node makes
 * its domain one that could be used, whatever runs there. */
static void spreads_at(struct affinity *affinity, const struct node *node)
{
    const struct sched_pod *spec = &affinity->pod->shape->spec;

    for (size_t i = 0; i < affinity->spread.count; i++) {
        struct term *term = &affinity->spread.items[i];

        term->counts = node->known && node->pool == affinity->pod->group->queue->pool &&
                       (spec->spreads[i].any_selected || filter_selects(spec, node)) &&
                       (spec->spreads[i].any_taints || filter_tolerates(spec, node, false));
        for (size_t j = 0; term->counts && j < affinity->spread.count; j++)
            term->counts = affinity->spread.items[j].required != term->required ||
                           str_is_set(node_label(node, affinity->spread.items[j].key));
        if (term->counts)
            (void)domain_of(affinity->sched->arena, term, node_label(node, term->key));
    }
}

static void count_pod(struct affinity *affinity, const struct pod *other)
{
    const struct pod *pod = affinity->pod;
    const struct sched_pod *spec = &pod->shape->spec;
    struct arena *arena = affinity->sched->arena;
    size_t near_soft = spec->affinity_preference_count;

    if (!other->victim || other->status != ST_RELEASING) /* nobody is near who is made to leave */
        near_count(affinity, other);
    terms_count(affinity, affinity->away.items, spec->anti_affinity, spec->anti_affinity_count,
                other);
    terms_count(affinity, affinity->soft.items, spec->affinity_preferences, near_soft, other);
    if (spec->anti_affinity_preference_count)
        terms_count(affinity, affinity->soft.items + near_soft, spec->anti_affinity_preferences,
                    spec->anti_affinity_preference_count, other);
    for (size_t i = 0; i < affinity->spread.count; i++)
        if (affinity->spread.items[i].counts && str_eq(pod_ns(other), pod_ns(pod)) &&
            spec->spreads[i]
                .selector.expression_count && /* of an empty one Kubernetes counts none */
            !other->deleted_ms && /* nor those that are being deleted, however long they take */
            selector_matches(&spec->spreads[i].selector, other))
            term_count(arena, &affinity->spread.items[i], other);
    if (other->shape->spec.anti_affinity_count)
        others_keep_away(affinity, other);
}

bool affinity_in_order(const struct sched *sched, const struct shape *shape)
{
    return shape->spec.affinity_count || (shape->spec.spread_count && !QUIRK(sched, NO_SPREAD));
}

struct affinity *affinity_prepare(struct sched *sched, struct pod *pod)
{
    const struct sched_pod *spec = &pod->shape->spec;
    bool filters = !group_policy(pod->group)->without_filters;
    bool own =
        filters &&
        (spec->affinity_count || spec->anti_affinity_count || spec->affinity_preference_count ||
         spec->anti_affinity_preference_count || (spec->spread_count && !QUIRK(sched, NO_SPREAD)));
    bool pods = own || (filters && sched->anti_pods.count);

    bool ports = spec->port_count && filters;

    if (!pods && !ports && !pod->claim_count)
        return NULL;
    struct affinity *affinity = ARENA_NEW(sched->arena, struct affinity);
    *affinity = (struct affinity){
        .sched = sched, .pod = pod, .ports = ports, .claims = pod->claim_count > 0};
    if (!pods)
        return affinity;
    if (!own) {
        for (size_t i = 0; i < sched->anti_pods.count; i++)
            if (sched->anti_pods.items[i] != pod)
                others_keep_away(affinity, sched->anti_pods.items[i]);
        sched->steps += AFFINITY_STEPS * sched->anti_pods.count;
        return affinity;
    }
    terms_open(sched->arena, &affinity->near, spec->affinity, spec->affinity_count, 1);
    terms_open(sched->arena, &affinity->away, spec->anti_affinity, spec->anti_affinity_count, 1);
    terms_open(sched->arena, &affinity->soft, spec->affinity_preferences,
               spec->affinity_preference_count, 1);
    terms_open(sched->arena, &affinity->soft, spec->anti_affinity_preferences,
               spec->anti_affinity_preference_count, -1);
    spreads_open(affinity);
    for (size_t i = 0; i < spec->affinity_count; i++)
        affinity->near.items[i].self =
            affinity_term_means(sched, &spec->affinity[i], pod_ns(pod), pod);
    for (size_t n = 0; n < sched->nodes.count; n++) {
        const struct node *node = sched->nodes.items[n];

        if (node)
            spreads_at(affinity, node);
        for (size_t i = 0; node && i < node->pods.count; i++)
            if (node->pods.items[i] != pod)
                count_pod(affinity, node->pods.items[i]);
        sched->steps += AFFINITY_STEPS * (node ? node->pods.count : 0);
    }
    return affinity;
}

/* May a pod go to `node` with `skew` counting only what will still be there? */
static bool spread_holds(const struct term *term, const struct node *node, bool now)
{
    const struct domain *here = domain_find(term, node);
    int64_t least = INT64_MAX;

    if (!here)
        return false;
    for (size_t i = 0; i < term->domains.count; i++) {
        const struct domain *domain = &term->domains.items[i];
        least = i64_min(least, domain->active + (now ? domain->releasing : 0));
    }
    if (term->min_domains && (int64_t)term->domains.count < term->min_domains)
        least = 0;
    int64_t count = here->active + (now ? here->releasing : 0) + (term->self ? 1 : 0);
    return count - least <= term->max_skew;
}

static bool ports_clash(const struct sched_port *a, const struct sched_port *b)
{
    bool any = !a->address.len || !b->address.len || str_is(a->address, "0.0.0.0") ||
               str_is(b->address, "0.0.0.0");

    return a->port == b->port && str_eq(a->protocol, b->protocol) &&
           (any || str_eq(a->address, b->address));
}

static enum fit ports_fit(const struct pod *pod, const struct node *node)
{
    const struct sched_pod *spec = &pod->shape->spec;
    enum fit fit = FIT_IDLE;

    for (size_t n = 0; n < node->pods.count; n++) {
        const struct pod *other = node->pods.items[n];
        const struct sched_pod *theirs = &other->shape->spec;

        if (other == pod)
            continue;
        for (size_t i = 0; i < spec->port_count; i++)
            for (size_t j = 0; j < theirs->port_count; j++)
                if (ports_clash(&spec->ports[i], &theirs->ports[j])) {
                    if (other->status != ST_RELEASING)
                        return FIT_NO;
                    fit = FIT_RELEASING;
                }
    }
    return fit;
}

static enum fit claims_fit(struct sched *sched, struct pod *pod, struct node *node)
{
    enum fit fit = FIT_IDLE;

    for (size_t i = 0; i < pod->claim_count; i++) {
        const struct claim *claim = pod->claims[i];

        if (claim->ask ? !claim_reaches(claim, node)
                       : claim->holders && claim->node && claim->node != node)
            return FIT_NO;
        if (claim->promised)
            fit = FIT_RELEASING;
    }
    enum fit devices = pick_fit(sched, pod, node);
    return devices < fit ? devices : fit;
}

static enum fit terms_fit(const struct affinity *affinity, const struct node *node)
{
    enum fit fit = FIT_IDLE;
    bool first = true; /* nobody is there whom it must be near, and it is one of them */

    for (size_t i = 0; i < affinity->near.count; i++)
        first = first && affinity->near.items[i].self && !affinity->near.items[i].total;
    for (size_t i = 0; i < affinity->near.count; i++) {
        const struct term *term = &affinity->near.items[i];
        const struct domain *domain = domain_find(term, node);

        if (!str_is_set(node_label(node, term->key)))
            return FIT_NO;
        if ((!domain || domain->active + domain->releasing == 0) && !first)
            return FIT_NO;
        /* Whom it has to be near is not there yet, and may never come. */
        if (domain && domain->active + domain->releasing == domain->promised && !first &&
            !QUIRK(affinity->sched, NO_RESERVATION))
            fit = FIT_RELEASING;
    }
    for (size_t i = 0; i < affinity->away.count; i++) {
        const struct domain *domain = domain_find(&affinity->away.items[i], node);

        if (domain && domain->active)
            return FIT_NO;
        if (domain && domain->releasing)
            fit = FIT_RELEASING;
    }
    return fit;
}

enum fit affinity_fit(const struct affinity *affinity,
                      struct node *node,
                      enum place_filter *ret_why)
{
    enum fit fit = FIT_IDLE;

    if (!affinity)
        return FIT_IDLE;
    if (affinity->claims) {
        fit = claims_fit(affinity->sched, affinity->pod, node);
        *ret_why = PLACE_CLAIM;
        if (fit == FIT_NO)
            return fit;
    }
    if (affinity->ports) {
        enum fit ports = ports_fit(affinity->pod, node);

        *ret_why = PLACE_PORT;
        if (ports == FIT_NO)
            return ports;
        fit = ports < fit ? ports : fit;
    }
    enum fit terms = terms_fit(affinity, node);
    if (terms == FIT_NO) {
        *ret_why = PLACE_AFFINITY;
        return FIT_NO;
    }
    fit = terms < fit ? terms : fit;
    for (size_t i = 0; i < affinity->spread.count; i++) {
        const struct term *term = &affinity->spread.items[i];

        if (!term->required)
            continue;
        /* Who is on its way out counts no more, and is waited for where it is in the way. */
        if (!spread_holds(term, node, false)) {
            *ret_why = PLACE_SPREAD;
            return FIT_NO;
        }
        if (!spread_holds(term, node, true))
            fit = FIT_RELEASING;
    }
    return fit;
}

static double raw_score(const struct affinity *affinity, const struct node *node)
{
    double score = 0;

    for (size_t i = 0; i < affinity->soft.count; i++) {
        const struct term *term = &affinity->soft.items[i];
        const struct domain *domain = domain_find(term, node);
        if (domain)
            score += (double)(term->weight * (domain->active + domain->releasing));
    }
    for (size_t i = 0; i < affinity->spread.count; i++) {
        const struct term *term = &affinity->spread.items[i];
        const struct domain *domain = domain_find(term, node);
        if (!term->required && domain)
            score -= (double)(domain->active + domain->releasing);
    }
    return score;
}

/* Scores run from 0 (the worst node of the set) to 100, as Kubernetes scales them. */
void affinity_scale(struct affinity *affinity, const struct node_set *set)
{
    if (!affinity)
        return;
    for (size_t i = 0; i < set->count; i++) {
        double score = raw_score(affinity, set->nodes[i]);
        if (i == 0 || score < affinity->score_min)
            affinity->score_min = score;
        if (i == 0 || score > affinity->score_max)
            affinity->score_max = score;
    }
}

double affinity_score(const struct affinity *affinity, const struct node *node)
{
    if (!affinity || affinity->score_max <= affinity->score_min)
        return 0;
    return 100 * (raw_score(affinity, node) - affinity->score_min) /
           (affinity->score_max - affinity->score_min);
}
