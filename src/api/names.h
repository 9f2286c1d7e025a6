#pragma once

#include "base/str.h"

#include <stdbool.h>

/* names: which texts Kubernetes takes as names, label keys and label values. Each rule returns NULL
 * when the text is fine, and otherwise a sentence that says what is allowed. */

#define NAMES_LABEL_MAX     63
#define NAMES_SUBDOMAIN_MAX 253

/* RFC 1123: lower-case letters, digits and '-'; "a-1". */
const char *names_dns_label(struct str text);
/* RFC 1035: as above, but starts with a letter (Services). */
const char *names_dns_1035_label(struct str text);
/* DNS labels separated by dots. */
const char *names_dns_subdomain(struct str text);
/* "app", "example.com/app" */
const char *names_qualified(struct str text);
const char *names_label_value(struct str text);
/* A path segment: no '/', '%', and not "." or ".." (RBAC names). */
const char *names_path_segment(struct str text);
/* A key of a ConfigMap or Secret. */
const char *names_config_key(struct str text);
/* A port's name. */
const char *names_port(struct str text);
