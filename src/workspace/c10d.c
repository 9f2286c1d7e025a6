#include "workspace/c10d.h"

#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/mem.h"
#include "workspace/address.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define GREETING 0x3c85f7ceu

/* Types of requests, as clients from 2.1 on count them. */
enum ask {
    ASK_GREET,
    ASK_SET,
    ASK_COMPARE_SET,
    ASK_GET,
    ASK_ADD,
    ASK_CHECK,
    ASK_WAIT,
    ASK_COUNT,
    ASK_DELETE,
    ASK_APPEND,
    ASK_GET_MANY,
    ASK_SET_MANY,
    ASK_CANCEL_WAIT,
    ASK_PING,
    ASK_END,
};

/* And as older ones do. */
static const enum ask older[] = {ASK_SET,  ASK_COMPARE_SET, ASK_GET, ASK_ADD,   ASK_CHECK,
                                 ASK_WAIT, ASK_COUNT,       ASK_END, ASK_DELETE};

/* Answers of one byte. */
#define READY         '\0'
#define NOT_READY     '\1'
#define STOP_WAITING  '\0'
#define WAIT_CANCELED '\1'

struct c10d_value {
    struct str key;
    struct buf value;
};

static void value_free(struct c10d_value *value)
{
    buf_done(&value->value);
    mem_free(value);
}

static struct c10d_value *find(const struct c10d *store, struct str key)
{
    return map_get(&store->keys, key);
}

/* -ENOSPC: the store is full. */
static int set(struct c10d *store, struct str key, struct str text)
{
    struct c10d_value *value = find(store, key);
    uint64_t old = value ? value->value.len : 0;

    if (store->bytes - old + text.len > C10D_BYTES_MAX || store->keys.count >= C10D_KEYS_MAX)
        return -ENOSPC;
    if (!value) {
        value = mem_alloc(sizeof(*value) + key.len + 1);
        memcpy(value + 1, key.p, key.len);
        value->key = (struct str){(const char *)(value + 1), key.len};
        (void)map_set(&store->keys, value->key, value);
    }
    buf_clear(&value->value);
    buf_add(&value->value, text);
    store->bytes += text.len - old;
    return 0;
}

void c10d_done(struct c10d *store)
{
    MAP_FOREACH(&store->keys, item)
        value_free(item->value);
    map_done(&store->keys);
    store->bytes = 0;
}

/* ---- reading requests ---- */

/* What is left of the request; `cut` once it ends too early, `bad` when a length cannot be. */
struct reader {
    struct str rest;
    bool cut;
    bool bad;
};

static uint64_t take(struct reader *reader, size_t bytes)
{
    uint64_t number = 0;

    if (reader->rest.len < bytes) {
        reader->cut = true;
        return 0;
    }
    memcpy(&number, reader->rest.p, bytes); /* little-endian or not, as the client */
    reader->rest = str_sub(reader->rest, bytes, reader->rest.len);
    return number;
}

static struct str take_text(struct reader *reader)
{
    uint64_t len = take(reader, sizeof(len));
    struct str text;

    if (len > C10D_VALUE_MAX) {
        reader->bad = true;
        return STR("");
    }
    if (reader->cut || reader->rest.len < len) {
        reader->cut = true;
        return STR("");
    }
    text = str_sub(reader->rest, 0, (size_t)len);
    reader->rest = str_sub(reader->rest, (size_t)len, reader->rest.len);
    return text;
}

static void put_text(struct buf *out, struct str text)
{
    uint64_t len = text.len;

    buf_add(out, (struct str){(const char *)&len, sizeof(len)});
    buf_add(out, text);
}

static void put_number(struct buf *out, int64_t number)
{
    buf_add(out, (struct str){(const char *)&number, sizeof(number)});
}

static struct str value_of(const struct c10d *store, struct str key)
{
    const struct c10d_value *value = find(store, key);

    return value ? buf_str(&value->value) : STR("");
}

/* ---- requests; each is carried out only when it is here whole ---- */

static bool whole(const struct reader *reader)
{
    return !reader->cut && !reader->bad;
}

