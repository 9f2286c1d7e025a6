/* embed_crds FOLDER OUTPUT DEPFILE [NAME]: writes the CRDs of a folder (*.yaml) as C: their JSON,
 * and their printer columns as tables. With NAME, objects of another kind: `NAME_builtins` is the
 * table of their names and JSON, and there are no columns. Run by the build; the depfile names the
 * folder and every file in it, so that a new file is noticed. */
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "base/yaml.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX ((size_t)4 << 20)

static _Noreturn void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "embed_crds: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

static struct str read_file(struct arena *arena, const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = ARENA_ARRAY(arena, char, FILE_BYTES_MAX);

    if (!file)
        die(path, "cannot be read");
    size_t len = fread(text, 1, FILE_BYTES_MAX, file);
    (void)fclose(file);
    return (struct str){text, len};
}

/* A C string literal, in lines. */
static void put_text(struct buf *out, struct str text)
{
    buf_addc(out, '"');
    for (size_t i = 0; i < text.len; i++) {
        char c = text.p[i];

        if (c == '"' || c == '\\')
            buf_addf(out, "\\%c", c);
        else if (c == '\n')
            buf_add(out, STR("\\n"));
        else if ((unsigned char)c < 0x20 || (unsigned char)c >= 0x7f)
            buf_addf(out, "\\%03o", (unsigned)(unsigned char)c);
        else
            buf_addc(out, c);
        if (i % 90 == 89)
            buf_add(out, STR("\"\n    \""));
    }
    buf_addc(out, '"');
}

/* One set of columns for each version; returns how many rows were added to `sets`. */
static void put_columns(struct buf *out, struct buf *sets, const struct json *crd, size_t number)
{
    size_t index = 0;

    JSON_FOREACH(json_at(crd, "spec.versions"), version) {
        const struct json *columns = json_get(version, "additionalPrinterColumns");

        index++;
        if (!json_count(columns))
            continue;
        buf_addf(out, "static const struct kind_column columns_%zu_%zu[] = {\n", number, index);
        JSON_FOREACH(columns, column) {
            struct str description = json_str(json_get(column, "description"));

            buf_add(out, STR("    {.name = "));
            put_text(out, json_str(json_get(column, "name")));
            buf_add(out, STR(", .type = "));
            put_text(out, json_str(json_get(column, "type")));
            buf_add(out, STR(", .path = "));
            put_text(out, json_str(json_get(column, "jsonPath")));
            if (description.len) {
                buf_add(out, STR(", .description = "));
                put_text(out, description);
            }
            buf_addf(out, ", .priority = %d},\n",
                     (int)json_i64_or(json_get(column, "priority"), 0));
        }
        buf_add(out, STR("};\n"));
        buf_add(sets, STR("    {"));
        put_text(sets, json_str_at(crd, "spec.group"));
        buf_add(sets, STR(", "));
        put_text(sets, json_str(json_get(version, "name")));
        buf_add(sets, STR(", "));
        put_text(sets, json_str_at(crd, "spec.names.plural"));
        buf_addf(sets, ", columns_%zu_%zu, %zu},\n", number, index, json_count(columns));
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

struct names VEC_FIELDS(char *);

static struct names yaml_files(struct arena *arena, const char *folder)
{
    DIR *dir = opendir(folder);
    struct names names = {0};

    if (!dir)
        die(folder, "cannot be opened");
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        if (str_ends(str_from(entry->d_name), STR(".yaml")))
            VEC_PUSH(arena, &names, str_c(arena, str_from(entry->d_name)));
    (void)closedir(dir);
    if (names.count)
        qsort(names.items, names.count, sizeof(char *), by_name);
    return names;
}

static void write_out(const char *path, const struct buf *buf)
{
    FILE *file = fopen(path, "we");

    if (!file || fwrite(buf->p, 1, buf->len, file) != buf->len || fclose(file))
        die(path, "cannot be written");
}

int main(int argc, char *argv[])
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf out = {0};
    _cleanup_(buf_done) struct buf list = {0};
    _cleanup_(buf_done) struct buf sets = {0};
    _cleanup_(buf_done) struct buf deps = {0};
    size_t count = 0;

    if (argc != 4 && argc != 5)
        die("usage", "embed_crds FOLDER OUTPUT DEPFILE [NAME]");
    const char *name = argc == 5 ? argv[4] : "crd";
    struct names names = yaml_files(&arena, argv[1]);
    buf_addf(&deps, "%s: %s", argv[2], argv[1]);
    buf_add(&out, argc == 5 ? STR("#include \"control/kinds/runtimes.h\"\n\n")
                            : STR("#include \"api/crd_builtin.h\"\n#include \"api/kind.h\"\n\n"));
    buf_add(&out, STR("#include <stddef.h>\n\n"));
    for (size_t i = 0; i < names.count; i++) {
        struct str path = str_printf(&arena, "%s/%s", argv[1], names.items[i]);
        struct json_vec documents = {0};
        struct err err = {0};

        buf_addf(&deps, " " STR_FMT, STR_ARG(path));
        if (yaml_parse_all(&arena, read_file(&arena, path.p), &documents, &err) < 0)
            die(path.p, err.text);
        for (size_t j = 0; j < documents.count; j++) {
            struct str text = json_text(&arena, documents.items[j]);

            buf_addf(&out, "static const char text_%zu[] =\n    ", count);
            put_text(&out, text);
            buf_add(&out, STR(";\n"));
            if (argc == 4)
                put_columns(&out, &sets, documents.items[j], count);
            buf_add(&list, STR("    {"));
            put_text(&list, json_str_at(documents.items[j], "metadata.name"));
            buf_addf(&list, ", text_%zu, sizeof(text_%zu) - 1},\n", count, count);
            count++;
        }
    }
    buf_addf(&out,
             "const struct %s_builtin %s_builtins[] = {\n" STR_FMT "};\n"
             "const size_t %s_builtin_count = %zu;\n",
             name, name, STR_ARG(buf_str(&list)), name, count);
    if (argc == 4)
        buf_addf(&out,
                 "const struct crd_builtin_columns crd_builtin_column_sets[] = {\n" STR_FMT "};\n"
                 "const size_t crd_builtin_column_set_count =\n"
                 "    sizeof(crd_builtin_column_sets) / sizeof(crd_builtin_column_sets[0]);\n",
                 STR_ARG(buf_str(&sets)));
    buf_addc(&deps, '\n');
    write_out(argv[2], &out);
    write_out(argv[3], &deps);
    return EXIT_SUCCESS;
}
