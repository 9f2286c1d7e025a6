#include "server/oidc.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/jwks.h"
#include "server/issuer.h"
#include "server/request.h"
#include "server/signin.h"
#include "tool/clock.h"
#include "tool/log.h"
#include "tool/timer.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

/* ---- options ---- */

static const char *wrong_algorithm(struct str algorithms)
{
    struct str word;

    while (algorithms.len && str_cut(&algorithms, ',', &word))
        if (!str_is(word, "RS256") && !str_is(word, "ES256"))
            return "must be RS256, ES256 or both, with a comma between them";
    return NULL;
}

int oidc_check(const struct oidc_options *options, struct err *err)
{
    if (!options->issuer.len &&
        (options->client_id.len || options->client_secret.len || options->required_count))
        return err_set(err, -EINVAL,
                       "--oidc-issuer-url is missing: it says whose tokens are meant");
    if (!options->issuer.len)
        return 0;
    if (!str_starts(options->issuer, STR("https://")) || str_contains(options->issuer, STR("?")) ||
        options->issuer.len + sizeof(ISSUER_PATH) > ISSUER_URL_BYTES)
        return err_set(err, -EINVAL,
                       "--oidc-issuer-url: \"" STR_FMT "\" must be an address of https, as the "
                       "issuer calls itself",
                       STR_ARG(options->issuer));
    if (!options->client_id.len)
        return err_set(err, -EINVAL,
                       "--oidc-client-id is missing: it says for whom the issuer's tokens are");
    if (wrong_algorithm(options->algorithms))
        return err_set(err, -EINVAL, "--oidc-signing-algs: \"" STR_FMT "\" %s",
                       STR_ARG(options->algorithms), wrong_algorithm(options->algorithms));
    for (size_t i = 0; i < options->required_count; i++)
        if (str_find(options->required[i], '=') >= options->required[i].len)
            return err_set(err, -EINVAL,
                           "--oidc-required-claim: \"" STR_FMT "\" is not CLAIM=VALUE",
                           STR_ARG(options->required[i]));
    return 0;
}

/* ---- claims ---- */

static bool is_for(const struct json *claims, struct str client)
{
    const struct json *audience = json_get(claims, "aud");
    const struct json *party = json_get(claims, "azp");
    bool named = str_eq(json_str(audience), client);

    JSON_FOREACH(audience, each)
        named = named || str_eq(json_str(each), client);
    return named && (json_is_null(party) || str_eq(json_str(party), client));
}

/* Seconds since 1970; a fraction is allowed. */
static bool moment_of(const struct json *claims, const char *name, int64_t *ret_ms)
{
    const struct json *value = json_get(claims, name);
    struct str text = json_is(value, JSON_NUMBER) ? json_number_text(value) : STR_NONE;
    int64_t seconds = 0;

    text = str_sub(text, 0, str_find(text, '.'));
    if (!str_to_i64(text, &seconds) || seconds < 0 || seconds > INT64_MAX / 1000)
        return false;
    *ret_ms = seconds * 1000;
    return true;
}

/* The first that does not hold; empty: all do. */
static struct str missing_of(const struct oidc_options *options, const struct json *claims)
{
    for (size_t i = 0; i < options->required_count; i++) {
        struct str value = options->required[i], name;

        (void)str_cut(&value, '=', &name);
        if (!str_eq(json_str(json_get_str(claims, name)), value))
            return options->required[i];
    }
    return STR_NONE;
}

/* What begins with "system:" is this server's own to give. */
static bool is_ours(struct str name)
{
    return str_starts(name, STR("system:")) || str_starts(name, STR("muster:"));
}

static struct str name_claim(const struct oidc_options *options)
{
    return options->username_claim.len ? options->username_claim : STR("sub");
}

/* Empty: err says why there is none. */
static struct str name_of(const struct oidc_options *options,
                          struct arena *arena,
                          const struct json *claims,
                          struct err *err)
{
    struct str claim = name_claim(options);
    struct str name = json_str(json_get_str(claims, claim));
    struct str prefix = options->username_prefix;
    bool email = str_is(claim, "email");

