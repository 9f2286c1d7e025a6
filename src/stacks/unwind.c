#include "stacks/unwind.h"

#include "stacks/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define REGISTERS 33 /* of either machine, with the return address */
#if defined(__aarch64__)
#    define STACK_REGISTER 31
#else
#    define STACK_REGISTER 7
#endif

/* Forms of addresses (DW_EH_PE): what compilers for Linux write. */
#define FORM_RELATIVE 0x1b /* to itself, four bytes with a sign */
#define FORM_COUNT    0x03 /* four bytes */
#define FORM_TABLE    0x3b /* to the table, four bytes with a sign */

#define SEARCH_MAX  32 /* halvings of a table of 2^32 */
#define GUESSES_MAX 64 /* words of a stack: what waits in the kernel has a small frame */

enum rule {
    RULE_SAME, /* it was not touched: known if it was */
    RULE_SAVED,
    RULE_UNKNOWN,
};

struct row {
    enum rule rules[REGISTERS];
    int64_t at[REGISTERS]; /* from the frame's address */
    uint64_t base;         /* the register that this counts from; REGISTERS: it is computed */
    int64_t offset;
};

struct registers {
    uint64_t value[REGISTERS];
    bool known[REGISTERS];
};

/* ---- bytes ---- */

struct bytes {
    const uint8_t *p;
    size_t left;
    bool bad;
};

static uint64_t take(struct bytes *bytes, size_t size)
{
    uint64_t number = 0;

    if (bytes->left < size) {
        bytes->bad = true;
        bytes->left = 0;
        return 0;
    }
    memcpy(&number, bytes->p, size);
    bytes->p += size;
    bytes->left -= size;
    return number;
}

static uint64_t take_uleb(struct bytes *bytes)
{
    uint64_t number = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint64_t byte = take(bytes, 1);

        number |= (byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return number;
    }
    bytes->bad = true;
    return 0;
}

static int64_t take_sleb(struct bytes *bytes)
{
    uint64_t number = 0;

    for (unsigned shift = 0; shift < 63; shift += 7) {
        uint64_t byte = take(bytes, 1);

        number |= (byte & 0x7f) << shift;
        if (byte & 0x80)
            continue;
        if (byte & 0x40)
            number |= ~UINT64_C(0) << (shift + 7);
        return (int64_t)number;
    }
    bytes->bad = true;
    return 0;
}

/* ---- the entry of an address ---- */

struct entry {
    uint8_t head[UNWIND_BYTES_MAX]; /* what all functions of a file have in common */
    uint8_t body[UNWIND_BYTES_MAX];
    struct bytes common; /* instructions */
    struct bytes own;
    uint64_t begin;
    uint64_t code_align;
    int64_t data_align;
    uint64_t return_register;
    bool has_more; /* data for whoever throws, before the instructions */
};

static bool read_record(struct memory *memory, uint64_t at, uint8_t *out, size_t *ret_size)
{
    uint32_t size = 0;

    if (!memory_read(memory, at, &size, sizeof(size)) || !size || size > UNWIND_BYTES_MAX ||
        !memory_read(memory, at + 4, out, size))
        return false;
    *ret_size = size;
    return true;
}

