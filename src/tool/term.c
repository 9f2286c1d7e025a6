#include "tool/term.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define COLUMNS_DEFAULT 80
#define COLUMN_GAP      3 /* blanks between the columns of a table */
#define CELL_MIN        4 /* of a column that is shortened: two letters and ".." */
#define BAR_CELLS       30

static const char *environment_find(char *envp[], const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; envp && envp[i]; i++)
        if (strncmp(envp[i], name, len) == 0 && envp[i][len] == '=')
            return envp[i] + len + 1;
    return "";
}

struct term term_open(int fd, char *envp[])
{
    struct term term = {.fd = fd, .columns = COLUMNS_DEFAULT};
    struct winsize size = {0};

    bool terminal = isatty(fd) == 1;
    term.live = terminal && strcmp(environment_find(envp, "TERM"), "dumb") != 0;
    term.coloured = term.live && *environment_find(envp, "NO_COLOR") == '\0';
    if (terminal && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20)
        term.columns = size.ws_col;
    term.wraps_at = terminal ? term.columns : 0;
    return term;
}

const char *term_colour(const struct term *term, enum term_colour colour)
{
    static const char *const sequences[] = {
        [COLOUR_NONE] = "\033[0m",  [COLOUR_BOLD] = "\033[1m",   [COLOUR_DIM] = "\033[2m",
        [COLOUR_RED] = "\033[31m",  [COLOUR_GREEN] = "\033[32m", [COLOUR_YELLOW] = "\033[33m",
        [COLOUR_BLUE] = "\033[34m",
    };

    return term->coloured ? sequences[colour] : "";
}

/* Characters a terminal uses for the text: code points, combining ones not told apart. */
static size_t term_width(struct str text)
{
    size_t width = 0;

    for (size_t i = 0; i < text.len; i++)
        width += ((unsigned char)text.p[i] & 0xc0) != 0x80;
    return width;
}

