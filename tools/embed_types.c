/* embed_types OUTPUT FILE...: writes the tables of types (src/api/types.h says their form) as C.
 * Run by the build. What it does not understand ends it, with file and line. */
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FILE_BYTES_MAX ((size_t)1 << 20)
#define FIELDS_MAX     64 /* TYPE_FIELDS_MAX */
#define NUMBER_MAX     UINT16_MAX

struct field {
    struct str name;
    struct str type;
    struct str flags; /* as C */
    struct str keys;
    struct str initial;
    struct str when;
    struct str words;
    struct str shape;
    struct str min;
    struct str max;
    struct str about;
    uint64_t number;
    const char *file;
    size_t line;
};

struct field_vec VEC_FIELDS(struct field);

struct message {
    struct str version;
    struct str name;
    struct str about;
    struct field_vec fields;
    bool kind, anywhere, bare, atomic;
};

struct message_vec VEC_FIELDS(struct message);

struct reader {
    struct arena *arena;
    struct message_vec messages;
    struct str version;
    const char *file;
    size_t line;
};

static const struct {
    const char *word;
    const char *form;
} forms[] = {
    {"string", "TYPE_STRING"},     {"bytes", "TYPE_BYTES"},
    {"int32", "TYPE_INT32"},       {"int64", "TYPE_INT64"},
    {"bool", "TYPE_BOOL"},         {"double", "TYPE_DOUBLE"},
    {"time", "TYPE_TIME"},         {"microtime", "TYPE_MICROTIME"},
    {"quantity", "TYPE_QUANTITY"}, {"int-or-string", "TYPE_INT_OR_STRING"},
    {"json", "TYPE_JSON"},
};

static const struct {
    const char *word; /* with a = at its end: something follows */
    const char *flag;
} words[] = {
    {"list", " | TYPE_LIST"},
    {"map", " | TYPE_MAP"},
    {"keep", " | TYPE_KEEP"},
    {"inline", " | TYPE_INLINE"},
    {"kept", " | TYPE_KEPT"},
    {"required", " | TYPE_REQUIRED"},
    {"atomic", " | TYPE_ATOMIC"},
    {"always", " | TYPE_ALWAYS"},
    {"elsewhere", " | TYPE_ELSEWHERE"},
    {"set", " | TYPE_MERGE | TYPE_APPLY"},
    {"merge-set", " | TYPE_MERGE"},
    {"apply-set", " | TYPE_APPLY"},
    {"key=", " | TYPE_MERGE | TYPE_APPLY"},
    {"merge-key=", " | TYPE_MERGE"},
    {"apply-key=", " | TYPE_APPLY"},
    {"own", " | TYPE_OWN"},
    {"granular", " | TYPE_GRANULAR"},
    {"default=", ""},
    {"when=", ""},
    {"unless=", ""},
    {"must", " | TYPE_MUST"},
    {"either", " | TYPE_EITHER"},
    {"choice", " | TYPE_CHOICE"},
    {"said", " | TYPE_SAID"},
    {"replaced", " | TYPE_REPLACED"},
    {"in=", ""},
    {"form=", ""},
    {"min=", ""},
    {"max=", ""},
};

static _Noreturn void die(const char *file, size_t line, const char *why, struct str what)
{
    (void)fprintf(stderr, "embed_types: %s:%zu: %s: " STR_FMT "\n", file, line, why, STR_ARG(what));
    exit(EXIT_FAILURE);
}

static struct str read_file(struct arena *arena, const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = ARENA_ARRAY(arena, char, FILE_BYTES_MAX);

    if (!file)
        die(path, 0, "cannot be read", STR("file"));
    size_t len = fread(text, 1, FILE_BYTES_MAX, file);
    (void)fclose(file);
    if (len == FILE_BYTES_MAX)
        die(path, 0, "too long", STR("file"));
    return (struct str){text, len};
}

/* What stands behind the # of a line, which is taken off it. */
static struct str take_about(struct str *line)
{
    struct str sign = STR(" # ");

    for (size_t i = 0; i + sign.len <= line->len; i++)
        if (str_starts(str_sub(*line, i, line->len), sign)) {
            struct str about = str_trim(str_sub(*line, i + sign.len, line->len));

            *line = str_sub(*line, 0, i);
            return about;
        }
    return STR("");
}

/* The next word of a line; empty at its end. */
static struct str take_word(struct str *line)
{
    struct str word = STR("");

