#pragma once

#include "base/str.h"

#include <stdbool.h>

/* Whether a program's last words are those of one that lost a peer: of sockets, gloo, NCCL,
 * torch.distributed and torchrun. A rank that says so may have a trouble of its own (a wrong
 * address), but then no other rank has a better one. */
bool says_lost_peer(struct str words);