    if (!name.len) {
        (void)err_set(err, -EACCES, "it has no claim \"" STR_FMT "\", which would be the name here",
                      STR_ARG(claim));
        return STR_NONE;
    }
    /* Some issuers write it as a text: what is there and is not true does not count as true. */
    const struct json *verified = json_get(claims, "email_verified");
    if (email && !json_is_null(verified) && !json_bool_or(verified, false)) {
        (void)err_set(err, -EACCES, "the email " STR_FMT " is not verified", STR_ARG(name));
        return STR_NONE;
    }
    if (str_is(prefix, "-"))
        prefix = STR("");
    else if (!prefix.len && !email)
        prefix = str_printf(arena, STR_FMT "#", STR_ARG(options->issuer));
    name = str_printf(arena, STR_FMT STR_FMT, STR_ARG(prefix), STR_ARG(name));
    if (!is_ours(name))
        return name;
    (void)err_set(err, -EACCES, "no person has a name like " STR_FMT, STR_ARG(name));
    return STR_NONE;
}

static void group_add(const struct oidc_options *options,
                      struct arena *arena,
                      struct str group,
                      struct user *user)
{
    struct str name =
        str_printf(arena, STR_FMT STR_FMT, STR_ARG(options->groups_prefix), STR_ARG(group));

    if (group.len && !is_ours(name) && user->group_count < OIDC_GROUPS_MAX)
        user->groups[user->group_count++] = name;
}

/* Whether the token is for us, now. */
static int hold_claims(const struct oidc_options *options,
                       const struct json *claims,
                       int64_t now_ms,
                       int64_t *ret_expires_ms,
                       struct err *err)
{
    int64_t expires_ms = 0, from_ms = 0;
    struct str missing = missing_of(options, claims);

    if (!str_eq(json_str(json_get(claims, "iss")), options->issuer))
        return err_set(err, -EACCES, "it is not of " STR_FMT, STR_ARG(options->issuer));
    if (!is_for(claims, options->client_id))
        return err_set(err, -EACCES, "it is not for the client " STR_FMT,
                       STR_ARG(options->client_id));
    if (!moment_of(claims, "exp", &expires_ms) || expires_ms <= now_ms)
        return err_set(err, -EACCES, "it is over (exp); is the clock of this machine right?");
    if (!json_is_null(json_get(claims, "nbf")) &&
        (!moment_of(claims, "nbf", &from_ms) || from_ms > now_ms))
        return err_set(err, -EACCES,
                       "it is not good yet (nbf); is the clock of this machine right?");
    if (missing.len)
        return err_set(err, -EACCES, "it does not have the claim " STR_FMT, STR_ARG(missing));
    *ret_expires_ms = expires_ms;
    return 0;
}

bool oidc_user(const struct oidc_options *options,
               struct arena *arena,
               const struct json *claims,
               int64_t now_ms,
               struct user *ret,
               struct err *err)
{
    struct user user = {0};

    if (hold_claims(options, claims, now_ms, &user.expires_ms, err) < 0)
        return false;
    user.name = name_of(options, arena, claims, err);
    if (!user.name.len)
        return false;
    const struct json *groups =
        options->groups_claim.len ? json_get_str(claims, options->groups_claim) : NULL;
    group_add(options, arena, json_str(groups), &user);
    JSON_FOREACH(groups, group)
        group_add(options, arena, json_str(group), &user);
    user.groups[user.group_count++] = STR("system:authenticated");
    *ret = user;
    return true;
}

/* ---- the issuer ---- */

struct oidc {
    struct arena arena; /* of the options */
    struct oidc_options options;
    uv_loop_t *loop;
    const struct log *log;
    struct timer *timer;
    struct look *looks[1 + OIDC_SIGNINS_MAX]; /* under way; the first is for the keys alone */
    struct jwks *keys;                        /* NULL: none were read yet */
    struct buf authorization;                 /* as of the last look */
    struct buf scopes;
    int64_t looked_ms; /* when the last look for the keys began */
};

