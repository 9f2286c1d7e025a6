#include "base/count.h"
#include "cel/expression_test.h"
#include "test.h"

TEST(positions_in_texts_count_characters_and_the_end_is_one)
{
    static const char *const texts[] = {
        "'abc'.indexOf('') == 0 && 'abc'.lastIndexOf('') == 3 && 'abc'.indexOf('', 2) == 2",
        "'ab'.indexOf('abc') == -1 && 'ab'.lastIndexOf('abc') == -1 && 'ab'.lastIndexOf('z') == -1",
        "'hello mellow'.lastIndexOf('ello', 6) == 1 && 'hello mellow'.lastIndexOf('ello', 7) == 7",
        "'hello mellow'.indexOf('ello', 2) == 7 && 'hello'.indexOf('z', 1) == -1",
        "'\u00e9\u4e16\U0001f600'.charAt(2) == '\U0001f600' && '\u00e9a'.indexOf('a') == 1",
        "'\u00e9\u4e16\U0001f600'.size() == 3 && '\u00e9\u4e16\U0001f600'.substring(1, 2) == "
        "'\u4e16'",
        "'abc'.substring(3) == '' && 'abc'.substring(1, 1) == '' && 'abc'.substring(0, 3) == "
        "'abc'",
        "'\u00e9\u4e16\U0001f600'.reverse() == '\U0001f600\u4e16\u00e9' && ''.reverse() == ''",
    };
    static const struct expression_error rows[] = {
        {"'abc'.charAt(-1)", "index out of range: -1"},
        {"'abc'.charAt(4)", "index out of range: 4"},
        {"'abc'.indexOf('a', 9)", "index out of range: 9"},
        {"'abc'.lastIndexOf('a', -1)", "index out of range: -1"},
        {"'abc'.substring(4)", "index out of range: 4"},
        {"'abc'.substring(0, 4)", "index out of range: 4"},
        {"'abc'.substring(2, 1)", "invalid substring range: it ends before it begins"},
    };

    expression_all_true(texts, COUNT_OF(texts), "{}");
    expression_all_fail(rows, COUNT_OF(rows), "{}");
}

TEST(texts_are_trimmed_replaced_split_joined_and_quoted)
{
    static const char *const texts[] = {
        "' \\f\\n\\r\\t\\vtext '.trim() == 'text' && '   '.trim() == '' && ''.trim() == ''",
        "'\\u0085\\u00a0\\u1680text\\u2000\\u200a\\u2028'.trim() == 'text'",
        "'\\u2029\\u202f\\u205f\\u3000text\\u2001'.trim() == 'text'",
        "'\\u200btext\\u180e\\u200b'.trim() == '\\u200btext\\u180e\\u200b'",
        "'\\u1681text\\u2030'.trim() == '\\u1681text\\u2030' && 'a b'.trim() == 'a b'",
        "'A[b]Z'.lowerAscii() == 'a[b]z' && 'a{B}z\u00e9'.upperAscii() == 'A{B}Z\u00e9'",
        "'hello hello'.replace('he', 'we', 0) == 'hello hello'",
        "'hello hello'.replace('he', 'we', -1) == 'wello wello' && ''.replace('', 'x') == 'x'",
        "'abc'.replace('', '_', 2) == '_a_bc' && 'abc'.replace('', '_', 9) == '_a_b_c_'",
        "'abc'.replace('z', 'y') == 'abc' && 'aaa'.replace('aa', 'b') == 'ba'",
        "'a,b,c'.split(',', -1) == ['a', 'b', 'c'] && 'a,b,c'.split(',', 1) == ['a,b,c']",
        "''.split('') == [] && ''.split(',') == [''] && 'ab'.split('', 1) == ['ab']",
        "'abc'.split('', 2) == ['a', 'bc'] && ','.split(',') == ['', ''] && 'a'.split('b') == "
        "['a']",
        "[].join() == '' && ['a'].join('-') == 'a' && ['a', '', 'b'].join('-') == 'a--b'",
        "strings.quote('\\a\\b\\f\\n\\r\\t\\v\\\\\\\"') == "
        "'\"\\\\a\\\\b\\\\f\\\\n\\\\r\\\\t\\\\v\\\\\\\\\\\\\\\"\"'",
        "strings.quote('') == '\"\"' && strings.quote('\u00e9') == '\"\u00e9\"'",
        "'abc'.contains('') && ''.contains('') && !''.contains('a') && 'abc'.endsWith('')",
        "'aab'.findAll('a') == ['a', 'a'] && 'aab'.findAll('a', 1) == ['a']",
        "'aab'.findAll('a', 0) == [] && 'aab'.findAll('a', -1) == ['a', 'a']",
        "'ab'.findAll('') == ['', '', ''] && '\u00e9'.findAll('') == ['', '']",
        "''.findAll('a') == [] && ''.find('a*') == '' && ''.findAll('') == ['']",
        "'baac'.findAll('a*') == ['', 'aa', '']",
    };
    static const struct expression_error rows[] = {
        {"'a'.find('(')", "pattern \"(\": ')' is missing at character 2"},
        {"'a'.findAll('(')", "pattern \"(\": ')' is missing at character 2"},
    };

    expression_all_true(texts, COUNT_OF(texts), "{}");
    expression_all_fail(rows, COUNT_OF(rows), "{}");
}

