#include "launch/record.h"

#include "api/launch.h"
#include "api/lost_peer.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/time.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define RECORD_PREFIX "rank-"
#define HEAD_MAX      128

int record_write(const char *folder, const struct record *record, struct err *err)
{
    _cleanup_(buf_done) struct buf text = {0};
    char path[PATH_MAX];
    char temporary[PATH_MAX];
    ssize_t wrote;
    int fd;

    (void)snprintf(path, sizeof(path), "%s/" RECORD_PREFIX "%lld", folder, (long long)record->rank);
    (void)snprintf(temporary, sizeof(temporary), "%s/.%lld", folder, (long long)record->rank);
    buf_addf(&text, "%lld %d %d %lld\n" STR_FMT, (long long)record->when_ns, record->code,
             record->signal, (long long)record->rank, STR_ARG(record->text));
    fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set(err, -errno, "%s: %s", temporary, strerrordesc_np(errno));
    wrote = write(fd, text.p, text.len);
    close(fd);
    if (wrote != (ssize_t)text.len || rename(temporary, path) < 0)
        return err_set(err, -errno, "%s: %s", path, strerrordesc_np(errno));
    return 0;
}

static bool record_parse(struct str content, struct record *ret)
{
    struct str rest = content;
    struct str line;
    int64_t numbers[4];

    if (!str_cut(&rest, '\n', &line))
        return false;
    for (size_t i = 0; i < 4; i++) {
        struct str word;

        if (!str_cut(&line, ' ', &word) || !str_to_i64(word, &numbers[i]))
            return false;
    }
    *ret = (struct record){.when_ns = numbers[0],
                           .code = (int)numbers[1],
                           .signal = (int)numbers[2],
                           .rank = numbers[3],
                           .text = rest};
    return true;
}

void record_clear(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *item;

    while (dir && (item = readdir(dir)) != NULL)
        if (str_starts(str_from(item->d_name), STR(RECORD_PREFIX)))
            (void)unlinkat(dirfd(dir), item->d_name, 0);
    if (dir)
        closedir(dir);
}

static bool record_began(const struct record *record, const struct record *other)
{
    int class = record->signal == SIGTERM ? 2 : says_lost_peer(record->text);
    int other_class = other->signal == SIGTERM ? 2 : says_lost_peer(other->text);

    return class != other_class ? class < other_class : record->when_ns < other->when_ns;
}

