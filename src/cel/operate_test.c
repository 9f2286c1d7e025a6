#include "base/count.h"
#include "cel/expression_test.h"
#include "test.h"

#define OBJECT "{\"n\": 3, \"list\": [1, 2], \"map\": {\"x\": 1}, \"big\": 1e300, \"tiny\": -1.5e3}"

TEST(arithmetic_gives_what_it_says_or_an_error)
{
    static const char *const texts[] = {
        "7 - 9 == -2 && 3 * -4 == -12 && 7 % 3 == 1",
        "7u - 2u == 5u && 3u * 4u == 12u && 7u % 3u == 1u && 7u / 2u == 3u && 1u + 2u == 3u",
        "1.5 - 0.5 == 1.0 && 1.5 * 2.0 == 3.0 && 3.0 / 2.0 == 1.5",
        "1.0 / 0.0 == double('Infinity') && -1.0 / 0.0 == double('-inf')",
        "-(self.n) == -3 && -(1.5) == -1.5 && - -self.n == 3 && - - -self.n == -3",
        "!!true && !!!false",
        "'' + 'a' == 'a' && 'a' + '' == 'a' && '' + '' == '' && b'' + b'' == b''",
        "self.list + [3] == [1, 2, 3] && [] + [] == []",
        "-9223372036854775808 == -9223372036854775807 - 1",
    };
    static const struct expression_error rows[] = {
        {"dyn(-9223372036854775808) / -1", "integer overflow"},
        {"-9223372036854775808 % -1", "integer overflow"},
        {"-9223372036854775808 - 1", "integer overflow"},
        {"9223372036854775807 * 2", "integer overflow"},
        {"-(-9223372036854775807 - 1)", "integer overflow"},
        {"1 % 0", "modulus by zero"},
        {"1u / 0u", "division by zero"},
        {"1u % 0u", "modulus by zero"},
        {"18446744073709551615u + 1u", "unsigned integer overflow"},
        {"18446744073709551615u * 2u", "unsigned integer overflow"},
    };

    expression_all_true(texts, COUNT_OF(texts), OBJECT);
    expression_all_fail(rows, COUNT_OF(rows), OBJECT);
}

TEST(numbers_compare_by_amount_whatever_their_types)
{
    static const char *const texts[] = {
        "1 < 2u && 2u > 1 && -1 < 0u && 0u > -1 && !(0u < -1)",
        "1u < 2u && 2u > 1u && 2u >= 2u && 1u != 2u",
        "1 < 1.5 && 1.5 > 1 && 2u > 1.5 && 1.5 < 2u",
        "dyn(1) == 1.0 && dyn(1u) == 1.0 && dyn(1.0) == 1u && dyn(1.5) != 1",
        "9223372036854775807 < 1e19 && -9223372036854775807 > -1e19",
        "1u > -0.5 && 18446744073709551615u < 1e20 && 1e20 > 18446744073709551615u",
        "!(double('NaN') < 1.0) && !(double('NaN') >= 1) && !(1u > double('NaN'))",
        "double('NaN') != double('NaN') && !(1.0 < double('nan')) && dyn(1) != double('NaN')",
        "!(double('NaN') in [double('NaN')]) && 1 in [1.0, 2.0] && 2u in [1, 2]",
        "'a' < 'b' && b'b' > b'a' && false < true && !(true < false)",
        "duration('1s') < duration('2s') && timestamp(1) > timestamp(0)",
    };

    expression_all_true(texts, COUNT_OF(texts), OBJECT);
}

TEST(lists_and_maps_are_equal_by_what_they_hold)
{
    static const char *const texts[] = {
        "[1, 2] != [1] && [1, 2] != [2, 1] && [] == [] && [[1], [2]] == [[1.0], [2u]]",
        "{'a': 1} != {'a': 2} && {'a': 1} != {'b': 1} && {'a': 1} != {'a': 1, 'b': 2}",
        "{1: 'a'} == {1u: 'a'} && {true: 1} != {false: 1} && {} == {}",
        "self.list == [1, 2] && [1, 2] == self.list && self.map == {'x': 1}",
        "optional.of(1) == optional.of(1) && optional.of(1) != optional.of(2)",
        "optional.none() != optional.of(1) && optional.of(1) != optional.none()",
        "optional.none() == optional.none() && optional.of(null) != optional.none()",
        "type(1) != type('a') && type(type(1)) == type && type(null) == null_type",
        "type(url('/')) == kubernetes.URL && type(ip('::')) == net.IP",
        "type(cidr('::/0')) == net.CIDR && type(quantity('1')) == kubernetes.Quantity",
        "type(semver('1.0.0')) == kubernetes.Semver && type(optional.none()) == optional_type",
        "type(format.uri()) == kubernetes.NamedFormat && type(1u) == uint && type(b'') == bytes",
        "type(duration('1s')) == google.protobuf.Duration && type(1.0) == double",
        "type(true) == bool && type([]) == list && type({}) == map",
        "format.uri() != format.uuid() && format.uri() == format.uri()",
        "null == null && dyn(null) != 0",
    };

    expression_all_true(texts, COUNT_OF(texts), OBJECT);
}

