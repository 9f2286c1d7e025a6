#include "http/jwt_public.h"

#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"

#include <errno.h>
#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stddef.h>
#include <string.h>

#define NUMBER_BYTES 32 /* of this curve */
#define HASH_BYTES   32
#define ID_BYTES     16

static gnutls_datum_t datum_of(struct str text)
{
    return (gnutls_datum_t){(unsigned char *)(size_t)text.p, (unsigned)text.len};
}

static void private_donep(gnutls_privkey_t *key)
{
    if (*key)
        gnutls_privkey_deinit(*key);
}

static void public_donep(gnutls_pubkey_t *key)
{
    if (*key)
        gnutls_pubkey_deinit(*key);
}

static void datum_donep(gnutls_datum_t *datum)
{
    gnutls_free(datum->data);
}

static int private_read(struct str pem, gnutls_privkey_t *ret)
{
    gnutls_datum_t text = datum_of(pem);

    if (!pem.len || gnutls_privkey_init(ret) < 0)
        return -1;
    return gnutls_privkey_import_x509_raw(*ret, &text, GNUTLS_X509_FMT_PEM, NULL, 0);
}

static int public_read(struct str pem, gnutls_pubkey_t *ret)
{
    _cleanup_(private_donep) gnutls_privkey_t key = NULL;

    if (private_read(pem, &key) < 0 || gnutls_pubkey_init(ret) < 0)
        return -1;
    return gnutls_pubkey_import_privkey(*ret, key, 0, 0);
}

/* With as many zeros before it as it needs; numbers may have one too many. False: it is longer. */
static bool number_put(const gnutls_datum_t *number, unsigned char out[static NUMBER_BYTES])
{
    size_t skip = 0;

    while (number->size - skip > NUMBER_BYTES && number->data[skip] == 0)
        skip++;
    size_t len = number->size - skip;
    if (len > NUMBER_BYTES)
        return false;
    memset(out, 0, NUMBER_BYTES);
    memcpy(out + NUMBER_BYTES - len, number->data + skip, len);
    return true;
}

int jwt_public_make(struct buf *out, struct err *err)
{
    gnutls_x509_privkey_t key = NULL;
    _cleanup_(datum_donep) gnutls_datum_t pem = {0};
    int r = gnutls_x509_privkey_init(&key);

    if (r == 0)
        r = gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
                                         GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0);
    if (r == 0)
        r = gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &pem);
    if (r == 0)
        buf_add(out, (struct str){(const char *)pem.data, pem.size});
    if (key)
        gnutls_x509_privkey_deinit(key);
    return r == 0 ? 0 : err_set(err, -EIO, "cannot make a key: %s", gnutls_strerror(r));
}

struct str jwt_public_sign(struct arena *arena, struct str pem, struct str text)
{
    _cleanup_(private_donep) gnutls_privkey_t key = NULL;
    _cleanup_(datum_donep) gnutls_datum_t signature = {0};
    _cleanup_(datum_donep) gnutls_datum_t first = {0};
    _cleanup_(datum_donep) gnutls_datum_t second = {0};
    unsigned char *both = ARENA_ARRAY(arena, unsigned char, 2 * NUMBER_BYTES);
    gnutls_datum_t data = datum_of(text);

    if (private_read(pem, &key) < 0 ||
        gnutls_privkey_sign_data2(key, GNUTLS_SIGN_ECDSA_SHA256, 0, &data, &signature) < 0 ||
        gnutls_decode_rs_value(&signature, &first, &second) < 0 || !number_put(&first, both) ||
        !number_put(&second, both + NUMBER_BYTES))
        return STR_NONE;
    return (struct str){(const char *)both, 2 * (size_t)NUMBER_BYTES};
}

bool jwt_public_holds(struct str pem, struct str text, struct str signature)
{
    _cleanup_(public_donep) gnutls_pubkey_t key = NULL;
    _cleanup_(datum_donep) gnutls_datum_t coded = {0};
    gnutls_datum_t data = datum_of(text);

    if (signature.len != 2 * (size_t)NUMBER_BYTES || public_read(pem, &key) < 0)
        return false;
    gnutls_datum_t first = datum_of(str_sub(signature, 0, NUMBER_BYTES));
    gnutls_datum_t second = datum_of(str_sub(signature, NUMBER_BYTES, NUMBER_BYTES));
    return gnutls_encode_rs_value(&coded, &first, &second) == 0 &&
           gnutls_pubkey_verify_data2(key, GNUTLS_SIGN_ECDSA_SHA256, 0, &data, &coded) >= 0;
}

/* Both numbers of the point, one after the other. */
static bool point_read(struct str pem, unsigned char out[static 2 * NUMBER_BYTES])
{
    _cleanup_(public_donep) gnutls_pubkey_t key = NULL;
    _cleanup_(datum_donep) gnutls_datum_t x = {0};
    _cleanup_(datum_donep) gnutls_datum_t y = {0};
    gnutls_ecc_curve_t curve = GNUTLS_ECC_CURVE_INVALID;

    return public_read(pem, &key) == 0 && gnutls_pubkey_export_ecc_raw(key, &curve, &x, &y) == 0 &&
           curve == GNUTLS_ECC_CURVE_SECP256R1 && number_put(&x, out) &&
           number_put(&y, out + NUMBER_BYTES);
}

struct str jwt_public_id(struct arena *arena, struct str pem)
{
    unsigned char point[2 * NUMBER_BYTES];
    unsigned char hash[HASH_BYTES];

    if (!point_read(pem, point) ||
        gnutls_hash_fast(GNUTLS_DIG_SHA256, point, sizeof(point), hash) < 0)
        return STR_NONE;
    return base64url_encode(arena, (struct str){(const char *)hash, ID_BYTES});
}

void jwt_public_keys(struct buf *out, struct str pem)
{
    _cleanup_(arena_done) struct arena arena = {0};
    unsigned char point[2 * NUMBER_BYTES];

    if (!point_read(pem, point)) {
        buf_add(out, STR("{\"keys\":[]}"));
        return;
    }
    struct str x = base64url_encode(&arena, (struct str){(const char *)point, NUMBER_BYTES});
    struct str y =
        base64url_encode(&arena, (struct str){(const char *)point + NUMBER_BYTES, NUMBER_BYTES});
    buf_addf(out,
             "{\"keys\":[{\"use\":\"sig\",\"kty\":\"EC\",\"kid\":\"" STR_FMT
             "\",\"crv\":\"P-256\",\"alg\":\"ES256\",\"x\":\"" STR_FMT "\",\"y\":\"" STR_FMT
             "\"}]}",
             STR_ARG(jwt_public_id(&arena, pem)), STR_ARG(x), STR_ARG(y));
}