    while (line->len && !word.len)
        (void)str_cut(line, ' ', &word);
    return word;
}

static void read_message(struct reader *reader, struct str line)
{
    struct message message = {.version = reader->version, .about = take_about(&line)};
    struct str word;

    message.name = take_word(&line);

    if (!reader->version.len || !message.name.len)
        die(reader->file, reader->line, "a message needs a version above it and a name", line);
    while ((word = take_word(&line)).len) {
        if (str_is(word, "kind"))
            message.kind = true;
        else if (str_is(word, "kind-anywhere"))
            message.kind = message.anywhere = true;
        else if (str_is(word, "bare"))
            message.bare = true;
        else if (str_is(word, "atomic"))
            message.atomic = true;
        else
            die(reader->file, reader->line, "unknown word behind a message", word);
    }
    VEC_PUSH(reader->arena, &reader->messages, message);
}

/* What a word says of values; NULL: nothing. */
static struct str *place_of(struct field *field, struct str name)
{
    return str_is(name, "default=") ? &field->initial
           : str_is(name, "when=")  ? &field->when
           : str_is(name, "in=")    ? &field->words
           : str_is(name, "form=")  ? &field->shape
           : str_is(name, "min=")   ? &field->min
           : str_is(name, "max=")   ? &field->max
                                    : NULL;
}

static void read_words(struct reader *reader, struct field *field, struct str line)
{
    struct str word;

    field->flags = STR("0");
    while ((word = take_word(&line)).len) {
        size_t end = str_find(word, '=');
        struct str name = str_sub(word, 0, end + 1);
        size_t i = 0;

        while (i < COUNT_OF(words) && !str_is(name, words[i].word))
            i++;
        if (i == COUNT_OF(words))
            die(reader->file, reader->line, "unknown word behind a field", word);
        field->flags =
            str_printf(reader->arena, STR_FMT "%s", STR_ARG(field->flags), words[i].flag);
        if (place_of(field, name))
            *place_of(field, name) = str_sub(word, end + 1, word.len);
        else if (str_is(name, "unless="))
            field->when =
                str_printf(reader->arena, "!" STR_FMT, STR_ARG(str_sub(word, end + 1, word.len)));
        else if (end < word.len)
            field->keys = str_sub(word, end + 1, word.len);
    }
}

static void read_field(struct reader *reader, struct str line)
{
    struct field field = {.file = reader->file, .line = reader->line, .about = take_about(&line)};
    struct message *message;

    if (!reader->messages.count)
        die(reader->file, reader->line, "a field without a message above it", line);
    message = &reader->messages.items[reader->messages.count - 1];
    field.name = take_word(&line);
    field.type = take_word(&line);
    if (!str_to_u64(take_word(&line), &field.number) || field.number > NUMBER_MAX)
        die(reader->file, reader->line, "a field has a name, a type and a number", field.name);
    if (message->fields.count &&
        message->fields.items[message->fields.count - 1].number >= field.number)
        die(reader->file, reader->line, "fields stand in the order of their numbers", field.name);
    if (message->fields.count == FIELDS_MAX)
        die(reader->file, reader->line, "a message has too many fields", message->name);
    read_words(reader, &field, line);
    if ((field.when.p || str_contains(field.flags, STR("TYPE_OWN"))) && !field.initial.p)
        die(reader->file, reader->line, "own, when and unless are about a default", field.name);
    VEC_PUSH(reader->arena, &message->fields, field);
}

static void read_types(struct reader *reader, const char *path)
{
    struct str text = read_file(reader->arena, path);
    struct str line;

    reader->file = path;
    reader->line = 0;
    reader->version = STR("");
    while (str_cut(&text, '\n', &line)) {
        bool indented = str_starts(line, STR(" "));
        struct str rest = line;

        reader->line++;
        struct str word = take_word(&rest);
        if (!word.len || word.p[0] == '#')
            continue;
        if (indented)
            read_field(reader, line);
        else if (str_is(word, "message"))
            read_message(reader, rest);
        else if (str_is(word, "version"))
            reader->version = take_word(&rest);
        else
            die(path, reader->line, "neither version, message nor field", word);
    }
}

