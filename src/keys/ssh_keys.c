#include "keys/ssh_keys.h"

#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

#include <errno.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stddef.h>
#include <stdint.h>

#define COORDINATE_BYTES 66 /* of a point of P-521 */
#define KEY_TYPE         "ecdsa-sha2-nistp521"
#define CURVE_NAME       "nistp521"

/* A length in four bytes, then the bytes. */
static void add_string(struct buf *out, struct str text)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        buf_addc(out, (char)(text.len >> shift & 0xff));
    buf_add(out, text);
}

/* As many leading zeros as the field needs. */
static void add_coordinate(struct buf *out, const gnutls_datum_t *value)
{
    for (size_t i = value->size; i < COORDINATE_BYTES; i++)
        buf_addc(out, '\0');
    buf_add(out, (struct str){(const char *)value->data, value->size});
}

static int public_text(struct arena *arena, gnutls_privkey_t key, struct str *ret)
{
    _cleanup_(buf_done) struct buf point = {0};
    _cleanup_(buf_done) struct buf blob = {0};
    gnutls_datum_t x = {0};
    gnutls_datum_t y = {0};
    gnutls_datum_t secret = {0};
    gnutls_ecc_curve_t curve;
    int r = gnutls_privkey_export_ecc_raw2(key, &curve, &x, &y, &secret, GNUTLS_EXPORT_FLAG_NO_LZ);

    if (r < 0)
        return r;
    buf_addc(&point, '\4');
    add_coordinate(&point, &x);
    add_coordinate(&point, &y);
    add_string(&blob, STR(KEY_TYPE));
    add_string(&blob, STR(CURVE_NAME));
    add_string(&blob, buf_str(&point));
    *ret =
        str_printf(arena, KEY_TYPE " " STR_FMT "\n", STR_ARG(base64_encode(arena, buf_str(&blob))));
    gnutls_free(x.data);
    gnutls_free(y.data);
    gnutls_memset(secret.data, 0, secret.size);
    gnutls_free(secret.data);
    return 0;
}

static int private_text(struct arena *arena, gnutls_privkey_t key, struct str *ret)
{
    gnutls_x509_privkey_t plain = NULL;
    gnutls_datum_t pem = {0};
    int r = gnutls_privkey_export_x509(key, &plain);

    if (r == 0)
        r = gnutls_x509_privkey_export2(plain, GNUTLS_X509_FMT_PEM, &pem);
    if (r == 0)
        *ret = str_dup(arena, (struct str){(const char *)pem.data, pem.size});
    gnutls_free(pem.data);
    if (plain)
        gnutls_x509_privkey_deinit(plain);
    return r;
}

int ssh_keys_fill(struct arena *arena, struct json *secret, struct err *err)
{
    gnutls_privkey_t key = NULL;
    struct str public = STR_NONE;
    struct str private = STR_NONE;
    int r = gnutls_privkey_init(&key);

    if (r == 0)
        r = gnutls_privkey_generate(key, GNUTLS_PK_ECDSA,
                                    GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP521R1), 0);
    if (r == 0)
        r = public_text(arena, key, &public);
    if (r == 0)
        r = private_text(arena, key, &private);
    if (key)
        gnutls_privkey_deinit(key);
    if (r < 0)
        return err_set(err, -EIO, "cannot create a key pair: %s", gnutls_strerror(r));
    struct json *data = json_make_path(arena, secret, "data");
    json_add_str(arena, data, "ssh-privatekey", base64_encode(arena, private));
    json_add_str(arena, data, "ssh-publickey", base64_encode(arena, public));
    return 0;
}
