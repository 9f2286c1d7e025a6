#pragma once

struct admit;
struct json;
struct schema_path;
struct type;

/* message_rules: what one field of a message has to be because of another, wherever the message
 * stands: a selector in a Deployment and in a NetworkPolicy, a toleration in a pod and in a template.
 * What holds of a field alone is in the tables of types; what holds of a kind is in admit_*.c.
 * `object` is NULL where Go has an empty struct. */
void message_rules(struct admit *admit,
                   const struct type *type,
                   const struct json *object,
                   const struct schema_path *path);
