#include "page/file.h"

#include "base/str.h"

#include <stddef.h>

const struct page_file *page_file_find(struct str name)
{
    for (size_t i = 0; i < page_file_count; i++)
        if (str_is(name, page_files[i].name))
            return &page_files[i];
    return NULL;
}
