#include "plugin/line.h"

#include "base/buf.h"
#include "base/count.h"
#include "base/time.h"
#include "tool/term.h"

#include <string.h>

bool line_take_stamp(struct line_stamp *stamp, struct str *line)
{
    size_t blank = str_find(*line, ' ');
    struct str text = str_sub(*line, 0, blank);
    int64_t when;

    if (text.len >= LINE_STAMP_BYTES || !time_parse(text, &when))
        return true;
    if (stamp->skipping && str_cmp(text, str_from(stamp->text)) <= 0)
        return false;
    stamp->skipping = false;
    memcpy(stamp->text, text.p, text.len);
    stamp->text[text.len] = '\0';
    *line = str_sub(*line, blank + 1, line->len);
    return true;
}

int64_t line_take_rank(struct str *line)
{
    struct str text = *line;
    int64_t rank;
    size_t end;

    if (!str_starts(text, STR("[rank")))
        return -1;
    end = str_find(text, ']');
    if (end + 1 >= text.len || text.p[end + 1] != ' ' ||
        !str_to_i64(str_sub(text, 5, end - 5), &rank) || rank < 0)
        return -1;
    *line = str_sub(text, end + 2, text.len);
    return rank;
}

static enum term_colour rank_colour(int64_t rank)
{
    static const enum term_colour colours[] = {COLOUR_GREEN, COLOUR_YELLOW, COLOUR_BLUE, COLOUR_RED,
                                               COLOUR_BOLD};

    return colours[(size_t)rank % COUNT_OF(colours)];
}

void line_format(struct buf *out,
                 const struct term *term,
                 struct str pod,
                 int64_t rank,
                 struct str text)
{
    if (rank >= 0)
        buf_addf(out, "%s[rank%lld]%s ", term_colour(term, rank_colour(rank)), (long long)rank,
                 term_colour(term, COLOUR_NONE));
    else
        buf_addf(out, "%s[" STR_FMT "]%s ", term_colour(term, COLOUR_DIM), STR_ARG(pod),
                 term_colour(term, COLOUR_NONE));
    buf_add(out, text);
    buf_addc(out, '\n');
}

struct str line_tail(struct str text, int64_t only, int64_t tail)
{
    int64_t lines = 0;
    size_t from = text.len;

    if (tail < 0)
        return text;
    while (from > 0 && lines < tail) {
        size_t end = from - (text.p[from - 1] == '\n');

        for (from = end; from > 0 && text.p[from - 1] != '\n';)
            from--;
        struct str line = str_sub(text, from, end - from);
        lines += only < 0 || line_take_rank(&line) == only;
    }
    return str_sub(text, from, text.len);
}
