#pragma once

#include "tool/option.h"

#include <stdbool.h>
#include <stddef.h>

/* The options of the web page of `muster operator`. */
struct operator_page_values {
    const char *listen;
    struct option_list names;
    const char *certificate;
    const char *key;
    bool plain;
    const char *proxy_secret_file;
    const char *proxy_client_ca;
    const char *proxy_client_name;
    const char *proxy_user_header;
    const char *proxy_group_header;
};

/* The rows of the option table of a command whose values are a `type` with operator_page_values as
 * `member`. */
#define OPERATOR_PAGE_OPTIONS(type, member)                                                        \
    {"page-listen",        0,                                                                      \
     OPTION_STR,           offsetof(type, member.listen),                                          \
     .value = "ADDR:PORT", .help = "address of the web page (default: none is served)"},           \
        {"page-name",                                                                              \
         0,                                                                                        \
         OPTION_LIST,                                                                              \
         offsetof(type, member.names),                                                             \
         .value = "NAME",                                                                          \
         .help = "name under which browsers may open the web page, besides localhost and "         \
                 "addresses; can be repeated"},                                                    \
        {"page-certificate",                                                                       \
         0,                                                                                        \
         OPTION_STR,                                                                               \
         offsetof(type, member.certificate),                                                       \
         .value = "FILE",                                                                          \
         .help = "certificate of the web page, PEM; read again when it changes"},                  \
        {"page-key",      0,                                                                       \
         OPTION_STR,      offsetof(type, member.key),                                              \
         .value = "FILE", .help = "key of --page-certificate"},                                    \
        {"page-plain",                                                                             \
         0,                                                                                        \
         OPTION_BOOL,                                                                              \
         offsetof(type, member.plain),                                                             \
         .fallback = "false",                                                                      \
         .help = "serve the page without TLS to other machines, for an Ingress in front that has " \
                 "TLS"},                                                                           \
        {"page-proxy-secret-file",                                                                 \
         0,                                                                                        \
         OPTION_STR,                                                                               \
         offsetof(type, member.proxy_secret_file),                                                 \
         .value = "FILE",                                                                          \
         .help = "a proxy that sends this secret in X-Muster-Proxy-Secret says who the viewer is " \
                 "(default: none does)"},                                                          \
        {"page-proxy-client-ca",                                                                   \
         0,                                                                                        \
         OPTION_STR,                                                                               \
         offsetof(type, member.proxy_client_ca),                                                   \
         .value = "FILE",                                                                          \
         .help = "authority of the certificate by which a proxy is known, PEM"},                   \
        {"page-proxy-client-name",                                                                 \
         0,                                                                                        \
         OPTION_STR,                                                                               \
         offsetof(type, member.proxy_client_name),                                                 \
         .value = "NAME",                                                                          \
         .help = "common name of that certificate; such a proxy says who the viewer is"},          \
        {"page-proxy-user-header",                                                                 \
         0,                                                                                        \
         OPTION_STR,                                                                               \
         offsetof(type, member.proxy_user_header),                                                 \
         .fallback = "X-Remote-User",                                                              \
         .value = "NAME",                                                                          \
         .help = "header with the viewer's name"},                                                 \
    {                                                                                              \
        "page-proxy-group-header", 0, OPTION_STR, offsetof(type, member.proxy_group_header),       \
            .fallback = "X-Remote-Group", .value = "NAME",                                         \
            .help = "header with groups of the viewer, separated by commas; can be repeated"       \
    }