TEST(lists_have_a_least_a_sum_and_an_order)
{
    static const char *const texts[] = {
        "[1.5, 2.5].sum() == 4.0 && [1u, 2u].sum() == 3u",
        "[duration('1s'), duration('2s')].sum() == duration('3s')",
        "['b', 'a'].min() == 'a' && ['b', 'a'].max() == 'b' && [3].min() == 3",
        "[timestamp(0), timestamp(1)].isSorted() && [].isSorted() && [1].isSorted()",
        "[false, true].isSorted() && !([2, 1].isSorted()) && [duration('1s')].max() == "
        "duration('1s')",
        "[1, 2].indexOf(3) == -1 && [1, 2, 1].indexOf(1) == 0 && [].lastIndexOf(1) == -1",
        "sets.contains([], []) && !sets.contains([1], [2]) && !sets.intersects([], [1])",
        "!sets.equivalent([1, 2], [1]) && !sets.equivalent([1], [1, 2]) && sets.equivalent([], [])",
    };
    static const struct expression_error rows[] = {
        {"[].min()", "min called on empty list"},
        {"[].max()", "max called on empty list"},
        {"[9223372036854775807, 1].sum()", "integer overflow"},
    };

    expression_all_true(texts, COUNT_OF(texts), "{}");
    expression_all_fail(rows, COUNT_OF(rows), "{}");
}

TEST(a_format_writes_each_value_by_its_clause)
{
    static const char *const texts[] = {
        "'%% %s%%'.format(['a']) == '% a%' && 'none'.format([]) == 'none'",
        "'%s %s %s %s'.format([true, 1u, 1.5, null]) == 'true 1 1.5 null'",
        "'%s %s'.format([b'abc', int]) == 'abc int' && '%s'.format([string]) == 'string'",
        "'%s'.format([timestamp('2024-01-01T00:00:00Z')]) == '2024-01-01T00:00:00Z'",
        "'%s'.format([duration('90s')]) == '90s' && '%d %d'.format([-1, 2u]) == '-1 2'",
        "'%s'.format([[b'a', timestamp(0), duration('1s'), null, true, 1u]]) == "
        "'[b\"a\", timestamp(\"1970-01-01T00:00:00Z\"), duration(\"1s\"), null, true, 1]'",
        "'%s'.format([{1: 'a', 'b': [1.5], true: {}}]) == '{\"b\":[1.500000], 1:\"a\", true:{}}'",
        "'%s'.format([[double('NaN'), double('inf'), double('-inf')]]) == "
        "'[\"NaN\", \"\u221e\", \"-\u221e\"]'",
        "'%f %.2f %.0f'.format([1.5, 2.345, 3.0]) == '1.500000 2.35 3' || "
        "'%f %.2f %.0f'.format([1.5, 2.345, 3.0]) == '1.500000 2.34 3'",
        "'%f %f %f'.format([1, 2u, '0.5']) == '1.000000 2.000000 0.500000'",
        "'%f %f'.format([double('NaN'), double('inf')]) == 'NaN \u221e'",
        "'%e'.format([double('-inf')]) == '-\u221e' && '%f'.format(['-Infinity']) == '-\u221e'",
        "'%e'.format([1052.032911275]) == '1.052033\u202f\u00d7\u202f10\u2070\u00b3'",
        "'%.1e'.format([0.00015]) == '1.5\u202f\u00d7\u202f10\u207b\u2070\u2074'",
        "'%b %b %b %b'.format([5, -5, true, 6u]) == '101 -101 1 110'",
        "'%o %o'.format([11, 11u]) == '13 13' && '%b'.format([false]) == '0'",
        "'%x %X %x %x'.format([30, 30, -30, 30u]) == '1e 1E -1e 1e'",
        "'%x %X'.format(['Hi\\xff', b'\\xab']) == '4869c3bf AB'",
        "'%x'.format([-9223372036854775808]) == '-8000000000000000'",
    };
    static const struct expression_error rows[] = {
        {"'%s'.format([])", "index out of bounds: there are more clauses than values"},
        {"'%s'.format([optional.none()])",
         "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
         "types, durations, and timestamps"},
        {"'%s'.format([[format.uri()]])",
         "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
         "types, durations, and timestamps"},
        {"'%d'.format([1.5])", "decimal clause can only be used on integers"},
        {"'%f'.format([true])", "fixed-point clause can only be used on doubles"},
        {"'%e'.format([true])", "scientific clause can only be used on doubles"},
        {"'%f'.format(['x'])", "a text is no number"},
        {"'%b'.format(['x'])", "only integers and bools can be formatted as binary"},
        {"'%o'.format([true])", "octal clause can only be used on integers"},
        {"'%x'.format([1.5])", "only integers, byte buffers, and strings can be formatted as hex"},
        {"'%.101f'.format([1.5])", "the precision of a number is at most 100"},
        {"'%.99999999999f'.format([1.5])", "the precision of a number is at most 100"},
        {"'%q'.format([1])", "could not parse formatting clause: unrecognized formatting clause"},
        {"'%'.format([1])", "could not parse formatting clause: unrecognized formatting clause"},
        {"'%.'.format([1])", "could not parse formatting clause: unrecognized formatting clause"},
        {"'%d %d'.format(['a', 'b'])", "decimal clause can only be used on integers"},
    };

    expression_all_true(texts, COUNT_OF(texts), "{}");
    expression_all_fail(rows, COUNT_OF(rows), "{}");
}
