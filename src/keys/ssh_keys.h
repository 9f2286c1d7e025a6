#pragma once

struct arena;
struct err;
struct json;

/* ssh_keys: a fresh key pair (ECDSA, P-521) for pods that talk to each other over ssh, written into
 * the data of a Secret: ssh-privatekey and ssh-publickey. Controllers are pure and cannot draw
 * one. */
int ssh_keys_fill(struct arena *arena, struct json *secret, struct err *err);
