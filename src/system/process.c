#include "system/process.h"

#include <unistd.h>
#ifdef __GLIBC__
#    include <malloc.h>
#endif

#ifndef __linux__
extern char **environ; /* which no header declares there */
#endif

char **process_environment(void)
{
    return environ;
}

void process_trim_memory(void)
{
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}