/* "PodSpec" of the same version, or "v1.PodSpec". */
static size_t find(const struct reader *reader,
                   const struct message *from,
                   const struct field *field)
{
    for (size_t i = 0; i < reader->messages.count; i++) {
        const struct message *message = &reader->messages.items[i];
        struct str whole = str_printf(reader->arena, STR_FMT "." STR_FMT, STR_ARG(message->version),
                                      STR_ARG(message->name));

        if (str_eq(field->type, whole) ||
            (str_eq(field->type, message->name) && str_eq(from->version, message->version)))
            return i;
    }
    die(field->file, field->line, "no such type", field->type);
}

static void put_bound(struct buf *out,
                      const struct field *field,
                      struct str bound,
                      const char *otherwise)
{
    int64_t number = 0;

    if (bound.p && !str_to_i64(bound, &number))
        die(field->file, field->line, "a bound is a number", bound);
    if (bound.p)
        buf_addf(out, ", INT64_C(%lld)", (long long)number);
    else
        buf_addf(out, ", %s", otherwise);
}

/* As a string of C; NULL where there is none. */
static void put_text(struct buf *out, struct str text)
{
    if (!text.p) {
        buf_add(out, STR("NULL"));
        return;
    }
    buf_addc(out, '"');
    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] == '"' || text.p[i] == '\\')
            buf_addc(out, '\\');
        buf_addc(out, text.p[i]);
    }
    buf_addc(out, '"');
}

static void put_field(const struct reader *reader,
                      struct buf *out,
                      const struct message *message,
                      const struct field *field)
{
    size_t i = 0;

    while (i < COUNT_OF(forms) && !str_is(field->type, forms[i].word))
        i++;
    buf_addf(out, "    {\"" STR_FMT "\", ", STR_ARG(field->name));
    if (i < COUNT_OF(forms))
        buf_addf(out, "NULL, %d, %s, ", (int)field->number, forms[i].form);
    else
        buf_addf(out, "&types[%zu], %d, TYPE_MESSAGE, ", find(reader, message, field),
                 (int)field->number);
    buf_addf(out, STR_FMT ", ", STR_ARG(field->flags));
    put_text(out, field->keys);
    buf_add(out, STR(", "));
    put_text(out, field->initial);
    buf_add(out, STR(", "));
    put_text(out, field->when);
    buf_add(out, STR(", "));
    put_text(out, field->about);
    buf_add(out, STR(", "));
    put_text(out, field->words);
    buf_add(out, STR(", "));
    put_text(out, field->shape);
    put_bound(out, field, field->min, "INT64_MIN");
    put_bound(out, field, field->max, "INT64_MAX");
    buf_add(out, STR("},\n"));
}

static void put_types(const struct reader *reader, struct buf *out)
{
    const struct message_vec *messages = &reader->messages;

    buf_add(out, STR("#include \"api/types.h\"\n\n#include <stddef.h>\n#include <stdint.h>\n\n"));
    for (size_t i = 0; i < messages->count; i++) {
        const struct message *message = &messages->items[i];

        if (message->fields.count == 0)
            continue;
        buf_addf(out, "static const struct type_field fields_%zu[] = {\n", i);
        for (size_t j = 0; j < message->fields.count; j++)
            put_field(reader, out, message, &message->fields.items[j]);
        buf_add(out, STR("};\n"));
    }
    buf_add(out, STR("const struct type types[] = {\n"));
    for (size_t i = 0; i < messages->count; i++) {
        const struct message *message = &messages->items[i];

        buf_addf(out, "    {\"" STR_FMT "\", \"" STR_FMT "\", ", STR_ARG(message->version),
                 STR_ARG(message->name));
        if (message->fields.count)
            buf_addf(out, "fields_%zu, ", i);
        else
            buf_add(out, STR("NULL, "));
        buf_addf(out, "%d, %d, %d, %d, %d, ", (int)message->fields.count, message->kind,
                 message->anywhere, message->bare, message->atomic);
        put_text(out, message->about);
        buf_add(out, STR("},\n"));
    }
    buf_addf(out, "};\nconst size_t type_count = %zu;\n", messages->count);
}

int main(int argc, char **argv)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf out = {0};
    struct reader reader = {.arena = &arena};

    if (argc < 3)
        die("usage", 0, "embed_types OUTPUT FILE...", STR(""));
    for (int i = 2; i < argc; i++)
        read_types(&reader, argv[i]);
    put_types(&reader, &out);
    FILE *file = fopen(argv[1], "we");
    if (!file || fwrite(out.p, 1, out.len, file) != out.len || fclose(file) != 0)
        die(argv[1], 0, "cannot be written", STR("file"));
    return EXIT_SUCCESS;
}
