#include <stdio.h>
#include <string.h>

/* muster: one file a subcommand; this one only chooses among them. */
int main(int argc, char *argv[])
{
    if (argc == 2 && strcmp(argv[1], "version") == 0) {
        printf("muster %s\n", MUSTER_VERSION);
        return 0;
    }
    (void)fprintf(stderr, "muster: usage: muster version\n");
    return 2;
}