/* "zR", "zPLR", "zRS" and the like: the form of addresses has to be the usual one. */
static bool read_head(struct memory *memory, uint64_t at, struct entry *ret)
{
    struct bytes bytes = {.p = ret->head};
    char letters[8] = "";
    size_t count = 0;
    bool relative = false;

    if (!read_record(memory, at, ret->head, &bytes.left) || take(&bytes, 4) != 0)
        return false;
    uint64_t version = take(&bytes, 1);
    for (uint64_t c = take(&bytes, 1); c && !bytes.bad; c = take(&bytes, 1)) {
        if (count + 1 >= sizeof(letters))
            return false;
        letters[count++] = (char)c;
    }
    ret->code_align = take_uleb(&bytes);
    ret->data_align = take_sleb(&bytes);
    ret->return_register = version == 1 ? take(&bytes, 1) : take_uleb(&bytes);
    ret->has_more = letters[0] == 'z';
    if (!ret->has_more || (version != 1 && version != 3) || ret->return_register >= REGISTERS)
        return false;
    uint64_t more = take_uleb(&bytes);
    struct bytes extra = {.p = bytes.p, .left = more < bytes.left ? more : bytes.left};
    for (size_t i = 1; i < count && !extra.bad; i++) {
        uint64_t form = letters[i] == 'S' || letters[i] == 'B' ? 0 : take(&extra, 1);

        if (letters[i] == 'S') /* of a signal handler: its frame is computed */
            return false;
        if (letters[i] == 'R')
            relative = form == FORM_RELATIVE;
        if (letters[i] == 'P')
            (void)take(&extra, (form & 0x0f) == 0x0b || (form & 0x0f) == 0x03 ? 4 : 8);
    }
    if (bytes.bad || more > bytes.left)
        return false;
    bytes.p += more;
    bytes.left -= more;
    ret->common = bytes;
    return relative;
}

static bool read_entry(struct memory *memory, uint64_t at, uint64_t pc, struct entry *ret)
{
    struct bytes bytes = {.p = ret->body};

    if (!read_record(memory, at, ret->body, &bytes.left))
        return false;
    uint64_t back = take(&bytes, 4);
    if (!back || !read_head(memory, at + 4 - back, ret))
        return false;
    ret->begin = at + 8 + (uint64_t)(int64_t)(int32_t)take(&bytes, 4);
    uint64_t size = take(&bytes, 4);
    if (bytes.bad || pc < ret->begin || pc - ret->begin >= size)
        return false;
    uint64_t more = take_uleb(&bytes);
    if (bytes.bad || more > bytes.left)
        return false;
    bytes.p += more;
    bytes.left -= more;
    ret->own = bytes;
    return true;
}

/* The table is in the order of addresses: pairs of where a function begins and where its entry is. */
static bool find_entry(struct memory *memory, uint64_t table, uint64_t pc, struct entry *ret)
{
    uint8_t head[4];
    uint32_t count = 0;
    int32_t pair[2] = {0};

    if (!memory_read(memory, table, head, sizeof(head)) || head[0] != 1 ||
        head[1] != FORM_RELATIVE || head[2] != FORM_COUNT || head[3] != FORM_TABLE ||
        !memory_read(memory, table + 8, &count, sizeof(count)))
        return false;
    uint64_t low = 0;
    uint64_t high = count;
    for (int i = 0; i < SEARCH_MAX && high - low > 1; i++) {
        uint64_t middle = low + (high - low) / 2;

        if (!memory_read(memory, table + 12 + middle * sizeof(pair), pair, sizeof(pair)))
            return false;
        if (table + (uint64_t)(int64_t)pair[0] <= pc)
            low = middle;
        else
            high = middle;
    }
    if (!count || !memory_read(memory, table + 12 + low * sizeof(pair), pair, sizeof(pair)))
        return false;
    return read_entry(memory, table + (uint64_t)(int64_t)pair[1], pc, ret);
}

/* ---- its instructions ---- */

struct machine {
    const struct entry *entry;
    struct row row;
    const struct row *first; /* what the common ones left; NULL: these are they */
    struct row kept[UNWIND_STATES_MAX];
    size_t kept_count;
    uint64_t at;
    uint64_t pc;
    bool bad;
};

static void set_rule(struct machine *machine, uint64_t number, enum rule rule, int64_t at)
{
    if (number >= REGISTERS) /* of vectors: nobody needs them */
        return;
    machine->row.rules[number] = rule;
    machine->row.at[number] = at;
}

static void restore(struct machine *machine, uint64_t number)
{
    if (number < REGISTERS && machine->first)
        set_rule(machine, number, machine->first->rules[number], machine->first->at[number]);
}

static void set_base(struct machine *machine, uint64_t number)
{
    machine->row.base = number < REGISTERS ? number : REGISTERS;
}

static void skip(struct bytes *bytes, uint64_t size)
{
    if (size > bytes->left) {
        bytes->bad = true;
        size = bytes->left;
    }
    bytes->p += size;
    bytes->left -= size;
}