/* What a look is for. Lives in its arena. */
struct look {
    struct oidc *oidc; /* NULL once it is gone */
    size_t slot;
    struct str nonce;
    oidc_signin_fn *done; /* NULL: for the keys alone */
    void *user;
};

static void keys_look(void *user);

static void oidc_take(struct oidc *oidc, struct issuer_look *found)
{
    bool first = !oidc->keys;

    if (!found->keys)
        return;
    jwks_free(oidc->keys);
    oidc->keys = found->keys;
    found->keys = NULL;
    buf_clear(&oidc->authorization);
    buf_add(&oidc->authorization, found->authorization);
    buf_clear(&oidc->scopes);
    buf_add(&oidc->scopes, found->scopes);
    if (first)
        log_info(oidc->log, "oidc.keys", LOG_I64("count", (int64_t)jwks_count(oidc->keys)));
}

/* Whom the ID token that came for a code speaks of; false: err says why nobody. */
static bool token_user(struct oidc *oidc,
                       struct issuer_look *found,
                       struct str nonce,
                       struct user *ret)
{
    struct err *err = &found->err;
    const struct json *claims = jwks_claims(&found->arena, found->id_token);

    if (err->text[0])
        return false;
    if (!claims || jwks_verify(oidc->keys, &found->arena, found->id_token,
                               oidc->options.algorithms) != JWKS_HOLDS) {
        (void)err_set(err, -EACCES,
                      "the issuer's ID token is not signed by one of its keys as "
                      "--oidc-signing-algs wants");
        return false;
    }
    if (!str_eq(json_str(json_get(claims, "nonce")), nonce)) {
        (void)err_set(err, -EACCES, "the issuer's ID token is of another sign-in (nonce)");
        return false;
    }
    if (oidc_user(&oidc->options, &found->arena, claims, clock_now_ms(), ret, err))
        return true;
    (void)err_wrap(err, err->code, "this server does not take the issuer's ID token");
    return false;
}

static void look_on_end(struct issuer_look *found)
{
    struct look *look = found->user;
    struct oidc *oidc = look->oidc;
    struct user user;

    if (oidc) {
        oidc->looks[look->slot] = NULL;
        oidc_take(oidc, found);
        if (look->done) {
            bool known = token_user(oidc, found, look->nonce, &user);

            if (known)
                log_info(oidc->log, "oidc.signin", LOG_STR("user", user.name));
            else
                log_warn(oidc->log, "oidc.signin", LOG_STR("error", str_from(found->err.text)));
            look->done(look->user, known ? &user : NULL, found->id_token, found->err.text);
        } else {
            if (found->err.text[0])
                log_warn(oidc->log, "oidc.issuer", LOG_STR("error", str_from(found->err.text)));
            timer_in(oidc->timer, found->err.text[0] ? OIDC_AGAIN_MS : OIDC_REFRESH_MS, keys_look);
        }
    }
    issuer_look_free(found);
}

/* In a slot that is free. */
static bool look_begin(struct oidc *oidc, size_t slot, const struct look *look, struct str form)
{
    struct issuer_look *wanted = MEM_NEW(struct issuer_look);
    struct arena *arena = &wanted->arena;
    struct look *begun = ARENA_NEW(arena, struct look);

    *begun = *look;
    begun->oidc = oidc;
    begun->slot = slot;
    begun->nonce = str_dup(arena, look->nonce);
    wanted->issuer = str_dup(arena, oidc->options.issuer);
    wanted->ca_file = str_dup(arena, oidc->options.ca_file);
    wanted->client_id = str_dup(arena, oidc->options.client_id);
    wanted->client_secret = str_dup(arena, oidc->options.client_secret);
    wanted->form = str_dup(arena, form);
    wanted->done = look_on_end;
    wanted->user = begun;
    if (!issuer_look_begin(wanted, oidc->loop)) {
        issuer_look_free(wanted);
        return false;
    }
    oidc->looks[slot] = begun;
    return true;
}

