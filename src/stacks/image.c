#include "stacks/image.h"

#include "base/mem.h"
#include "stacks/memory.h"

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define PROGRAM_HEADERS_MAX 64
#define DYNAMIC_MAX         512
#define CHAIN_MAX           4096 /* symbols of one hash: a few */
#define NAME_MAX_BYTES      64
#define SECTIONS_MAX        1024
#define SECTION_NAMES_MAX   (256 * 1024)
#define PAGE_MASK           4095ULL

static bool header_ok(const Elf64_Ehdr *head)
{
    return memcmp(head->e_ident, ELFMAG, SELFMAG) == 0 && head->e_ident[EI_CLASS] == ELFCLASS64 &&
           (head->e_type == ET_EXEC || head->e_type == ET_DYN);
}

/* glibc has written addresses of the process into the table, musl has left those of the file. */
static uint64_t image_address(const struct image *image, uint64_t value)
{
    return value < image->base && image->bias ? value + image->bias : value;
}

static void image_take(struct image *image, const Elf64_Dyn *item)
{
    switch (item->d_tag) {
    case DT_SYMTAB: image->symbols = image_address(image, item->d_un.d_ptr); break;
    case DT_STRTAB: image->names = image_address(image, item->d_un.d_ptr); break;
    case DT_STRSZ: image->names_size = item->d_un.d_val; break;
    case DT_GNU_HASH: image->hash = image_address(image, item->d_un.d_ptr); break;
    default: break;
    }
}

bool image_open(struct memory *memory, uint64_t base, struct image *ret)
{
    struct image image = {.base = base};
    uint64_t lowest = UINT64_MAX;
    uint64_t dynamic = 0;
    Elf64_Ehdr head;

    if (!memory_read(memory, base, &head, sizeof(head)) || !header_ok(&head) ||
        head.e_phentsize != sizeof(Elf64_Phdr) || head.e_phnum > PROGRAM_HEADERS_MAX)
        return false;
    for (unsigned i = 0; i < head.e_phnum; i++) {
        Elf64_Phdr part;

        if (!memory_read(memory, base + head.e_phoff + i * sizeof(part), &part, sizeof(part)))
            return false;
        if (part.p_type == PT_LOAD && part.p_vaddr < lowest)
            lowest = part.p_vaddr;
        if (part.p_type == PT_DYNAMIC)
            dynamic = part.p_vaddr;
        if (part.p_type == PT_GNU_EH_FRAME)
            image.frames = part.p_vaddr;
    }
    if (lowest == UINT64_MAX)
        return false;
    image.bias = base - (lowest & ~PAGE_MASK);
    image.frames += image.frames ? image.bias : 0;
    for (unsigned i = 0; dynamic && i < DYNAMIC_MAX; i++) {
        Elf64_Dyn item;

        if (!memory_read(memory, dynamic + image.bias + i * sizeof(item), &item, sizeof(item)) ||
            item.d_tag == DT_NULL)
            break;
        image_take(&image, &item);
    }
    *ret = image;
    return true;
}

static uint32_t gnu_hash(const char *name)
{
    uint32_t hash = 5381;

    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

static bool symbol_is(struct memory *memory,
                      const struct image *image,
                      const Elf64_Sym *symbol,
                      const char *name)
{
    char text[NAME_MAX_BYTES];
    size_t size = strlen(name) + 1;

    return symbol->st_shndx != SHN_UNDEF && symbol->st_name + size <= image->names_size &&
           size <= sizeof(text) &&
           memory_read(memory, image->names + symbol->st_name, text, size) &&
           memcmp(text, name, size) == 0;
}

uint64_t image_symbol(struct memory *memory, const struct image *image, const char *name)
{
    struct {
        uint32_t buckets, first, bloom, shift;
    } head;
    uint32_t hash = gnu_hash(name);
    uint32_t index = 0;

    if (!image->hash || !image->symbols || !image->names ||
        !memory_read(memory, image->hash, &head, sizeof(head)) || !head.buckets)
        return 0;
    uint64_t buckets = image->hash + sizeof(head) + (uint64_t)head.bloom * 8;
    uint64_t chains = buckets + (uint64_t)head.buckets * 4;
    if (!memory_read(memory, buckets + (uint64_t)(hash % head.buckets) * 4, &index,
                     sizeof(index)) ||
        index < head.first)
        return 0;
    for (size_t i = 0; i < CHAIN_MAX; i++, index++) {
        Elf64_Sym symbol;
        uint32_t link = 0;

        if (!memory_read(memory, chains + (uint64_t)(index - head.first) * 4, &link, sizeof(link)))
            return 0;
        if ((link | 1) == (hash | 1) &&
            memory_read(memory, image->symbols + index * sizeof(symbol), &symbol, sizeof(symbol)) &&
            symbol_is(memory, image, &symbol, name))
            return symbol.st_value + image->bias;
        if (link & 1)
            return 0;
    }
    return 0;
}

/* ---- from the file ---- */

static bool file_part(int fd, uint64_t at, void *out, size_t size)
{
    return at <= INT64_MAX && pread(fd, out, size, (off_t)at) == (ssize_t)size;
}

uint64_t image_section(int fd, const struct image *image, const char *name)
{
    size_t size = strlen(name) + 1;
    uint64_t found = 0;
    Elf64_Ehdr head;
    Elf64_Shdr part;

    if (!file_part(fd, 0, &head, sizeof(head)) || !header_ok(&head) ||
        head.e_shentsize != sizeof(part) || head.e_shnum > SECTIONS_MAX ||
        !file_part(fd, head.e_shoff + (uint64_t)head.e_shstrndx * sizeof(part), &part,
                   sizeof(part)) ||
        part.sh_size > SECTION_NAMES_MAX || part.sh_size < size)
        return 0;
    uint64_t names_size = part.sh_size;
    char *names = mem_alloc(names_size);
    bool ok = file_part(fd, part.sh_offset, names, names_size);
    for (unsigned i = 0; ok && !found && i < head.e_shnum; i++)
        if (file_part(fd, head.e_shoff + i * sizeof(part), &part, sizeof(part)) && part.sh_addr &&
            part.sh_name + size <= names_size && memcmp(names + part.sh_name, name, size) == 0)
            found = part.sh_addr + image->bias;
    mem_free(names);
    return found;
}
