#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "stacks/flight.h"
#include "stacks/pickle.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What Python's own writers make of one recorder: three collectives and a send of group default_pg, of
 * which the last one is started, and one of a group without a name. */
static const char protocol_2[] =
    "\200\002}q\000(X\007\000\000\000versionq\001X\004\000\000\0002.10q\002X\011\000\000\000"
    "pg_configq\003}q\004X\001\000\000\0000q\005}q\006(X\004\000\000\000nameq\007h\005X\004"
    "\000\000\000descq\010X\012\000\000\000default_pgq\011X\005\000\000\000ranksq\012X\006"
    "\000\000\000[0, 1]q\013usX\007\000\000\000entriesq\014]q\015(}q\016(X\011\000\000\000"
    "record_idq\017K\000X\005\000\000\000pg_idq\020K\000X\015\000\000\000process_groupq\021"
    "h\005h\011\206q\022X\021\000\000\000collective_seq_idq\023K\001X\012\000\000\000p2p_"
    "seq_idq\024K\000X\005\000\000\000op_idq\025K\001X\006\000\000\000is_p2pq\026\211X\016"
    "\000\000\000profiling_nameq\027X\016\000\000\000nccl:broadcastq\030X\013\000\000\000"
    "input_sizesq\031]q\032(]q\033(K\010K\004e]q\034M,\001aeX\017\000\000\000time_created"
    "_nsq\035\212\010\000\366\342\344\216\230\350\030X\032\000\000\000time_discovered_sta"
    "rted_nsq\036NX\013\000\000\000duration_msq\037G\077\370\000\000\000\000\000\000X\005"
    "\000\000\000stateq X\011\000\000\000completedq!X\007\000\000\000retiredq\"\210X\006\000"
    "\000\000framesq#]q$(}q%(h\007X\012\000\000\000all_reduceq&X\010\000\000\000filenameq"
    "'X\"\000\000\000/usr/lib/torch/distributed/c10d.pyq(X\004\000\000\000lineq)M\305\011"
    "u}q*(h\007X\005\000\000\000trainq+h'X\014\000\000\000/app/main.pyq,h)K+ueu}q-(h\017K"
    "\001h\020K\000h\021h\022h\023K\002h\024K\000h\025K\002h\026\211h\027X\017\000\000\000"
    "nccl:all_reduceq.h\031]q/(]q0(K\010K\004e]q1M,\001aeh\035\212\010\001\366\342\344\216"
    "\230\350\030h\036Nh\037G\077\370\000\000\000\000\000\000h h!h\"\210h#h$u}q2(h\017K\002"
    "h\020K\000h\021X\001\000\000\0005q3X\011\000\000\000undefinedq4\206q5h\023K\001h\024"
    "K\000h\025K\001h\026\211h\027X\017\000\000\000nccl:all_gatherq6h\031]q7(]q8(K\010K\004"
    "e]q9M,\001aeh\035\212\010\002\366\342\344\216\230\350\030h\036Nh\037G\077\370\000\000"
    "\000\000\000\000h h!h\"\210h#h$u}q:(h\017K\003h\020K\000h\021h\022h\023K\003h\024K\000"
    "h\025K\003h\026\211h\027h.h\031]q;(]q<(K\010K\004e]q=M,\001aeh\035\212\010\003\366\342"
    "\344\216\230\350\030h\036Nh\037G\077\370\000\000\000\000\000\000h h!h\"\210h#h$u}q>("
    "h\017K\004h\020K\000h\021h\022h\023K\003h\024K\000h\025K\003h\026\210h\027X\016\000\000"
    "\000nccl:send 0->1q\077h\031]q@(]qA(K\010K\004e]qBM,\001aeh\035\212\010\004\366\342\344"
    "\216\230\350\030h\036Nh\037G\077\370\000\000\000\000\000\000h h!h\"\210h#h$u}qC(h\017"
    "K\005h\020K\000h\021h\022h\023Jp\021\001\000h\024K\000h\025Jp\021\001\000h\026\211h\027"
    "h.h\031]qD(]qE(K\010K\004e]qFM,\001aeh\035\212\010\005\366\342\344\216\230\350\030h\036"
    "Nh\037G\077\370\000\000\000\000\000\000h X\007\000\000\000startedqGh\"\211h#h$ueu.";
