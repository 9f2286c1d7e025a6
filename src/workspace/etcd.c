#include "workspace/etcd.h"

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/time.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Error codes of the API, with the status and words clients expect. */
#define ETCD_ERRORS(X)                                                   \
    X(NOT_FOUND, 100, 404, "Key not found")                              \
    X(COMPARE, 101, 412, "Compare failed")                               \
    X(NOT_FILE, 102, 403, "Not a file")                                  \
    X(NOT_DIR, 104, 400, "Not a directory")                              \
    X(EXISTS, 105, 412, "Key already exists")                            \
    X(ROOT, 107, 403, "Root is read only")                               \
    X(NOT_EMPTY, 108, 403, "Directory not empty")                        \
    X(TTL, 202, 400, "The given TTL in POST form is not a number")       \
    X(INDEX, 203, 400, "The given index in POST form is not a number")   \
    X(FIELD, 209, 400, "Invalid field")                                  \
    X(TOO_MUCH, 210, 413, "Too many keys, or a value that is too large") \
    X(OUTDATED, 401, 400, "The event in requested index is outdated and cleared")

enum etcd_error {
#define X(name, code, status, text) ETCD_##name = code,
    ETCD_ERRORS(X)
#undef X
};

static void fail(struct etcd *etcd,
                 struct etcd_reply *reply,
                 enum etcd_error error,
                 struct str cause)
{
    const char *text = "";

    reply->status = 500;
    switch (error) {
#define X(name, code, http, words) \
    case ETCD_##name:              \
        reply->status = http;      \
        text = words;              \
        break;
        ETCD_ERRORS(X)
#undef X
    }
    reply->index = etcd->index;
    buf_clear(&reply->body);
    buf_addf(&reply->body, "{\"errorCode\":%d,\"message\":\"%s\",\"cause\":", (int)error, text);
    json_write_string(&reply->body, cause);
    buf_addf(&reply->body, ",\"index\":%llu}\n", (unsigned long long)etcd->index);
}

/* ---- parameters ---- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static struct str decode(struct arena *arena, struct str text)
{
    char *out = ARENA_ARRAY(arena, char, text.len + 1);
    size_t n = 0;

    for (size_t i = 0; i < text.len; i++) {
        int high = i + 2 < text.len ? hex_digit(text.p[i + 1]) : -1;
        int low = i + 2 < text.len ? hex_digit(text.p[i + 2]) : -1;

        if (text.p[i] == '%' && high >= 0 && low >= 0) {
            out[n++] = (char)(unsigned char)(high << 4 | low);
            i += 2;
        } else {
            out[n++] = text.p[i] == '+' ? ' ' : text.p[i];
        }
    }
    return (struct str){out, n};
}

/* STR_NONE when not given; of body and URL the body counts. */
static struct str param(struct arena *arena, const struct etcd_request *request, const char *name)
{
    const struct str sources[] = {request->form, request->query};

    for (size_t i = 0; i < 2; i++) {
        struct str rest = sources[i].len ? sources[i] : STR_NONE;
        struct str pair;

        while (str_cut(&rest, '&', &pair)) {
            size_t eq = str_find(pair, '=');

            if (str_is(str_sub(pair, 0, eq), name))
                return decode(arena, str_sub(pair, eq + 1, pair.len));
        }
    }
    return STR_NONE;
}

static bool param_is_true(struct arena *arena, const struct etcd_request *request, const char *name)
{
    return str_is(param(arena, request, name), "true");
}

/* ---- nodes ---- */

