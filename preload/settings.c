#include "settings.h"

#include "api/gpu_page.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MIB           (INT64_C(1) << 20)
#define LIMIT_MIB_MAX (INT64_C(1) << 40) /* so that sums of bytes of all processes fit */

struct settings settings;

/* Digits alone; 0 for anything else. */
static int64_t parse_mib(const char *text)
{
    int64_t value = 0;

    if (!text || !*text)
        return 0;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || value > LIMIT_MIB_MAX)
            return 0;
        value = value * 10 + (*text - '0');
    }
    return value <= LIMIT_MIB_MAX ? value * MIB : 0;
}

__attribute__((constructor)) static void settings_read(void)
{
    const char *region = getenv("MUSTER_GPU_REGION");
    const char *debug = getenv("MUSTER_GPU_DEBUG");

    settings.limit_bytes = parse_mib(getenv("MUSTER_GPU_MEMORY_MIB"));
    settings.debug = debug && strcmp(debug, "1") == 0;
#if defined(__x86_64__) /* gate.c has machine code of ours */
    const char *move = getenv(GPU_PAGE_ENV);
    settings.move = move && strcmp(move, "1") == 0;
#endif
    if (region && region[0] == '/' && strlen(region) < sizeof(settings.region))
        memcpy(settings.region, region, strlen(region) + 1);
}