static const char protocol_5[] =
    "\200\005\225\034\004\000\000\000\000\000\000}\224(\214\007version\224\214\0042.10\224"
    "\214\011pg_config\224}\224\214\0010\224}\224(\214\004name\224h\005\214\004desc\224\214"
    "\012default_pg\224\214\005ranks\224\214\006[0, 1]\224us\214\007entries\224]\224(}\224"
    "(\214\011record_id\224K\000\214\005pg_id\224K\000\214\015process_group\224h\005h\011"
    "\206\224\214\021collective_seq_id\224K\001\214\012p2p_seq_id\224K\000\214\005op_id\224"
    "K\001\214\006is_p2p\224\211\214\016profiling_name\224\214\016nccl:broadcast\224\214\013"
    "input_sizes\224]\224(]\224(K\010K\004e]\224M,\001ae\214\017time_created_ns\224\212\010"
    "\000\366\342\344\216\230\350\030\214\032time_discovered_started_ns\224N\214\013durat"
    "ion_ms\224G\077\370\000\000\000\000\000\000\214\005state\224\214\011completed\224\214"
    "\007retired\224\210\214\006frames\224]\224(}\224(h\007\214\012all_reduce\224\214\010"
    "filename\224\214\"/usr/lib/torch/distributed/c10d.py\224\214\004line\224M\305\011u}\224"
    "(h\007\214\005train\224h'\214\014/app/main.py\224h)K+ueu}\224(h\017K\001h\020K\000h\021"
    "h\022h\023K\002h\024K\000h\025K\002h\026\211h\027\214\017nccl:all_reduce\224h\031]\224"
    "(]\224(K\010K\004e]\224M,\001aeh\035\212\010\001\366\342\344\216\230\350\030h\036Nh\037"
    "G\077\370\000\000\000\000\000\000h h!h\"\210h#h$u}\224(h\017K\002h\020K\000h\021\214"
    "\0015\224\214\011undefined\224\206\224h\023K\001h\024K\000h\025K\001h\026\211h\027\214"
    "\017nccl:all_gather\224h\031]\224(]\224(K\010K\004e]\224M,\001aeh\035\212\010\002\366"
    "\342\344\216\230\350\030h\036Nh\037G\077\370\000\000\000\000\000\000h h!h\"\210h#h$u"
    "}\224(h\017K\003h\020K\000h\021h\022h\023K\003h\024K\000h\025K\003h\026\211h\027h.h\031"
    "]\224(]\224(K\010K\004e]\224M,\001aeh\035\212\010\003\366\342\344\216\230\350\030h\036"
    "Nh\037G\077\370\000\000\000\000\000\000h h!h\"\210h#h$u}\224(h\017K\004h\020K\000h\021"
    "h\022h\023K\003h\024K\000h\025K\003h\026\210h\027\214\016nccl:send 0->1\224h\031]\224"
    "(]\224(K\010K\004e]\224M,\001aeh\035\212\010\004\366\342\344\216\230\350\030h\036Nh\037"
    "G\077\370\000\000\000\000\000\000h h!h\"\210h#h$u}\224(h\017K\005h\020K\000h\021h\022"
    "h\023Jp\021\001\000h\024K\000h\025Jp\021\001\000h\026\211h\027h.h\031]\224(]\224(K\010"
    "K\004e]\224M,\001aeh\035\212\010\005\366\342\344\216\230\350\030h\036Nh\037G\077\370"
    "\000\000\000\000\000\000h \214\007started\224h\"\211h#h$ueu.";

#define BYTES(text) ((struct str){text, sizeof(text) - 1})