void term_write(const struct term *term, struct str text)
{
    while (text.len) {
        ssize_t n = write(term->fd, text.p, text.len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        text = str_sub(text, (size_t)n, text.len);
    }
}

void table_init(struct table *table, struct arena *arena, const char *const *headers)
{
    *table = (struct table){.arena = arena};
    for (; headers[table->column_count]; table->column_count++)
        VEC_PUSH(arena, &table->cells, str_from(headers[table->column_count]));
    assert(table->column_count);
}

void table_add(struct table *table, struct str cell)
{
    VEC_PUSH(table->arena, &table->cells, cell);
}

static size_t column_width(const struct table *table, size_t column, bool with_headers)
{
    size_t widest = 0;

    for (size_t i = with_headers ? column : column + table->column_count; i < table->cells.count;
         i += table->column_count) {
        size_t width = term_width(table->cells.items[i]);

        widest = width > widest ? width : widest;
    }
    return widest;
}

/* The column that is shortened next: the widest, the first one last; column_count: none can be. */
static size_t column_to_shorten(const size_t *widths, size_t count)
{
    size_t widest = count;

    for (size_t column = 1; column < count; column++)
        if (widths[column] > CELL_MIN && (widest == count || widths[column] > widths[widest]))
            widest = column;
    return widest == count && widths[0] > CELL_MIN ? 0 : widest;
}

/* Widths that fit; returns the gap between columns. */
static size_t table_fit(const struct table *table, size_t *widths)
{
    size_t count = table->column_count;
    size_t gap = COLUMN_GAP;
    size_t all = 0;

    for (size_t column = 0; column < count; column++)
        all += widths[column];
    if (!table->wraps_at)
        return gap;
    while (gap > 1 && all + gap * (count - 1) > table->wraps_at)
        gap--;
    while (all + gap * (count - 1) > table->wraps_at) {
        size_t column = column_to_shorten(widths, count);

        if (column == count)
            break;
        widths[column]--;
        all--;
    }
    return gap;
}

/* The first `width` characters of a text, or fewer of them and "..". */
static void cell_add(struct buf *buf, struct str cell, size_t width)
{
    bool cut = term_width(cell) > width;
    size_t left = cut && width > 2 ? width - 2 : width;
    size_t end = 0;

    for (; end < cell.len; end++) {
        bool begins = ((unsigned char)cell.p[end] & 0xc0) != 0x80;

        if (begins && left-- == 0)
            break;
    }
    buf_add(buf, str_sub(cell, 0, end));
    if (cut && width > 2)
        buf_add(buf, STR(".."));
}

void table_write(struct buf *buf, const struct table *table, bool with_headers)
{
    assert(table->column_count);
    size_t *widths = ARENA_ARRAY(table->arena, size_t, table->column_count);

    for (size_t column = 0; column < table->column_count; column++)
        widths[column] = column_width(table, column, with_headers);
    size_t gap = table_fit(table, widths);
    for (size_t i = with_headers ? 0 : table->column_count; i < table->cells.count; i++) {
        size_t column = i % table->column_count;
        size_t width = term_width(table->cells.items[i]);
        bool last = column + 1 == table->column_count || i + 1 == table->cells.count;

        cell_add(buf, table->cells.items[i], widths[column]);
        width = width > widths[column] ? widths[column] : width;
        for (size_t blanks = widths[column] + gap - width; !last && blanks; blanks--)
            buf_addc(buf, ' ');
        if (last)
            buf_addc(buf, '\n');
    }
}

/* Bytes of a colour's escape sequence, which takes no room on the screen; 0: the text is none. */
static size_t escape_bytes(struct str text)
{
    size_t end = 2;

    if (text.len < 3 || text.p[0] != '\033' || text.p[1] != '[')
        return 0;
    while (end < text.len && text.p[end] != 'm')
        end++;
    return end < text.len ? end + 1 : 0;
}

/* As term_width(), of a text that may have colours. */
static size_t line_width(struct str line)
{
    size_t width = term_width(line);

    for (size_t i = 0; i < line.len; i++) {
        size_t bytes = escape_bytes(str_sub(line, i, line.len));

        width -= bytes;
        i += bytes ? bytes - 1 : 0;
    }
    return width;
}

/* What stands before the text of a line: blanks, or a label and two blanks at least. */
static struct str line_head(struct str line, size_t wraps_at)
{
    size_t start = 0;

    while (start < line.len && line.p[start] == ' ')
        start++;
    for (size_t i = start; i + 1 < line.len; i++) {
        if (line.p[i] != ' ' || line.p[i + 1] != ' ')
            continue;
        while (i < line.len && line.p[i] == ' ')
            i++;
        if (line_width(str_sub(line, 0, i)) <= wraps_at / 2)
            return str_sub(line, 0, i);
        break;
    }
    return str_sub(line, 0, start);
}

/* Where a text is broken: at the last blank that fits, else at the first one, else nowhere. */
static size_t text_cut(struct str text, size_t room)
{
    size_t cut = text.len;

    for (size_t i = 1; i < text.len; i++) {
        if (text.p[i] != ' ')
            continue;
        if (cut < text.len && line_width(str_sub(text, 0, i)) > room)
            break;
        cut = i;
    }
    return cut;
}

static void line_wrap(struct buf *out, struct str line, size_t wraps_at)
{
    struct str head = line_head(line, wraps_at);
    struct str text = str_sub(line, head.len, line.len);
    size_t indent = line_width(head);

    if (line_width(str_sub(text, 0, str_find(text, ' '))) > wraps_at - indent &&
        head.len > str_trim(head).len && str_trim(head).len) { /* a path, beside a label */
        struct str label = head;

        while (label.p[label.len - 1] == ' ')
            label.len--;
        buf_add(out, label);
        head = str_sub(head, 0, (size_t)(str_trim(head).p - head.p));
        indent = head.len + 2;
        buf_addf(out, "\n%*s", 2, "");
    }
    buf_add(out, head);
    while (line_width(text) > wraps_at - indent) {
        size_t cut = text_cut(text, wraps_at - indent);

        if (cut == text.len)
            break;
        buf_add(out, str_trim(str_sub(text, 0, cut)));
        buf_addf(out, "\n%*s", (int)indent, "");
        text = str_trim(str_sub(text, cut, text.len));
    }
    buf_add(out, text);
}

void term_wrap(struct buf *out, struct str text, unsigned wraps_at)
{
    while (text.len) {
        size_t end = str_find(text, '\n');
        struct str line = str_sub(text, 0, end);

        if (wraps_at && line_width(line) > wraps_at)
            line_wrap(out, line, wraps_at);
        else
            buf_add(out, line);
        if (end < text.len)
            buf_addc(out, '\n');
        text = str_sub(text, end + 1, text.len);
    }
}

void term_page(const struct term *term, struct str text)
{
    _cleanup_(buf_done) struct buf page = {0};

    term_wrap(&page, text, term->wraps_at);
    term_write(term, buf_str(&page));
}

struct str term_moment(struct arena *arena, struct str moment)
{
    char text[64];
    int64_t ms = 0;
    struct tm local;

    if (!time_parse(moment, &ms))
        return moment;
    time_t seconds = (time_t)(ms / 1000);
    if (!localtime_r(&seconds, &local) || local.tm_gmtoff == 0 ||
        !strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &local))
        return moment;
    long minutes = labs(local.tm_gmtoff) / 60;
    return str_printf(arena, "%s%c%02ld:%02ld", text, local.tm_gmtoff < 0 ? '-' : '+', minutes / 60,
                      minutes % 60);
}

#define SECONDS_LEN (sizeof("2026-11-15T02:03:04") - 1)