static void keep(struct machine *machine)
{
    if (machine->kept_count == UNWIND_STATES_MAX)
        machine->bad = true;
    else
        machine->kept[machine->kept_count++] = machine->row;
}

static void kept_again(struct machine *machine)
{
    if (!machine->kept_count)
        machine->bad = true;
    else
        machine->row = machine->kept[--machine->kept_count];
}

/* Those with a byte of their own (DW_CFA_*). */
static void step_long(struct machine *machine, struct bytes *bytes, uint64_t op)
{
    const struct entry *entry = machine->entry;
    uint64_t number = 0;

    switch (op) {
    case 0x00: break;
    case 0x02: machine->at += take(bytes, 1) * entry->code_align; break;
    case 0x03: machine->at += take(bytes, 2) * entry->code_align; break;
    case 0x04: machine->at += take(bytes, 4) * entry->code_align; break;
    case 0x05:
        number = take_uleb(bytes);
        set_rule(machine, number, RULE_SAVED, (int64_t)take_uleb(bytes) * entry->data_align);
        break;
    case 0x06: restore(machine, take_uleb(bytes)); break;
    case 0x07: set_rule(machine, take_uleb(bytes), RULE_UNKNOWN, 0); break;
    case 0x08: set_rule(machine, take_uleb(bytes), RULE_SAME, 0); break;
    case 0x09:
        set_rule(machine, take_uleb(bytes), RULE_UNKNOWN, 0);
        (void)take_uleb(bytes);
        break;
    case 0x0a: keep(machine); break;
    case 0x0b: kept_again(machine); break;
    case 0x0c:
        set_base(machine, take_uleb(bytes));
        machine->row.offset = (int64_t)take_uleb(bytes);
        break;
    case 0x0d: set_base(machine, take_uleb(bytes)); break;
    case 0x0e: machine->row.offset = (int64_t)take_uleb(bytes); break;
    case 0x0f:
        set_base(machine, REGISTERS);
        skip(bytes, take_uleb(bytes));
        break;
    case 0x10:
    case 0x16:
        set_rule(machine, take_uleb(bytes), RULE_UNKNOWN, 0);
        skip(bytes, take_uleb(bytes));
        break;
    case 0x11:
        number = take_uleb(bytes);
        set_rule(machine, number, RULE_SAVED, take_sleb(bytes) * entry->data_align);
        break;
    case 0x12:
        set_base(machine, take_uleb(bytes));
        machine->row.offset = take_sleb(bytes) * entry->data_align;
        break;
    case 0x13: machine->row.offset = take_sleb(bytes) * entry->data_align; break;
    case 0x2e: (void)take_uleb(bytes); break;
    default: machine->bad = true; break;
    }
}

static void play(struct machine *machine, struct bytes bytes)
{
    const struct entry *entry = machine->entry;

    while (bytes.left && !bytes.bad && !machine->bad && machine->at <= machine->pc) {
        uint64_t op = take(&bytes, 1);

        if (op >> 6 == 1)
            machine->at += (op & 0x3f) * entry->code_align;
        else if (op >> 6 == 2)
            set_rule(machine, op & 0x3f, RULE_SAVED,
                     (int64_t)take_uleb(&bytes) * entry->data_align);
        else if (op >> 6 == 3)
            restore(machine, op & 0x3f);
        else
            step_long(machine, &bytes, op);
    }
    machine->bad = machine->bad || bytes.bad;
}

/* ---- the first frame pointer ---- */

#if defined(__x86_64__)
#    define FRAME_REGISTER 6

/* Whether the instruction before `after` calls what begins at `begin`, itself or through a table of
 * addresses of other files (PLT). */
