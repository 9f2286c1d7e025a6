/* embed_text OUTPUT SYMBOL FILE: writes a text file as C: `const char SYMBOL[]`, ended by a NUL. Run by
 * the build. */
#include <stdio.h>
#include <stdlib.h>

static _Noreturn void die(const char *what)
{
    (void)fprintf(stderr, "embed_text: %s\n", what);
    exit(EXIT_FAILURE);
}

int main(int argc, char *argv[])
{
    if (argc != 4)
        die("usage: embed_text OUTPUT SYMBOL FILE");
    FILE *in = fopen(argv[3], "re");
    FILE *out = fopen(argv[1], "we");
    if (!in || !out)
        die("a file cannot be opened");
    (void)fprintf(out, "extern const char %s[];\nconst char %s[] = {", argv[2], argv[2]);
    int c;
    for (size_t i = 0; (c = getc(in)) != EOF; i++)
        (void)fprintf(out, "%s%d,", i % 24 ? "" : "\n    ", c);
    (void)fprintf(out, "0};\n");
    if (ferror(in) || fclose(in) != 0 || fclose(out) != 0)
        die("a file cannot be read or written");
    return EXIT_SUCCESS;
}