/* Of the moment that a text begins with, in UTC; 0: it begins with none. */
static size_t moment_length(struct str text)
{
    static const char like[] = "0000-00-00T00:00:00";
    size_t len = SECONDS_LEN;

    if (text.len <= len)
        return 0;
    for (size_t i = 0; i < len; i++)
        if (like[i] == '0' ? text.p[i] < '0' || text.p[i] > '9' : text.p[i] != like[i])
            return 0;
    if (text.p[len] == '.')
        do
            len++;
        while (len < text.len && text.p[len] >= '0' && text.p[len] <= '9');
    return len < text.len && text.p[len] == 'Z' ? len + 1 : 0;
}

struct str term_moments(struct arena *arena, struct str text)
{
    _cleanup_(buf_done) struct buf out = {0};
    size_t line_len = str_find(text, '\n');
    size_t at = 0;

    while (at < line_len) {
        struct str moment = str_sub(text, at, moment_length(str_sub(text, at, line_len - at)));
        struct str told = term_moment(arena, moment);

        if (!moment.len) {
            buf_addc(&out, text.p[at++]);
            continue;
        }
        at += moment.len;
        buf_add(&out, str_sub(told, 0, SECONDS_LEN));
        if (!str_eq(told, moment)) /* what the second is divided into stays */
            buf_add(&out, str_sub(moment, SECONDS_LEN, moment.len - SECONDS_LEN - 1));
        buf_add(&out, str_sub(told, SECONDS_LEN, told.len));
    }
    buf_add(&out, str_sub(text, line_len, text.len));
    return str_dup(arena, buf_str(&out));
}

const char *term_bytes(uint64_t bytes, char out[static TERM_BYTES_TEXT])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    uint64_t scale = 1;
    size_t unit = 0;

    for (; unit + 1 < COUNT_OF(units) && bytes / scale >= 1024; unit++)
        scale *= 1024;
    if (unit == 0)
        (void)snprintf(out, TERM_BYTES_TEXT, "%llu B", (unsigned long long)bytes);
    else
        (void)snprintf(out, TERM_BYTES_TEXT, "%u.%u %s", (unsigned)(bytes / scale) % 1024,
                       (unsigned)(bytes % scale / (scale / 1024) * 10 / 1024) % 10, units[unit]);
    return out;
}

void progress_update(struct progress *progress, uint64_t done, int64_t now_ms)
{
    _cleanup_(buf_done) struct buf buf = {0};
    char done_text[TERM_BYTES_TEXT];
    char total_text[TERM_BYTES_TEXT];

    if (!progress->term->live ||
        (progress->drawn_ms && now_ms - progress->drawn_ms < PROGRESS_EVERY_MS &&
         done < progress->total))
        return;
    progress->drawn_ms = now_ms;
    uint64_t total = progress->total ? progress->total : 1;
    uint64_t cells = done >= total ? BAR_CELLS : (uint64_t)((__uint128_t)done * BAR_CELLS / total);
    buf_addf(&buf, "\r%s [", progress->what);
    for (uint64_t i = 0; i < BAR_CELLS; i++)
        buf_addc(&buf, i < cells ? '#' : '.');
    buf_addf(&buf, "] %s of %s\033[K", term_bytes(done, done_text),
             term_bytes(progress->total, total_text));
    term_write(progress->term, buf_str(&buf));
}

void progress_done(struct progress *progress)
{
    if (progress->drawn_ms)
        term_write(progress->term, STR("\r\033[K"));
    progress->drawn_ms = 0;
}

static bool has_line(struct str block, struct str line)
{
    struct str other;

    while (str_cut(&block, '\n', &other))
        if (str_eq(other, line))
            return true;
    return false;
}

/* Lines longer than the terminal would wrap and break the count of lines: they are cut. */
static struct str cut_to_width(const struct term *term, struct str line)
{
    size_t width = 0;

    for (size_t i = 0; i < line.len; i++) {
        width += ((unsigned char)line.p[i] & 0xc0) != 0x80;
        if (width > term->columns - 1)
            return str_sub(line, 0, i);
    }
    return line;
}

void live_show(struct live *live, struct str text)
{
    _cleanup_(buf_done) struct buf out = {0};
    struct str rest =
        text.len && text.p[text.len - 1] == '\n' ? str_sub(text, 0, text.len - 1) : text;
    struct str line;
    size_t lines = 0;

    if (live->term->live && live->shown_lines)
        buf_addf(&out, "\033[%zuA\r\033[J", live->shown_lines);
    while (lines < LIVE_LINES_MAX && text.len && str_cut(&rest, '\n', &line)) {
        lines++;
        if (!live->term->live && has_line(buf_str(&live->shown), line))
            continue;
        buf_add(&out, live->term->live ? cut_to_width(live->term, line) : line);
        buf_addc(&out, '\n');
    }
    term_write(live->term, buf_str(&out));
    buf_clear(&live->shown);
    buf_add(&live->shown, text);
    live->shown_lines = lines;
}

void live_done(struct live *live)
{
    buf_done(&live->shown);
    live->shown_lines = 0;
}
