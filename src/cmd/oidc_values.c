#include "cmd/oidc_values.h"

#include "base/err.h"
#include "base/str.h"
#include "server/oidc.h"
#include "tool/file.h"

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

static struct str text_of(const char *text)
{
    return str_from(text ? text : "");
}

/* The secret, without the end of its line. */
static int read_secret(const struct oidc_values *values,
                       struct arena *arena,
                       struct oidc_options *options,
                       struct err *err)
{
    struct str text = STR("");

    if (!values->client_secret_file)
        return 0;
    int r = file_read(arena, values->client_secret_file, &text, err);
    if (r < 0)
        return err_wrap(err, r, "--oidc-client-secret-file");
    options->client_secret = str_trim(text);
    if (!options->client_secret.len)
        return err_set(err, -EINVAL, "--oidc-client-secret-file: %s is empty",
                       values->client_secret_file);
    return 0;
}

int oidc_values_read(const struct oidc_values *values,
                     struct arena *arena,
                     struct oidc_options *ret,
                     struct err *err)
{
    struct oidc_options options = {
        .issuer = text_of(values->issuer),
        .client_id = text_of(values->client_id),
        .username_claim = text_of(values->username_claim),
        .username_prefix = text_of(values->username_prefix),
        .groups_claim = text_of(values->groups_claim),
        .groups_prefix = text_of(values->groups_prefix),
        .ca_file = text_of(values->ca_file),
        .algorithms = text_of(values->algorithms),
    };

    if (values->required.count > OIDC_REQUIRED_MAX)
        return err_set(err, -EINVAL, "--oidc-required-claim: at most %d", OIDC_REQUIRED_MAX);
    for (size_t i = 0; i < values->required.count; i++)
        options.required[options.required_count++] = str_from(values->required.items[i]);
    if (values->ca_file && access(values->ca_file, R_OK) < 0)
        return err_set(err, -errno, "--oidc-ca-file: %s: %m", values->ca_file);
    int r = read_secret(values, arena, &options, err);
    if (r < 0)
        return r;
    *ret = options;
    return oidc_check(ret, err);
}
