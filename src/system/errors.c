#include "system/errors.h"

#include <errno.h>
#include <string.h>

#ifdef __linux__

const char *errno_words(int code)
{
    return strerrordesc_np(code);
}

#else

#    define WORDS_BYTES 128 /* the longest are half of it */

const char *errno_words(int code)
{
    static _Thread_local char words[WORDS_BYTES];
    int before = errno;

    if (strerror_r(code, words, sizeof(words)) != 0)
        words[0] = '\0';
    errno = before;
    return words;
}

#endif
