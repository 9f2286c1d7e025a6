#include "hooks.h"

#include "gate.h"
#include "settings.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

/* The library is loaded into whatever an image has, and that may be older than the glibc it was
 * made with: these get their first version, which every glibc has. */
#if defined(__x86_64__)
#    define SYMBOLS_OF "GLIBC_2.2.5"
#else
#    define SYMBOLS_OF "GLIBC_2.17"
#endif
__asm__(".symver dlopen, dlopen@" SYMBOLS_OF);
__asm__(".symver dlvsym, dlvsym@" SYMBOLS_OF);

/* glibc gives dlsym one of these versions, by its age and the machine. */
static const char *const dlsym_versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};

#define FLAG_PER_THREAD 2 /* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */

typedef void *dlsym_fn(void *handle, const char *name);

struct function {
    const char *name;
    const char *base;
    int since;
    bool per_thread;
    void *ours;
    void *_Atomic real;
};

static struct function functions[HOOK_COUNT] = {
#define HOOK_ROW(name, base, since, per_thread, parameters) \
    {#name, base, since, per_thread, (void *)name, NULL},
    HOOKS(HOOK_ROW)
#undef HOOK_ROW
};

static dlsym_fn *_Atomic dlsym_found;

static dlsym_fn *real_dlsym(void)
{
    dlsym_fn *found = atomic_load_explicit(&dlsym_found, memory_order_relaxed);

    for (size_t i = 0; !found && i < sizeof(dlsym_versions) / sizeof(*dlsym_versions); i++)
        found = (dlsym_fn *)dlvsym(RTLD_NEXT, "dlsym", dlsym_versions[i]);
    atomic_store_explicit(&dlsym_found, found, memory_order_relaxed);
    return found;
}

/* ---- what is real ---- */

static void *find_in(const char *library, const char *name)
{
    void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    dlsym_fn *search = real_dlsym();

    return handle && search ? search(handle, name) : NULL;
}

void *hook_driver(const char *name)
{
    return find_in("libcuda.so.1", name);
}

void *hook_nvml(const char *name)
{
    return find_in("libnvidia-ml.so.1", name);
}

void *hook_libc(const char *name)
{
    dlsym_fn *search = real_dlsym();

    return search ? search(RTLD_DEFAULT, name) : NULL;
}

void *hook_real(enum hook hook)
{
    struct function *function = &functions[hook];
    void *real = atomic_load_explicit(&function->real, memory_order_relaxed);

    if (real)
        return real;
    real = function->base ? hook_driver(function->name) : hook_nvml(function->name);
    if (real != function->ours)
        atomic_store_explicit(&function->real, real, memory_order_relaxed);
    return real == function->ours ? NULL : real;
}

/* These lead to others, and are never held. */
static bool is_a_way(const char *name)
{
    return strncmp(name, "cuGet", 5) == 0 || strncmp(name, "cuCheckpoint", 12) == 0 ||
           strcmp(name, "cuInit") == 0;
}

/* The search found `real`; what the program gets in its stead. */
static void *replace(struct function *function, void *real)
{
    void *none = NULL;

    if (real != function->ours)
        (void)atomic_compare_exchange_strong(&function->real, &none, real);
    return settings.move && function->base && !is_a_way(function->name)
               ? gate_wrap(function->name, function->ours)
               : function->ours;
}

/* ---- dlsym() ---- */

static struct function *by_name(const char *name)
{
    if (strncmp(name, "cu", 2) != 0 && strncmp(name, "nvml", 4) != 0)
        return NULL;
    for (size_t i = 0; i < HOOK_COUNT; i++)
        if (strcmp(functions[i].name, name) == 0)
            return &functions[i];
    return NULL;
}

/* A function of the driver that we only hold, by its name; that of another library is left alone. */
static void *hold(const char *name, void *real)
{
    bool by_driver = strncmp(name, "cu", 2) == 0 && name[2] >= 'A' && name[2] <= 'Z' &&
                     !is_a_way(name) && real == hook_driver(name);

    return by_driver ? gate_wrap(name, real) : real;
}

/* RTLD_NEXT is asked by libraries that stand in for these functions too: they want the real one. */
static void *substitute(dlsym_fn *search, void *handle, const char *name)
{
    bool asked = settings_replace() && name && handle != RTLD_NEXT;
    struct function *function = asked ? by_name(name) : NULL;
    bool held = asked && !function && settings.move && strncmp(name, "cu", 2) == 0;
    void *real = function || held ? search(handle, name) : NULL;

    if (real && held)
        return hold(name, real);
    return real ? replace(function, real) : NULL;
}

/* The last line must be a jump, not a call (the compiler makes it one): what RTLD_NEXT means
 * depends on the address dlsym() returns to. tests/preload has a test of it. */
EXPORT void *dlsym(void *restrict handle, const char *restrict name)
{
    dlsym_fn *search = real_dlsym();
    void *found = search ? substitute(search, handle, name) : NULL;

    if (found || !search)
        return found;
    return search(handle, name);
}

/* ---- cuGetProcAddress() ---- */

static bool is_better(const struct function *a, const struct function *b, bool per_thread)
{
    if (!b || (a->per_thread == per_thread) != (b->per_thread == per_thread))
        return !b || a->per_thread == per_thread;
    return a->since > b->since;
}

/* The newest function that the name meant in that version, of the right kind of streams; one that
 * knows no streams is of both kinds. */
static struct function *by_base(const char *base, int version, uint64_t flags)
{
    struct function *best = NULL;

    for (size_t i = 0; i < HOOK_COUNT; i++) {
        struct function *function = &functions[i];

        if (function->base && strcmp(function->base, base) == 0 && function->since <= version &&
            is_better(function, best, flags & FLAG_PER_THREAD))
            best = function;
    }
    return best;
}

static void substitute_address(const char *symbol, void **address, int version, uint64_t flags)
{
    bool asked = settings_replace() && symbol && address && *address;
    struct function *function = asked ? by_base(symbol, version, flags) : NULL;

    if (function)
        *address = replace(function, *address);
    else if (asked && settings.move && !is_a_way(symbol))
        *address = gate_wrap(symbol, *address);
}

int cuGetProcAddress(const char *symbol, void **address, int version, uint64_t flags)
{
    cuGetProcAddress_fn *real = REAL(cuGetProcAddress);
    int r = real ? real(symbol, address, version, flags) : CUDA_NOT_INITIALIZED;

    if (r == CUDA_SUCCESS)
        substitute_address(symbol, address, version, flags);
    return r;
}

int cuGetProcAddress_v2(const char *symbol,
                        void **address,
                        int version,
                        uint64_t flags,
                        int *status)
{
    cuGetProcAddress_v2_fn *real = REAL(cuGetProcAddress_v2);
    int r = real ? real(symbol, address, version, flags, status) : CUDA_NOT_INITIALIZED;

    if (r == CUDA_SUCCESS)
        substitute_address(symbol, address, version, flags);
    return r;
}
