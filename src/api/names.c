#include "api/names.h"

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

static bool is_lower(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_alnum(char c)
{
    return is_lower(c) || (c >= 'A' && c <= 'Z');
}

static const char dns_label_rule[] =
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name' or '123-abc')";

const char *names_dns_label(struct str text)
{
    if (!text.len)
        return dns_label_rule;
    if (text.len > NAMES_LABEL_MAX)
        return "must be no more than 63 characters";
    for (size_t i = 0; i < text.len; i++)
        if (!is_lower(text.p[i]) && (text.p[i] != '-' || i == 0 || i == text.len - 1))
            return dns_label_rule;
    return NULL;
}

const char *names_dns_1035_label(struct str text)
{
    if (names_dns_label(text) || (text.p[0] >= '0' && text.p[0] <= '9'))
        return text.len > NAMES_LABEL_MAX
                   ? "must be no more than 63 characters"
                   : "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
                     "start with an alphabetic character, and end with an alphanumeric character "
                     "(e.g. 'my-name' or 'abc-123')";
    return NULL;
}

const char *names_dns_subdomain(struct str text)
{
    static const char rule[] =
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
        "'.', and must start and end with an alphanumeric character (e.g. 'example.com')";
    char before = '.';

    if (!text.len)
        return rule;
    if (text.len > NAMES_SUBDOMAIN_MAX)
        return "must be no more than 253 characters";
    for (size_t i = 0; i < text.len; i++) {
        char c = text.p[i];
        bool edge = before == '.' || i + 1 == text.len || text.p[i + 1] == '.';

        if (!is_lower(c) && (edge || (c != '-' && c != '.')))
            return rule;
        before = c;
    }
    return NULL;
}

/* Letters, digits, '-', '_', '.', with a letter or digit at both ends. */
static bool is_plain_name(struct str text)
{
    if (!text.len || text.len > NAMES_LABEL_MAX || !is_alnum(text.p[0]) ||
        !is_alnum(text.p[text.len - 1]))
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (!is_alnum(text.p[i]) && text.p[i] != '-' && text.p[i] != '_' && text.p[i] != '.')
            return false;
    return true;
}

const char *names_qualified(struct str text)
{
    size_t slash = str_find(text, '/');

    if (slash < text.len) {
        const char *wrong = names_dns_subdomain(str_sub(text, 0, slash));

        if (wrong)
            return "prefix part must be a lowercase DNS subdomain (e.g. 'example.com/my-name')";
        text = str_sub(text, slash + 1, text.len);
    }
    if (!is_plain_name(text))
        return "name part must consist of alphanumeric characters, '-', '_' or '.', at most 63 of "
               "them, and must start and end with an alphanumeric character (e.g. 'MyName')";
    return NULL;
}

const char *names_label_value(struct str text)
{
    if (text.len > NAMES_LABEL_MAX)
        return "must be no more than 63 characters";
    if (text.len && !is_plain_name(text))
        return "a valid label must be an empty string or consist of alphanumeric characters, '-', "
               "'_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue')";
    return NULL;
}

const char *names_path_segment(struct str text)
{
    if (!text.len || str_is(text, ".") || str_is(text, ".."))
        return "may not be empty, '.' or '..'";
    if (str_find(text, '/') < text.len || str_find(text, '%') < text.len)
        return "may not contain '/' or '%'";
    return NULL;
}

const char *names_config_key(struct str text)
{
    if (!text.len || text.len > NAMES_SUBDOMAIN_MAX)
        return "must have 1 to 253 characters";
    if (str_is(text, ".") || str_starts(text, STR("..")))
        return "must not be '.' or start with '..'";
    for (size_t i = 0; i < text.len; i++)
        if (!is_alnum(text.p[i]) && text.p[i] != '-' && text.p[i] != '_' && text.p[i] != '.')
            return "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
                   "(e.g. 'key.name')";
    return NULL;
}

const char *names_port(struct str text)
{
    bool letter = false;

    if (!text.len || text.len > 15)
        return "must have 1 to 15 characters";
    for (size_t i = 0; i < text.len; i++) {
        char c = text.p[i];

        letter |= c >= 'a' && c <= 'z';
        if (!is_lower(c) && (c != '-' || i == 0 || i + 1 == text.len || text.p[i - 1] == '-'))
            return "must contain only lower case letters, digits and single '-' inside";
    }
    return letter ? NULL : "must contain at least one letter";
}
