/* embed_page OUTPUT FILE...: writes the files of the page as C: a table of names, types, tags and
 * bytes (src/page/file.h). Run by the build. */
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX ((size_t)1 << 20)
#define TAG_SEED       UINT64_C(0x6d7573746572) /* any: it only has to be the same each time */

static _Noreturn void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "embed_page: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

static const char *type_of(const char *name)
{
    static const struct {
        const char *ending;
        const char *type;
    } types[] = {
        {".html", "text/html; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
        {".svg", "image/svg+xml"},
    };

    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (str_ends(str_from(name), str_from(types[i].ending)))
            return types[i].type;
    die(name, "no type is known for this ending");
}

static struct str read_file(struct arena *arena, const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = ARENA_ARRAY(arena, char, FILE_BYTES_MAX);

    if (!file)
        die(path, "cannot be read");
    size_t len = fread(text, 1, FILE_BYTES_MAX, file);
    (void)fclose(file);
    if (len == FILE_BYTES_MAX)
        die(path, "is larger than 1 MiB");
    return (struct str){text, len};
}

static void put_bytes(struct buf *out, struct str bytes)
{
    for (size_t i = 0; i < bytes.len; i++)
        buf_addf(out, "%s%u,", i % 24 ? "" : "\n    ", (unsigned)(unsigned char)bytes.p[i]);
}

int main(int argc, char *argv[])
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf out = {0};
    _cleanup_(buf_done) struct buf table = {0};

    if (argc < 3)
        die("usage", "embed_page OUTPUT FILE...");
    buf_add(&out, STR("#include \"page/file.h\"\n\n#include <stddef.h>\n\n"));
    for (int i = 2; i < argc; i++) {
        const char *slash = strrchr(argv[i], '/');
        const char *name = slash ? slash + 1 : argv[i];
        struct str bytes = read_file(&arena, argv[i]);

        buf_addf(&out, "static const unsigned char bytes_%d[] = {", i);
        put_bytes(&out, bytes);
        buf_add(&out, STR("0};\n"));
        buf_addf(&table,
                 "    {\"%s\", \"%s\", \"\\\"%016" PRIx64 "\\\"\", (const char *)bytes_%d, %zu},\n",
                 name, type_of(name), str_hash(bytes, TAG_SEED), i, bytes.len);
    }
    buf_addf(&out,
             "const struct page_file page_files[] = {\n" STR_FMT "};\n"
             "const size_t page_file_count = %d;\n",
             STR_ARG(buf_str(&table)), argc - 2);
    FILE *file = fopen(argv[1], "we");
    if (!file || fwrite(out.p, 1, out.len, file) != out.len || fclose(file))
        die(argv[1], "cannot be written");
    return EXIT_SUCCESS;
}