TEST(an_index_is_a_whole_number_and_a_key_of_any_type_of_key)
{
    static const char *const texts[] = {
        "self.list[1u] == 2 && self.list[dyn(1.0)] == 2 && [1, 2][0] == 1",
        "{1: 'a', 'b': 'c', true: 'd', 2u: 'e'}[true] == 'd'",
        "{1: 'a', 2u: 'e'}[1u] == 'a' && {1: 'a', 2u: 'e'}[dyn(2.0)] == 'e'",
        "!(2 in self.map) && 'x' in self.map && !('z' in self.map) && 1.0 in {1: 1}",
        "self.list[?1] == optional.of(2) && self.list[?-1] == optional.none()",
        "self.map[?'x'] == optional.of(1) && self.map[?1] == optional.none()",
        "optional.of(self.map)['x'] == optional.of(1) && self.?map['z'] == optional.none()",
        "optional.of(self.list)[1] == optional.of(2) && optional.none()[1] == optional.none()",
        "has(self.?map.x) && !has(self.?map.z) && !has(self.?nope.z)",
        "optional.of({'a': 1}).a == optional.of(1) && has({'a': 1}.a)",
    };
    static const struct expression_error rows[] = {
        {"self.list[-1]", "index out of bounds: -1"},
        {"self.list[2]", "index out of bounds: 2"},
        {"self.list[dyn(0.5)]", "index out of bounds: 0.5"},
        {"self.list[dyn(1e30)]", "index out of bounds: 1e+30"},
        {"[1][9223372036854775807]", "index out of bounds: 9223372036854775807"},
        {"self.map['z']", "no such key: z"},
        {"{1: 2}[3]", "no such key: 3"},
        {"{1: 2}[false]", "no such key: false"},
        {"self.nope[0]", "no such key: nope"},
        {"self.list[self.nope]", "no such key: nope"},
        {"self.map[dyn([1])]", "no such overload: this type is no key of a map"},
        {"has(self.nope.a)", "no such key: nope"},
        {"{'a': 1}.b", "no such key: b"},
        {"{1.5: 1}", "unsupported key type"},
        {"{null: 1}", "unsupported key type"},
        {"{1: 1, 1u: 2}", "Failed with repeated key"},
        {"{self.nope: 1}", "no such key: nope"},
        {"{1: self.nope}", "no such key: nope"},
        {"[1, self.nope]", "no such key: nope"},
        {"[?self.nope]", "no such key: nope"},
        {"size(self.nope)", "no such key: nope"},
        {"!self.nope", "no such key: nope"},
        {"self.nope ? 1 : 2", "no such key: nope"},
        {"self.nope.all(x, true)", "no such key: nope"},
        {"self.nope.optMap(x, x)", "no such key: nope"},
        {"optional.of(1).optMap(x, x / 0)", "division by zero"},
        {"self.list.map(x, x / 0)", "division by zero"},
        {"self.list.filter(x, x / 0 > 1)", "division by zero"},
        {"self.list.all(x, x / 0 > 1)", "division by zero"},
        {"self.list.transformMap(i, v, v / 0)", "division by zero"},
        {"self.list.transformMapEntry(i, v, {0: v})", "Failed with repeated key"},
        {"false || self.nope", "no such key: nope"},
        {"self.nope && self.list[9]", "no such key: nope"},
        {"cel.bind(x, self.nope, x)", "no such key: nope"},
    };

    expression_all_true(texts, COUNT_OF(texts), OBJECT);
    expression_all_fail(rows, COUNT_OF(rows), OBJECT);
}