TEST(the_last_collectives_of_a_flight_recorder_are_read)
{
    const struct str rows[] = {BYTES(protocol_2), BYTES(protocol_5)};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct err err = {0};
        struct json *flight = flight_decode(&arena, rows[i], &err);

        EXPECT(flight && !err.code);
        EXPECT(str_is(json_str_at(flight, "version"), "2.10"));
        EXPECT(json_count(json_get(flight, "groups")) == 2);
        EXPECT(str_is(json_str_at(flight, "groups.0.group"), "default_pg"));
        EXPECT(json_count(json_at(flight, "groups.0.last")) == FLIGHT_LAST);
        EXPECT(json_i64_or(json_at(flight, "groups.0.last.0.seq"), 0) == 2);
        EXPECT(json_i64_or(json_at(flight, "groups.0.last.2.seq"), 0) == 70000);
        EXPECT(str_is(json_str_at(flight, "groups.0.last.2.op"), "nccl:all_reduce"));
        EXPECT(str_is(json_str_at(flight, "groups.0.last.2.state"), "started"));
        EXPECT(str_is(json_str_at(flight, "groups.0.last.2.sizes"), "[[8, 4], [300]]"));
        EXPECT(str_is(json_str_at(flight, "groups.0.last.2.where"), "main.py:43 (train)"));
        EXPECT(str_is(json_str_at(flight, "groups.1.group"), "5"));
        EXPECT(json_count(json_at(flight, "groups.1.last")) == 1);
    }
}

TEST(a_pickle_that_is_not_plain_or_not_whole_is_refused)
{
    static const struct {
        const char *why;
        struct str bytes;
        const char *says;
    } rows[] = {
        {"nothing", BYTES(""), "it ends early (at byte 0)"},
        {"a name is looked up", BYTES("\200\2cos\nsystem\n."), "it has more than plain values"},
        {"something is called", BYTES("\200\2)R."), "it has more than plain values"},
        {"a text that goes beyond the end", BYTES("X\377\377\377\377a."), "it ends early"},
        {"two values", BYTES("NN."), "it is not one value"},
        {"no value", BYTES("."), "it is not one value"},
        {"a mark that is not there", BYTES("Nt."), "a mark is missing"},
        {"values without a list", BYTES("(NNe."), "what its values are put into is missing"},
        {"a key without a value", BYTES("}(Nu."), "what its values are put into is missing"},
        {"a list in the place of a dict", BYTES("](NNu."),
         "what its values are put into is missing"},
        {"a value below the mark", BYTES("N(\205."), "a value is missing"},
        {"a list below the mark", BYTES("](Na."), "a value is missing"},
        {"what was never remembered", BYTES("h\1."), "what it remembers makes no sense"},
        {"a number of that which is too high", BYTES("Nr\377\377\377\177."),
         "what it remembers makes no sense"},
        {"no entries", BYTES("}."), "it has no entries"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct err err = {0};

        test_case(rows[i].why);
        EXPECT(!flight_decode(&arena, rows[i].bytes, &err));
        EXPECT(str_starts(str_from(err.text), str_from(rows[i].says)));
    }
}

TEST(a_flight_recorder_with_any_byte_wrong_or_cut_off_anywhere_does_no_harm)
{
    for (size_t i = 0; i < sizeof(protocol_2) - 1; i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        char copy[sizeof(protocol_2)];

        EXPECT(!flight_decode(&arena, (struct str){protocol_2, i}, NULL));
        for (int bit = 0; bit < 8; bit++) {
            memcpy(copy, protocol_2, sizeof(copy));
            copy[i] = (char)(copy[i] ^ (1 << bit));
            (void)flight_decode(&arena, (struct str){copy, sizeof(copy) - 1}, NULL);
        }
    }
}

TEST(a_pickle_of_too_many_values_or_too_deep_is_refused)
{
    _cleanup_(arena_done) struct arena arena = {0};
    size_t count = PICKLE_VALUES_MAX + 10;
    char *bytes = ARENA_ARRAY(&arena, char, count);
    struct err err = {0};

    memset(bytes, 'N', count);
    EXPECT(!pickle_read(&arena, (struct str){bytes, count}, &err));
    EXPECT(str_starts(str_from(err.text), STR("it has too many values")));
    memset(bytes, '(', count);
    EXPECT(!pickle_read(&arena, (struct str){bytes, count}, &err));
    EXPECT(str_starts(str_from(err.text), STR("it is nested too deeply")));
}
