#pragma once

/* What an errno means, in words; NULL on Linux for a number that nobody knows. errno stays as it is. */
const char *errno_words(int code);