TEST(values_become_other_types_where_they_fit)
{
    static const char *const texts[] = {
        "int(5) == 5 && int(5u) == 5 && int('-5') == -5 && int(-5.9) == -5",
        "uint(5u) == 5u && uint('5') == 5u && uint(5.9) == 5u",
        "double(1.5) == 1.5 && double(2) == 2.0 && double(2u) == 2.0 && double('-1e3') == -1000.0",
        "string(true) == 'true' && string(false) == 'false' && string(1u) == '1'",
        "string(1.5) == '1.5' && string(-0.0) == '-0' && string(1e100) == '1e+100'",
        "string(double('NaN')) == 'NaN' && string(double('inf')) == '+Inf'",
        "string(double('-Infinity')) == '-Inf' && string('a') == 'a'",
        "string(self.big) == '1e+300' && self.tiny == -1500.0",
        "bytes(b'a') == b'a' && string(b'\\xc3\\xa9') == '\u00e9' && string(b'') == ''",
        "bool(true) && bool('TRUE') && bool('True') && bool('t') && bool('T') && bool('1')",
        "!bool('false') && !bool('FALSE') && !bool('False') && !bool('f') && !bool('F')",
        "!bool('0')",
        "string(double('nAn')) == 'NaN' && double('INF') == double('+infinity')",
        "double('-iNfInItY') == double('-inf')",
    };
    static const struct expression_error rows[] = {
        {"int(9223372036854775808u)", "integer overflow"},
        {"int(1e19)", "integer overflow"},
        {"int(-1e19)", "integer overflow"},
        {"int(double('NaN'))", "integer overflow"},
        {"int('9223372036854775808')", "type conversion error from string to int"},
        {"uint(-1)", "unsigned integer overflow"},
        {"uint(-1.0)", "unsigned integer overflow"},
        {"uint(1e20)", "unsigned integer overflow"},
        {"uint('-1')", "type conversion error from string to uint"},
        {"double('x')", "type conversion error from string to double"},
        {"double('-NaN')", "type conversion error from string to double"},
        {"double('+nan')", "type conversion error from string to double"},
        {"double('infinit')", "type conversion error from string to double"},
        {"double('nanu')", "type conversion error from string to double"},
        {"double('1e400')", "type conversion error from string to double"},
        {"bool('yes')", "type conversion error from string to bool"},
        {"string(b'\\xff')", "invalid UTF-8 in bytes, cannot convert to string"},
    };

    expression_all_true(texts, COUNT_OF(texts), OBJECT);
    expression_all_fail(rows, COUNT_OF(rows), OBJECT);
}

TEST(what_is_zero_is_no_value_of_an_optional)
{
    static const char *const texts[] = {
        "[0, 0u, 0.0, '', b'', [], {}, false, null, duration('0s')]"
        ".all(x, optional.ofNonZeroValue(x) == optional.none())",
        "[1, 1u, 1.5, -0.5, 'a', b'a', [0], {'a': 0}, true, duration('1s'), timestamp(0)]"
        ".all(x, optional.ofNonZeroValue(x) == optional.of(x))",
        "optional.ofNonZeroValue(optional.none()) == optional.none()",
        "optional.ofNonZeroValue(timestamp('0001-01-01T00:00:00Z')) == optional.none()",
        "optional.ofNonZeroValue(double('NaN')).hasValue()",
        "optional.ofNonZeroValue(quantity('0')).hasValue() && "
        "optional.ofNonZeroValue(int).hasValue()",
        "optional.of(1).or(1 / 0 == 1 ? optional.none() : optional.none()) == optional.of(1)",
        "optional.of(3).optMap(x, x * 2) == optional.of(6)",
        "optional.of(3).optFlatMap(x, optional.none()) == optional.none()",
        "optional.none().optFlatMap(x, optional.of(x)) == optional.none()",
    };

    expression_all_true(texts, COUNT_OF(texts), OBJECT);
}

TEST(comprehensions_pass_over_errors_only_where_something_decides)
{
    static const char *const texts[] = {
        "![0, 1].all(x, 1 / x == 2) && [0, 1].exists(x, 1 / x == 1)",
        "[1, 2, 3].existsOne(x, x > 2) && !([1, 2, 3].exists_one(x, x > 1))",
        "[1, 2].exists_one(i, v, i == 1 && v == 2) && {'a': 1}.existsOne(k, v, v == 1)",
        "{'a': 1}.all(k, v, v == 1) && {'a': 1, 'b': 2}.filter(k, k == 'a') == ['a']",
        "[1, 2].transformList(i, v, i > 0, v) == [2] && [].all(x, x) && ![].exists(x, x)",
        "{'a': 1}.transformMap(k, v, v > 1, v) == {} && [].map(x, x) == []",
        "{'a': 1}.transformMapEntry(k, v, v > 1, {v: k}) == {}",
        "[1, 2].all(x, [x].all(x, x > 0))",
        "self.list.all(x, x in self.list) && self.map.exists(k, k == 'x')",
    };
    static const struct expression_error rows[] = {
        {"[0, 1].all(x, 1 / x == 1)", "division by zero"},
        {"[0, 1].exists(x, 1 / x == 2)", "division by zero"},
        {"[0, 2].all(x, dyn(x))", "no such overload"},
        {"[1].transformMapEntry(i, v, {self.nope: v})", "no such key: nope"},
    };

    expression_all_true(texts, COUNT_OF(texts), OBJECT);
    expression_all_fail(rows, COUNT_OF(rows), OBJECT);
}