bool record_first(const char *folder, struct record *ret, struct buf *text)
{
    DIR *dir = opendir(folder);
    bool found = false;
    struct dirent *item;

    while (dir && (item = readdir(dir)) != NULL) {
        char content[RECORD_TEXT_MAX + HEAD_MAX];
        struct record record;
        ssize_t got;
        int fd;

        if (!str_starts(str_from(item->d_name), STR(RECORD_PREFIX)))
            continue;
        fd = openat(dirfd(dir), item->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        got = fd < 0 ? -1 : read(fd, content, sizeof(content));
        if (fd >= 0)
            close(fd);
        if (got < 0 || !record_parse((struct str){content, (size_t)got}, &record) ||
            (found && !record_began(&record, ret)))
            continue;
        found = true;
        buf_clear(text);
        buf_add(text, record.text);
        *ret = record;
        ret->text = buf_str(text);
    }
    if (dir)
        closedir(dir);
    return found;
}

int record_status(const struct record *record)
{
    return record->signal ? 128 + record->signal : record->code;
}

const char *record_signal_name(int number, char out[static 32])
{
    const char *name = sigabbrev_np(number);

    if (name)
        (void)snprintf(out, 32, "SIG%s", name);
    else
        (void)snprintf(out, 32, "signal %d", number);
    return out;
}

static struct str last_line(struct str text)
{
    struct str line = str_trim(text);
    size_t at = line.len;

    while (at > 0 && line.p[at - 1] != '\n')
        at--;
    return str_sub(line, at, line.len);
}

/* Python says so of the script itself, or of a module while it is imported. In a function it may
 * depend on what the program was given. */
static bool is_syntax_error(struct str text)
{
    struct str last = last_line(text);
    struct str line;

    if (!str_starts(last, STR("SyntaxError: ")) && !str_starts(last, STR("IndentationError: ")) &&
        !str_starts(last, STR("TabError: ")))
        return false;
    while (str_cut(&text, '\n', &line)) {
        struct str place = str_trim(line);

        if (str_starts(place, STR("File \"")) && str_contains(place, STR(", in ")) &&
            !str_contains(place, STR(", in <module>")) &&
            !str_starts(place, STR("File \"<frozen importlib")))
            return false;
    }
    return true;
}

#define BEFORE_SCRIPT ": can't open file '"

static struct str script_of(struct str line)
{
    while (line.len && !str_starts(line, STR(BEFORE_SCRIPT)))
        line = str_sub(line, 1, line.len);
    line = str_sub(line, strlen(BEFORE_SCRIPT), line.len);
    return str_sub(line, 0, str_find(line, '\''));
}

bool record_final(const struct record *record, struct buf *why)
{
    struct str last = last_line(record->text);
    bool absent = str_ends(last, STR("No such file or directory"));

    if (record->signal == 0 && record->code == 2 && absent &&
        str_contains(last, STR(BEFORE_SCRIPT)))
        buf_addf(why, "the script " STR_FMT " does not exist", STR_ARG(script_of(last)));
    else if (record->signal == 0 && record->code == 1 && is_syntax_error(record->text))
        buf_add(why, STR("Python cannot read the script"));
    else
        return false;
    return true;
}

/* What PyTorch says of a data loader whose memory has run out: SIGBUS in a worker, or no room for a tensor. */
static bool is_out_of_shared_memory(const struct record *record)
{
    static const char *const words[] = {"is killed by signal: Bus error", "out of shared memory",
                                        "to file </torch_"};

    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (str_contains(record->text, str_from(words[i])))
            return true;
    return record->signal == SIGBUS;
}

void record_describe(struct buf *out, const struct record *record, struct str full)
{
    _cleanup_(buf_done) struct buf why = {0};
    char name[32];
    char when[TIME_TEXT_BYTES];

    if (record->signal)
        buf_addf(out, "rank %lld was killed by %s", (long long)record->rank,
                 record_signal_name(record->signal, name));
    else
        buf_addf(out, "rank %lld ended with exit code %d%s", (long long)record->rank, record->code,
                 record->no_step ? LAUNCH_NO_STEP : "");
    buf_addf(out, " at " STR_FMT, STR_ARG(time_format_micro(record->when_ns / 1000000, when)));
    if (record_final(record, &why))
        buf_addf(out, LAUNCH_FINAL STR_FMT, STR_ARG(buf_str(&why)));
    if (full.len)
        buf_addf(out, "; no space is left on " STR_FMT, STR_ARG(full));
    if (is_out_of_shared_memory(record))
        buf_add(out, STR(LAUNCH_SHARED_MEMORY));
    if (record->text.len)
        buf_addf(out, "; its last lines:\n" STR_FMT, STR_ARG(record->text));
    if (out->len && out->p[out->len - 1] != '\n')
        buf_addc(out, '\n');
}

void record_describe_none(struct buf *out, int status)
{
    char name[32];

    if (status > 128 && status < 160)
        buf_addf(out, "torchrun was killed by %s before any of its ranks failed\n",
                 record_signal_name(status - 128, name));
    else
        buf_addf(out, "torchrun ended with exit code %d before any rank failed\n", status);
}

/* After the words of an error PyTorch may print where in its libraries it was thrown, a line a frame. The
 * first few say where; all of them leave no room for the words. */
#define FRAME       "frame #"
#define FRAMES_KEPT 3

static bool is_surplus_frame(struct str line)
{
    int64_t number;
    struct str rest = str_sub(line, sizeof(FRAME) - 1, line.len);

    return str_starts(line, STR(FRAME)) &&
           str_to_i64(str_sub(rest, 0, str_find(rest, ':')), &number) && number >= FRAMES_KEPT &&
           (str_contains(rest, STR("(0x")) || str_contains(rest, STR("[0x")));
}

/* What stands behind the last line that is whole. */
static struct str tail_open(const struct tail *tail, size_t len)
{
    size_t at = len;

    while (at > 0 && tail->text[at - 1] != '\n')
        at--;
    return (struct str){tail->text + at, len - at};
}

static void tail_put(struct tail *tail, struct str bytes)
{
    if (bytes.len > sizeof(tail->text))
        bytes = str_sub(bytes, bytes.len - sizeof(tail->text), bytes.len);
    if (tail->len + bytes.len > sizeof(tail->text)) {
        size_t drop = tail->len + bytes.len - sizeof(tail->text);

        memmove(tail->text, tail->text + drop, tail->len - drop);
        tail->len -= drop;
    }
    memcpy(tail->text + tail->len, bytes.p, bytes.len);
    tail->len += bytes.len;
}

void tail_add(struct tail *tail, struct str bytes)
{
    /* A line at a time only where it may be one of them: programs may say much. */
    while (bytes.len && (str_contains(bytes, STR(FRAME)) ||
                         str_starts(tail_open(tail, tail->len), STR(FRAME)))) {
        size_t end = str_find(bytes, '\n');
        struct str line = str_sub(bytes, 0, end < bytes.len ? end + 1 : bytes.len);

        tail_put(tail, line);
        bytes = str_sub(bytes, line.len, bytes.len);
        struct str last = tail_open(tail, tail->len - 1);
        if (end < bytes.len + line.len && is_surplus_frame(last))
            tail->len -= last.len + 1;
    }
    tail_put(tail, bytes);
}

struct str tail_lines(const struct tail *tail)
{
    struct str text = {tail->text, tail->len};
    size_t lines = 0;

    for (size_t i = text.len; i-- > 0;) {
        if (text.p[i] == '\n' && i + 1 < text.len && ++lines == RECORD_LINES_MAX)
            return str_sub(text, i + 1, text.len);
    }
    return text;
}
