#include "api/protobuf.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/yaml.h"
#include "http/server.h"
#include "http1/parse.h"
#include "server/accept.h"
#include "server/request.h"

#include <errno.h>

/* One object as an answer, from its JSON, in the form that was asked for. */

void request_warn(struct request *request, struct str lines)
{
    struct str line;

    while (str_cut(&lines, '\n', &line)) {
        if (!line.len)
            continue;
        struct buf quoted = {0};
        buf_add(&quoted, STR("299 - "));
        json_write_string(&quoted, line);
        http_header(request->x, "Warning", buf_str(&quoted));
        buf_done(&quoted);
    }
}

/* What protobuf has no number for is left out, and said. */
static int answer_encode(struct request *request, struct str text, struct buf *out, struct err *err)
{
    /* Gone before the client reads: the tree of a list has many times its bytes. */
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *root = NULL;
    int r = json_parse(&arena, text, &root, err);

    if (r < 0)
        return r;
    if (request->accept.media == MEDIA_YAML) {
        yaml_write(out, root);
        return 0;
    }
    r = protobuf_from_json(root, false, out, err);
    if (r != -EPROTONOSUPPORT)
        return r;
    request_warn(request, str_from(err->text));
    return protobuf_from_json(root, true, out, err);
}

/* In JSON where it has no other form: nothing that was done is hidden behind its answer. */
void answer_send(struct request *request, int code, struct str text)
{
    _cleanup_(buf_done) struct buf out = {0};
    struct err err = {0};

    if (request->accept.media != MEDIA_JSON && answer_encode(request, text, &out, &err) == 0) {
        http_reply(request->x, code, accept_media_type(request->accept.media), buf_str(&out));
        return;
    }
    if (err.text[0])
        request_warn(request, str_from(err.text));
    buf_clear(&out);
    buf_add(&out, text);
    buf_addc(&out, '\n');
    http_reply(request->x, code, "application/json", buf_str(&out));
}

void answer_reply(struct request *request, int code, struct str text)
{
    struct str header = http_head_get(&request->x->head, "Accept");

    if (!accept_choose(header, (struct accept_offer){.protobuf = true}, &request->accept))
        request->accept = (struct accept){MEDIA_JSON, VIEW_OBJECT};
    answer_send(request, code, text);
}
