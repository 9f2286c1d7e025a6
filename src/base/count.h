#pragma once

/* count: how many items an array has. Arrays only: of a pointer it says nothing of use, and
 * -Wsizeof-pointer-div, which is part of -Wall, refuses it. */
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
