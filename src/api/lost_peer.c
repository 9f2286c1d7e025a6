#include "api/lost_peer.h"

#include "base/count.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

static const char *const peer_words[] = {
    "Connection reset by peer",
    "Connection closed by peer",
    "Connection refused",
    "Broken pipe",
    "ncclRemoteError",
    "NCCL communicator was aborted",
    "Watchdog caught collective operation timeout",
    "Timed out waiting",
    "Socket Timeout",
    "DistNetworkError",
    "DistStoreError",
    "RendezvousConnectionError",
    "RendezvousClosedError",
    "RendezvousTimeoutError",
    "before any rank failed", /* muster-launch, of a torchrun that ended without a reason here */
};

bool says_lost_peer(struct str words)
{
    for (size_t i = 0; i < COUNT_OF(peer_words); i++)
        if (str_contains(words, str_from(peer_words[i])))
            return true;
    return false;
}