/* Index of the first node that does not sort before `path`. */
static size_t lower_bound(const struct etcd *etcd, struct str path)
{
    size_t low = 0;
    size_t high = etcd->nodes.count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (str_cmp(etcd->nodes.items[middle]->path, path) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct etcd_node *find(const struct etcd *etcd, struct str path)
{
    size_t at = lower_bound(etcd, path);

    return at < etcd->nodes.count && str_eq(etcd->nodes.items[at]->path, path)
               ? etcd->nodes.items[at]
               : NULL;
}

static struct str own(struct str text)
{
    char *copy = mem_alloc(text.len + 1);

    if (text.len)
        memcpy(copy, text.p, text.len);
    return (struct str){copy, text.len};
}

static void disown(struct str text)
{
    mem_free((void *)(uintptr_t)text.p);
}

static void set_value(struct etcd *etcd, struct etcd_node *node, struct str value)
{
    etcd->bytes = etcd->bytes - node->value.len + value.len;
    disown(node->value);
    node->value = own(value);
}

static struct etcd_node *insert(struct etcd *etcd, struct str path, bool folder)
{
    struct etcd_node *node = MEM_NEW(struct etcd_node);
    size_t at = lower_bound(etcd, path);

    node->path = own(path);
    node->value = own(STR(""));
    node->folder = folder;
    node->hidden = str_contains(path, STR("/_"));
    VEC_PUSH(NULL, &etcd->nodes, node);
    memmove(&etcd->nodes.items[at + 1], &etcd->nodes.items[at],
            (etcd->nodes.count - 1 - at) * sizeof(node));
    etcd->nodes.items[at] = node;
    return node;
}

static void remove_at(struct etcd *etcd, size_t at)
{
    struct etcd_node *node = etcd->nodes.items[at];

    etcd->bytes -= node->value.len;
    disown(node->path);
    disown(node->value);
    mem_free(node);
    etcd->nodes.count--;
    memmove(&etcd->nodes.items[at], &etcd->nodes.items[at + 1],
            (etcd->nodes.count - at) * sizeof(node));
}

static bool is_below(struct str path, struct str folder)
{
    if (str_is(folder, "/"))
        return path.len > 1;
    return path.len > folder.len && str_starts(path, folder) && path.p[folder.len] == '/';
}

static bool is_child(struct str path, struct str folder)
{
    size_t base = str_is(folder, "/") ? 0 : folder.len;

    return is_below(path, folder) &&
           str_find(str_sub(path, base + 1, path.len), '/') == path.len - base - 1;
}

static bool has_children(const struct etcd *etcd, struct str folder)
{
    for (size_t i = lower_bound(etcd, folder) + 1; i < etcd->nodes.count; i++) {
        if (is_below(etcd->nodes.items[i]->path, folder))
            return true;
        if (!str_starts(etcd->nodes.items[i]->path, folder))
            return false;
    }
    return false;
}

/* ---- answers ---- */

static void write_head(struct buf *out, const struct etcd_node *node, int64_t now_ms)
{
    buf_add(out, STR("{\"key\":"));
    json_write_string(out, node->path);
    if (node->folder) {
        buf_add(out, STR(",\"dir\":true"));
    } else {
        buf_add(out, STR(",\"value\":"));
        json_write_string(out, node->value);
    }
    if (node->expires_ms) {
        char stamp[TIME_TEXT_BYTES];
        int64_t left = (node->expires_ms - now_ms + 999) / 1000;

        buf_addf(out, ",\"expiration\":\"" STR_FMT "\",\"ttl\":%lld",
                 STR_ARG(time_format(node->expires_ms, stamp)), (long long)(left > 0 ? left : 0));
    }
    buf_addf(out, ",\"modifiedIndex\":%llu,\"createdIndex\":%llu",
             (unsigned long long)node->modified, (unsigned long long)node->created);
}

static void write_tree(const struct etcd *etcd,
                       struct buf *out,
                       const struct etcd_node *node,
                       int64_t now_ms,
                       int depth)
{
    bool any = false;

    write_head(out, node, now_ms);
    for (size_t i = 0; node->folder && depth > 0 && i < etcd->nodes.count; i++) {
        const struct etcd_node *child = etcd->nodes.items[i];

        if (!is_child(child->path, node->path) || (child->hidden && !node->hidden))
            continue;
        buf_add(out, any ? STR(",") : STR(",\"nodes\":["));
        any = true;
        write_tree(etcd, out, child, now_ms, depth - 1);
    }
    if (any)
        buf_addc(out, ']');
    buf_addc(out, '}');
}

static void remember(struct etcd *etcd, struct str path, struct str json)
{
    struct etcd_event *event = &etcd->history[etcd->event_count % ETCD_HISTORY_MAX];

    mem_free(event->path);
    mem_free(event->json);
    event->path = (char *)(uintptr_t)own(path).p;
    event->json = (char *)(uintptr_t)own(json).p;
    event->index = etcd->index;
    etcd->event_count++;
}

/* What a node was, kept as text because the node changes next. */
static void snapshot(struct buf *out, const struct etcd_node *node, int64_t now_ms)
{
    write_head(out, node, now_ms);
    buf_addc(out, '}');
}

static void tell(struct etcd *etcd,
                 struct etcd_reply *reply,
                 const char *action,
                 const struct etcd_node *node,
                 struct str previous,
                 int64_t now_ms)
{
    reply->index = etcd->index;
    buf_addf(&reply->body, "{\"action\":\"%s\",\"node\":", action);
    snapshot(&reply->body, node, now_ms);
    if (previous.len)
        buf_addf(&reply->body, ",\"prevNode\":" STR_FMT, STR_ARG(previous));
    buf_add(&reply->body, STR("}\n"));
    if (strcmp(action, "get") != 0)
        remember(etcd, node->path, buf_str(&reply->body));
}

/* ---- writing ---- */

struct write {
    struct str path;
    struct str value;
    bool folder;
    bool refresh;     /* only the time to live; value and history stay */
    struct str exist; /* prevExist: "true", "false" or none */
    struct str prev_value;
    uint64_t prev_index; /* 0: not given */
    int64_t expires_ms;
};

/* Every folder above must be one; made where missing. */
static bool make_parents(struct etcd *etcd, struct str path, struct etcd_reply *reply)
{
    for (size_t i = 1; i < path.len; i++) {
        struct str above = str_sub(path, 0, i);
        struct etcd_node *node;

        if (path.p[i] != '/')
            continue;
        node = find(etcd, above);
        if (node && !node->folder) {
            fail(etcd, reply, ETCD_NOT_DIR, above);
            return false;
        }
        if (!node) {
            node = insert(etcd, above, true);
            node->created = node->modified = etcd->index + 1;
        }
    }
    return true;
}

static bool compare(struct etcd *etcd,
                    const struct write *w,
                    const struct etcd_node *node,
                    struct etcd_reply *reply)
{
    char cause[64] = "";

    if (w->prev_index && node->modified != w->prev_index)
        (void)snprintf(cause, sizeof(cause), "[%llu != %llu]", (unsigned long long)w->prev_index,
                       (unsigned long long)node->modified);
    else if (str_is_set(w->prev_value) && w->prev_value.len && !str_eq(node->value, w->prev_value))
        (void)snprintf(cause, sizeof(cause), "[%.20s != %.20s]", w->prev_value.p, node->value.p);
    if (!cause[0])
        return true;
    fail(etcd, reply, ETCD_COMPARE, str_from(cause));
    return false;
}

static void put_node(struct etcd *etcd,
                     const struct write *w,
                     int64_t now_ms,
                     struct etcd_reply *reply)
{
    _cleanup_(buf_done) struct buf previous = {0};
    struct etcd_node *node = find(etcd, w->path);
    bool compared = w->prev_index || (str_is_set(w->prev_value) && w->prev_value.len);
    const char *action = compared                    ? "compareAndSwap"
                         : str_is(w->exist, "false") ? "create"
                         : str_is(w->exist, "true")  ? "update"
                                                     : "set";

    if (!node && (compared || str_is(w->exist, "true") || w->refresh)) {
        fail(etcd, reply, ETCD_NOT_FOUND, w->path);
        return;
    }
    if (node && str_is(w->exist, "false")) {
        fail(etcd, reply, ETCD_EXISTS, w->path);
        return;
    }
    if (node && node->folder && !(w->folder && str_is(w->exist, "true"))) {
        fail(etcd, reply, ETCD_NOT_FILE, w->path);
        return;
    }
    if (node && compared && !compare(etcd, w, node, reply))
        return;
    if (etcd->nodes.count + ETCD_DEPTH_MAX > ETCD_NODES_MAX || w->value.len > ETCD_VALUE_MAX ||
        etcd->bytes + w->value.len > ETCD_BYTES_MAX) {
        fail(etcd, reply, ETCD_TOO_MUCH, w->path);
        return;
    }
    if (node)
        snapshot(&previous, node, now_ms);
    else if (!make_parents(etcd, w->path, reply))
        return;
    etcd->index++;
    reply->status = node ? 200 : 201;
    if (!node) {
        node = insert(etcd, w->path, w->folder);
        node->created = etcd->index;
    } else if (!w->refresh && strcmp(action, "set") == 0) {
        node->created = etcd->index;
    }
    node->modified = etcd->index;
    node->expires_ms = w->expires_ms;
    if (!w->folder && !w->refresh)
        set_value(etcd, node, w->value);
    tell(etcd, reply, action, node, buf_str(&previous), now_ms);
}

static void delete_node(struct etcd *etcd,
                        const struct write *w,
                        bool recursive,
                        int64_t now_ms,
                        struct etcd_reply *reply)
{
    _cleanup_(buf_done) struct buf previous = {0};
    struct etcd_node *node = find(etcd, w->path);
    bool compared = w->prev_index || (str_is_set(w->prev_value) && w->prev_value.len);
    struct etcd_node gone;

    if (!node) {
        fail(etcd, reply, ETCD_NOT_FOUND, w->path);
        return;
    }
    if (node->folder && !w->folder && !recursive) {
        fail(etcd, reply, ETCD_NOT_FILE, w->path);
        return;
    }
    if (node->folder && !recursive && has_children(etcd, w->path)) {
        fail(etcd, reply, ETCD_NOT_EMPTY, w->path);
        return;
    }
    if (compared && !compare(etcd, w, node, reply))
        return;
    snapshot(&previous, node, now_ms);
    etcd->index++;
    gone = *node;
    gone.modified = etcd->index;
    gone.value = STR("");
    gone.path = w->path;
    gone.expires_ms = 0;
    for (size_t i = etcd->nodes.count; i-- > 0;)
        if (is_below(etcd->nodes.items[i]->path, w->path))
            remove_at(etcd, i);
    remove_at(etcd, lower_bound(etcd, w->path));
    reply->status = 200;
    tell(etcd, reply, compared ? "compareAndDelete" : "delete", &gone, buf_str(&previous), now_ms);
}

/* ---- requests ---- */

/* "/a//b/" -> "/a/b"; false when it is too long or too deep. */
static bool clean_path(struct arena *arena, struct str raw, struct str *ret)
{
    struct buf out = {0};
    struct str rest = raw;
    struct str part;
    int depth = 0;

    while (str_cut(&rest, '/', &part)) {
        if (part.len == 0 || str_is(part, "."))
            continue;
        buf_addc(&out, '/');
        buf_add(&out, part);
        depth++;
    }
    *ret = out.len ? str_dup(arena, buf_str(&out)) : STR("/");
    buf_done(&out);
    return depth <= ETCD_DEPTH_MAX && ret->len < ETCD_PATH_MAX;
}

static bool read_write(struct arena *arena,
                       const struct etcd_request *request,
                       int64_t now_ms,
                       struct write *w,
                       enum etcd_error *ret_error)
{
    struct str ttl = param(arena, request, "ttl");
    struct str index = param(arena, request, "prevIndex");
    int64_t seconds = 0;

    w->value = param(arena, request, "value");
    w->folder = param_is_true(arena, request, "dir");
    w->refresh = param_is_true(arena, request, "refresh");
    w->exist = param(arena, request, "prevExist");
    w->prev_value = param(arena, request, "prevValue");
    if (ttl.len && (!str_to_i64(ttl, &seconds) || seconds < 0 || seconds > ETCD_TTL_S_MAX)) {
        *ret_error = ETCD_TTL;
        return false;
    }
    if (index.len && !str_to_u64(index, &w->prev_index)) {
        *ret_error = ETCD_INDEX;
        return false;
    }
    w->expires_ms = ttl.len && seconds > 0 ? now_ms + seconds * 1000 : 0;
    return true;
}

static void get_node(struct etcd *etcd,
                     struct arena *arena,
                     const struct etcd_request *request,
                     struct str path,
                     int64_t now_ms,
                     struct etcd_reply *reply)
{
    const struct etcd_node *node = find(etcd, path);

    if (!node) {
        fail(etcd, reply, ETCD_NOT_FOUND, path);
        return;
    }
    reply->status = 200;
    reply->index = etcd->index;
    buf_add(&reply->body, STR("{\"action\":\"get\",\"node\":"));
    write_tree(etcd, &reply->body, node, now_ms,
               param_is_true(arena, request, "recursive") ? ETCD_DEPTH_MAX : 1);
    buf_add(&reply->body, STR("}\n"));
}

static void start_wait(struct etcd *etcd,
                       struct arena *arena,
                       const struct etcd_request *request,
                       struct str path,
                       struct etcd_reply *reply,
                       struct etcd_wait *ret)
{
    struct str from = param(arena, request, "waitIndex");

    *ret = (struct etcd_wait){.from = etcd->index + 1,
                              .recursive = param_is_true(arena, request, "recursive")};
    memcpy(ret->path, path.p, path.len);
    if (from.len && !str_to_u64(from, &ret->from)) {
        fail(etcd, reply, ETCD_INDEX, from);
        return;
    }
    (void)etcd_wait(etcd, ret, reply);
}

void etcd_handle(struct etcd *etcd,
                 const struct etcd_request *request,
                 int64_t now_ms,
                 struct etcd_reply *reply,
                 struct etcd_wait *ret_wait)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct write w = {0};
    enum etcd_error error;
    bool post = str_is(request->method, "POST");
    bool put = str_is(request->method, "PUT");
    bool delete = str_is(request->method, "DELETE");

    (void)etcd_expire(etcd, now_ms);
    if (!clean_path(&arena, decode(&arena, request->path), &w.path)) {
        fail(etcd, reply, ETCD_FIELD, STR("the key is too long"));
    } else if (!put && !post && !delete) {
        if (param_is_true(&arena, request, "wait"))
            start_wait(etcd, &arena, request, w.path, reply, ret_wait);
        else
            get_node(etcd, &arena, request, w.path, now_ms, reply);
    } else if (!read_write(&arena, request, now_ms, &w, &error)) {
        fail(etcd, reply, error, w.path);
    } else if (str_is(w.path, "/") && !post) {
        fail(etcd, reply, ETCD_ROOT, w.path);
    } else if (delete) {
        delete_node(etcd, &w, param_is_true(&arena, request, "recursive"), now_ms, reply);
    } else {
        if (post) {
            /* An in-order key: a name that sorts behind all earlier ones. */
            w.path = str_printf(&arena, STR_FMT "/%020llu",
                                STR_ARG(str_is(w.path, "/") ? STR("") : w.path),
                                (unsigned long long)etcd->index + 1);
            w.exist = STR("false");
        }
        put_node(etcd, &w, now_ms, reply);
    }
}

bool etcd_wait(struct etcd *etcd, const struct etcd_wait *wait, struct etcd_reply *reply)
{
    struct str path = str_from(wait->path);
    uint64_t first =
        etcd->event_count > ETCD_HISTORY_MAX ? etcd->event_count - ETCD_HISTORY_MAX : 0;

    if (first > 0 && wait->from < etcd->history[first % ETCD_HISTORY_MAX].index) {
        fail(etcd, reply, ETCD_OUTDATED, path);
        return true;
    }
    for (uint64_t i = first; i < etcd->event_count; i++) {
        const struct etcd_event *event = &etcd->history[i % ETCD_HISTORY_MAX];
        struct str where = str_from(event->path);

        if (event->index < wait->from)
            continue;
        if (!str_eq(where, path) && !(wait->recursive && is_below(where, path)) &&
            !is_below(path, where))
            continue;
        reply->status = 200;
        reply->index = etcd->index;
        buf_add(&reply->body, str_from(event->json));
        return true;
    }
    return false;
}

int64_t etcd_expire(struct etcd *etcd, int64_t now_ms)
{
    int64_t next = 0;

    for (size_t i = 0; i < etcd->nodes.count;) {
        struct etcd_node *node = etcd->nodes.items[i];

        if (!node->expires_ms || node->expires_ms > now_ms) {
            if (node->expires_ms && (next == 0 || node->expires_ms < next))
                next = node->expires_ms;
            i++;
            continue;
        }
        _cleanup_(buf_done) struct buf text = {0};
        struct str path = own(node->path);
        etcd->index++;
        buf_add(&text, STR("{\"action\":\"expire\",\"node\":{\"key\":"));
        json_write_string(&text, path);
        buf_addf(&text, ",\"modifiedIndex\":%llu,\"createdIndex\":%llu},\"prevNode\":",
                 (unsigned long long)etcd->index, (unsigned long long)node->created);
        snapshot(&text, node, now_ms);
        buf_add(&text, STR("}\n"));
        for (size_t j = etcd->nodes.count; j-- > 0;)
            if (is_below(etcd->nodes.items[j]->path, path))
                remove_at(etcd, j);
        remove_at(etcd, lower_bound(etcd, path));
        remember(etcd, path, buf_str(&text));
        disown(path);
        i = 0;
    }
    return next;
}

void etcd_open(struct etcd *etcd)
{
    *etcd = (struct etcd){.index = 1};
    insert(etcd, STR("/"), true)->created = 1;
}

void etcd_done(struct etcd *etcd)
{
    while (etcd->nodes.count)
        remove_at(etcd, etcd->nodes.count - 1);
    VEC_DONE(&etcd->nodes);
    for (size_t i = 0; i < ETCD_HISTORY_MAX; i++) {
        mem_free(etcd->history[i].path);
        mem_free(etcd->history[i].json);
    }
}
