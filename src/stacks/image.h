#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct memory;

/* image: where the symbols of a program or library lie in a process that has it mapped.
 *
 * The dynamic symbols are read from the process's own memory, where the loader has them: no file is
 * opened, so a file that was replaced or deleted, and a root folder of the process's own, change
 * nothing. 64-bit ELF of this machine's byte order. */
struct image {
    uint64_t base; /* where the file's beginning is mapped */
    uint64_t bias; /* what is added to an address of the file */
    uint64_t symbols;
    uint64_t names;
    uint64_t names_size;
    uint64_t hash;   /* of GNU's form; 0: it has none */
    uint64_t frames; /* .eh_frame_hdr; 0: it has none */
};

bool image_open(struct memory *memory, uint64_t base, struct image *ret);
/* Its address in the process; 0: there is no such symbol. */
uint64_t image_symbol(struct memory *memory, const struct image *image, const char *name);
/* The same for a section, from the file itself: the headers of sections are not mapped. */
uint64_t image_section(int fd, const struct image *image, const char *name);