static bool is_call_of(struct memory *memory, uint64_t after, uint64_t begin)
{
    static const uint8_t mark[] = {0xf3, 0x0f, 0x1e, 0xfa}; /* endbr64 */
    uint8_t code[5], stub[16];
    uint64_t target = 0;
    int32_t distance = 0;
    size_t at = 0;

    if (after < sizeof(code) || !memory_read(memory, after - sizeof(code), code, sizeof(code)) ||
        code[0] != 0xe8)
        return false;
    memcpy(&distance, code + 1, sizeof(distance));
    target = after + (uint64_t)(int64_t)distance;
    if (target == begin)
        return true;
    if (!memory_read(memory, target, stub, sizeof(stub)))
        return false;
    at += memcmp(stub, mark, sizeof(mark)) == 0 ? sizeof(mark) : 0;
    at += stub[at] == 0xf2;
    if (stub[at] != 0xff || stub[at + 1] != 0x25)
        return false;
    memcpy(&distance, stub + at + 2, sizeof(distance));
    return memory_u64(memory, target + at + 6 + (uint64_t)(int64_t)distance, &target) &&
           target == begin;
}

/* Of a function that counts from its frame pointer, which is not known: it lies below the address that
 * it returns to, and that is behind a call of it. */
static bool guess_frame(struct memory *memory, uint64_t begin, struct registers *registers)
{
    uint64_t at = registers->value[STACK_REGISTER] + 8, word = 0;

    for (size_t i = 0; i < GUESSES_MAX; i++, at += 8) {
        if (!memory_u64(memory, at, &word))
            return false;
        if (!is_call_of(memory, word, begin))
            continue;
        registers->value[FRAME_REGISTER] = at - 8;
        registers->known[FRAME_REGISTER] = true;
        return true;
    }
    return false;
}
#else
#    define FRAME_REGISTER REGISTERS
static bool guess_frame(struct memory *memory, uint64_t begin, struct registers *registers)
{
    (void)memory;
    (void)begin;
    (void)registers;
    return false;
}
#endif

/* ---- frames ---- */

/* The registers of the caller, of those that are known. */
static bool step(struct memory *memory,
                 const struct entry *entry,
                 uint64_t pc,
                 bool innermost,
                 struct registers *registers)
{
    struct machine machine = {.entry = entry, .at = entry->begin, .pc = pc};

    machine.row.base = REGISTERS;
    play(&machine, entry->common);
    struct row first = machine.row;
    machine.first = &first;
    machine.at = entry->begin;
    play(&machine, entry->own);
    if (machine.bad || machine.row.base == REGISTERS)
        return false;
    if (!registers->known[machine.row.base] && (!innermost || machine.row.base != FRAME_REGISTER ||
                                                !guess_frame(memory, entry->begin, registers)))
        return false;
    struct registers above = *registers;
    uint64_t frame = registers->value[machine.row.base] + (uint64_t)machine.row.offset;
    if (frame <= registers->value[STACK_REGISTER]) /* stacks grow downwards */
        return false;
    for (size_t i = 0; i < REGISTERS; i++) {
        if (machine.row.rules[i] == RULE_SAVED)
            above.known[i] =
                memory_u64(memory, frame + (uint64_t)machine.row.at[i], &above.value[i]);
        else if (machine.row.rules[i] == RULE_UNKNOWN)
            above.known[i] = false;
    }
    above.value[STACK_REGISTER] = frame;
    above.known[STACK_REGISTER] = true;
    /* The return address that is read again must not be an old one. */
    bool returns = machine.row.rules[entry->return_register] == RULE_SAVED &&
                   above.known[entry->return_register];
    *registers = above;
    return returns;
}

size_t unwind_stack(struct memory *memory,
                    const struct unwind_start *start,
                    unwind_find_fn *find,
                    void *user,
                    uint64_t ret[static UNWIND_FRAMES_MAX])
{
    struct registers registers = {0};
    struct entry entry;
    uint64_t pc = start->pc;
    size_t count = 0;

    registers.value[STACK_REGISTER] = start->sp;
    registers.known[STACK_REGISTER] = true;
    while (pc && count < UNWIND_FRAMES_MAX) {
        uint64_t table = 0;

        ret[count++] = pc;
        if (!find(user, pc, &table) || !table || !find_entry(memory, table, pc, &entry) ||
            !step(memory, &entry, pc, count == 1, &registers))
            break;
        /* A call that does not return is the last instruction of its function. */
        pc = registers.value[entry.return_register];
        pc = pc ? pc - 1 : 0;
    }
    return count;
}