static void keys_look(void *user)
{
    struct oidc *oidc = user;

    if (oidc->looks[0])
        return;
    oidc->looked_ms = clock_monotonic_ms();
    if (!look_begin(oidc, 0, &(struct look){0}, STR("")))
        timer_in(oidc->timer, OIDC_AGAIN_MS, keys_look);
}

struct oidc *oidc_start(uv_loop_t *loop, const struct log *log, const struct oidc_options *options)
{
    struct oidc *oidc = MEM_NEW(struct oidc);
    struct str *const texts[] = {
        &oidc->options.issuer,       &oidc->options.client_id,     &oidc->options.username_claim,
        &oidc->options.groups_claim, &oidc->options.groups_prefix, &oidc->options.username_prefix,
        &oidc->options.algorithms,   &oidc->options.ca_file,       &oidc->options.client_secret,
    };

    oidc->options = *options;
    if (!options->algorithms.len)
        oidc->options.algorithms = STR("RS256");
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        *texts[i] = str_dup(&oidc->arena, *texts[i]);
    for (size_t i = 0; i < options->required_count; i++)
        oidc->options.required[i] = str_dup(&oidc->arena, options->required[i]);
    oidc->loop = loop;
    oidc->log = log;
    oidc->timer = timer_new(loop, oidc);
    keys_look(oidc);
    return oidc;
}

void oidc_stop(struct oidc *oidc)
{
    if (!oidc)
        return;
    for (size_t i = 0; i < COUNT_OF(oidc->looks); i++) {
        struct look *look = oidc->looks[i];

        if (!look)
            continue;
        look->oidc = NULL;
        if (look->done)
            look->done(look->user, NULL, STR_NONE, "the server ends");
    }
    timer_free(oidc->timer);
    jwks_free(oidc->keys);
    buf_done(&oidc->authorization);
    buf_done(&oidc->scopes);
    arena_done(&oidc->arena);
    mem_free(oidc);
}

bool oidc_identify(struct oidc *oidc, struct arena *arena, struct str token, struct user *ret)
{
    const struct json *claims = oidc ? jwks_claims(arena, token) : NULL;
    struct user user;

    /* Whose it says it is comes first: other tokens are none of ours to look up keys for. */
    if (!claims || !oidc_user(&oidc->options, arena, claims, clock_now_ms(), &user, NULL))
        return false;
    enum jwks_verdict verdict = jwks_verify(oidc->keys, arena, token, oidc->options.algorithms);
    if (verdict == JWKS_UNKNOWN_KEY && clock_monotonic_ms() - oidc->looked_ms >= OIDC_AGAIN_MS)
        keys_look(oidc);
    if (verdict == JWKS_HOLDS)
        *ret = user;
    return verdict == JWKS_HOLDS;
}

/* ---- signing in ---- */

struct str oidc_issuer(const struct oidc *oidc)
{
    return oidc ? oidc->options.issuer : STR_NONE;
}

struct str oidc_signin_address(const struct oidc *oidc,
                               struct arena *arena,
                               const struct signin *signin)
{
    if (!oidc || !oidc->authorization.len)
        return STR_NONE;
    return signin_address(arena, signin,
                          &(struct signin_place){buf_str(&oidc->authorization),
                                                 oidc->options.client_id, buf_str(&oidc->scopes)});
}

bool oidc_signin(struct oidc *oidc,
                 struct arena *arena,
                 const struct signin *signin,
                 struct str code,
                 oidc_signin_fn *done,
                 void *user)
{
    struct look look = {.nonce = signin_nonce(arena, signin), .done = done, .user = user};

    for (size_t i = 1; i < COUNT_OF(oidc->looks); i++)
        if (!oidc->looks[i])
            return look_begin(oidc, i, &look, signin_form(arena, signin, code));
    return false;
}