static int ask_set(struct c10d_conn *conn, struct reader *reader, bool append)
{
    _cleanup_(buf_done) struct buf joined = {0};
    struct str key = take_text(reader);
    struct str text = take_text(reader);

    if (!whole(reader))
        return 0;
    if (append) {
        buf_add(&joined, value_of(conn->store, key));
        buf_add(&joined, text);
        text = buf_str(&joined);
    }
    return set(conn->store, key, text);
}

static int ask_compare_set(struct c10d_conn *conn, struct reader *reader)
{
    struct str key = take_text(reader);
    struct str expected = take_text(reader);
    struct str wanted = take_text(reader);
    const struct c10d_value *value = find(conn->store, key);
    int r = 0;

    if (!whole(reader))
        return 0;
    if (!value && expected.len) {
        put_text(&conn->out, expected);
    } else if (value && !str_eq(buf_str(&value->value), expected)) {
        put_text(&conn->out, buf_str(&value->value));
    } else {
        r = set(conn->store, key, wanted);
        put_text(&conn->out, wanted);
    }
    return r;
}

static int ask_add(struct c10d_conn *conn, struct reader *reader)
{
    struct str key = take_text(reader);
    int64_t sum = (int64_t)take(reader, sizeof(sum));
    int64_t before = 0;
    char text[24];
    int r;

    if (!whole(reader))
        return 0;
    (void)str_to_i64(value_of(conn->store, key), &before);
    sum = (int64_t)((uint64_t)sum + (uint64_t)before);
    (void)snprintf(text, sizeof(text), "%lld", (long long)sum);
    r = set(conn->store, key, str_from(text));
    put_number(&conn->out, sum);
    return r;
}

static int ask_delete(struct c10d_conn *conn, struct reader *reader)
{
    struct str key = take_text(reader);
    struct c10d_value *value;

    if (!whole(reader))
        return 0;
    value = map_remove(&conn->store->keys, key);
    if (value) {
        conn->store->bytes -= value->value.len;
        value_free(value);
    }
    put_number(&conn->out, value != NULL);
    return 0;
}

static void forget_awaited(struct c10d_conn *conn)
{
    for (size_t i = 0; i < conn->awaited.count; i++)
        mem_free(conn->awaited.items[i]);
    conn->awaited.count = 0;
}

/* A length and so many bytes, since keys may hold anything. */
static void await(struct c10d_conn *conn, struct str key)
{
    char *copy = mem_alloc(sizeof(key.len) + key.len + 1);

    memcpy(copy, &key.len, sizeof(key.len));
    memcpy(copy + sizeof(key.len), key.p, key.len);
    VEC_PUSH(NULL, &conn->awaited, copy);
}

void c10d_wake(struct c10d_conn *conn)
{
    if (!conn->awaited.count)
        return;
    for (size_t i = 0; i < conn->awaited.count; i++) {
        struct str key = {.p = conn->awaited.items[i] + sizeof(key.len)};

        memcpy(&key.len, conn->awaited.items[i], sizeof(key.len));
        if (!find(conn->store, key))
            return;
    }
    forget_awaited(conn);
    buf_addc(&conn->out, STOP_WAITING);
}

/* check, wait, get many, set many: a count, then keys. */
static int ask_many(struct c10d_conn *conn, struct reader *reader, enum ask ask)
{
    struct str begin = reader->rest;
    uint64_t count = take(reader, sizeof(count));
    bool all = true;
    int r = 0;

    if (count > C10D_ARGS_MAX)
        reader->bad = true;
    for (uint64_t i = 0; whole(reader) && i < count; i++) {
        struct str key = take_text(reader);

        if (ask == ASK_SET_MANY)
            (void)take_text(reader);
        all = all && find(conn->store, key);
    }
    if (!whole(reader))
        return 0;
    if (ask == ASK_WAIT)
        forget_awaited(conn); /* an older client that gave up waiting does not say so */
    if (ask == ASK_CHECK)
        buf_addc(&conn->out, all ? READY : NOT_READY);
    struct reader again = {.rest = begin};
    count = take(&again, sizeof(count));
    for (uint64_t i = 0; r == 0 && ask != ASK_CHECK && i < count; i++) {
        struct str key = take_text(&again);

        if (ask == ASK_SET_MANY)
            r = set(conn->store, key, take_text(&again));
        else if (ask == ASK_GET_MANY)
            put_text(&conn->out, value_of(conn->store, key));
        else
            await(conn, key);
    }
    if (ask == ASK_WAIT && count == 0)
        buf_addc(&conn->out, STOP_WAITING);
    c10d_wake(conn);
    return r;
}

