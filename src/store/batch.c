#include "store/batch.h"

#include "api/object.h"
#include "base/mem.h"
#include "base/vec.h"
#include "store/state.h"

#include <stddef.h>

struct batch *batch_open(struct store *store)
{
    if (!store->open)
        store->open = MEM_NEW(struct batch);
    return store->open;
}

void batch_free(struct batch *batch)
{
    if (!batch)
        return;
    for (size_t i = 0; i < batch->changes.count; i++) {
        object_unref(batch->changes.items[i].object);
        object_unref(batch->changes.items[i].previous);
    }
    VEC_DONE(&batch->changes);
    mem_free(batch);
}
