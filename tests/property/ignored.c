#include "base/cleanup.h"
#include "base/err.h"
#include "workspace/manifest.h"
#include "workspace/scan.h"

#include <stdio.h>

/* ignored FOLDER...: what the plugin would send of each, a path a line: what tests/ignore.py holds
 * against git. */
int main(int argc, char *argv[])
{
    const struct scan_options options = {.rules = {.repository = true}};

    for (int i = 1; i < argc; i++) {
        _cleanup_(manifest_unrefp) struct manifest *manifest = manifest_new();
        struct err err = {0};

        if (scan_folder(argv[i], &options, manifest, &err) < 0) {
            (void)fprintf(stderr, "%s: %s\n", argv[i], err.text);
            return 1;
        }
        for (size_t at = 0; at < manifest->entries.count; at++)
            (void)printf("%s/" STR_FMT "\n", argv[i], STR_ARG(manifest->entries.items[at].path));
    }
    return 0;
}