static int answer(struct c10d_conn *conn, enum ask ask, struct reader *reader)
{
    uint32_t word;
    struct str key;

    switch (ask) {
    case ASK_SET: return ask_set(conn, reader, false);
    case ASK_APPEND: return ask_set(conn, reader, true);
    case ASK_COMPARE_SET: return ask_compare_set(conn, reader);
    case ASK_ADD: return ask_add(conn, reader);
    case ASK_DELETE: return ask_delete(conn, reader);
    case ASK_CHECK:
    case ASK_WAIT:
    case ASK_GET_MANY:
    case ASK_SET_MANY: return ask_many(conn, reader, ask);
    case ASK_GET:
        key = take_text(reader);
        if (whole(reader))
            put_text(&conn->out, value_of(conn->store, key));
        return 0;
    case ASK_COUNT: put_number(&conn->out, (int64_t)conn->store->keys.count); return 0;
    case ASK_CANCEL_WAIT:
        forget_awaited(conn);
        buf_addc(&conn->out, WAIT_CANCELED);
        return 0;
    case ASK_PING:
        word = (uint32_t)take(reader, sizeof(word));
        if (whole(reader))
            buf_add(&conn->out, (struct str){(const char *)&word, sizeof(word)});
        return 0;
    case ASK_GREET:
        word = (uint32_t)take(reader, sizeof(word));
        return whole(reader) && word != GREETING ? -EPROTO : 0;
    case ASK_END: break;
    }
    return -EPROTO;
}

/* A first byte of zero is the greeting of a recent client, or an older one's "set". */
static bool is_greeting(struct str in)
{
    uint32_t word;

    if (in.p[0] != '\0')
        return false;
    memcpy(&word, in.p + 1, sizeof(word));
    return word == GREETING;
}

int c10d_input(struct c10d_conn *conn, struct str bytes)
{
    size_t used = 0;
    int r = 0;

    buf_add(&conn->in, bytes);
    if (!conn->greeted && conn->in.len < 1 + sizeof(uint32_t))
        return 0; /* every first request is longer */
    if (!conn->greeted) {
        conn->greeted = true;
        conn->recent = is_greeting(buf_str(&conn->in));
    }
    while (r == 0 && used < conn->in.len) {
        struct reader reader = {.rest = str_sub(buf_str(&conn->in), used + 1, conn->in.len)};
        unsigned char type = (unsigned char)conn->in.p[used];
        enum ask ask = ASK_END;

        if (conn->recent && type < ASK_END)
            ask = (enum ask)type;
        else if (!conn->recent && type < COUNT_OF(older))
            ask = older[type];
        r = answer(conn, ask, &reader);
        if (reader.bad)
            r = -EPROTO;
        if (reader.cut)
            break;
        used = conn->in.len - reader.rest.len;
    }
    buf_consume(&conn->in, used);
    return r;
}

void c10d_conn_done(struct c10d_conn *conn)
{
    forget_awaited(conn);
    VEC_DONE(&conn->awaited);
    buf_done(&conn->in);
    buf_done(&conn->out);
}

size_t c10d_gives_way(const struct c10d_waiting *waiting, size_t count, struct address address)
{
    size_t oldest = SIZE_MAX;
    size_t oldest_own = SIZE_MAX;
    size_t own = 0;

    for (size_t i = 0; i < count; i++) {
        if (oldest == SIZE_MAX || waiting[i].until_ms < waiting[oldest].until_ms)
            oldest = i;
        if (!address_eq(waiting[i].address, address))
            continue;
        own++;
        if (oldest_own == SIZE_MAX || waiting[i].until_ms < waiting[oldest_own].until_ms)
            oldest_own = i;
    }
    if (own >= C10D_WAITING_OF_ONE_MAX)
        return oldest_own;
    return count >= C10D_WAITING_MAX ? oldest : SIZE_MAX;
}
