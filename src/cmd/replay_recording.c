#include "cmd/replay_recording.h"

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "base/time.h"
#include "replay/policy.h"
#include "replay/recording.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/* muster replay RECORDING: every decision again, and where another policy decides otherwise. */
#define DIFFERENCES_SHOWN 20

static void on_difference(void *user, int64_t now_ms, struct str words)
{
    size_t *shown = user;
    char stamp[TIME_TEXT_BYTES];

    if ((*shown)++ < DIFFERENCES_SHOWN)
        printf(STR_FMT "  " STR_FMT "\n", STR_ARG(time_format(now_ms, stamp)), STR_ARG(words));
}

static void file_closep(FILE **file)
{
    if (*file)
        (void)fclose(*file);
}

static int play_file(struct player *player, const char *path, struct err *err)
{
    _cleanup_(file_closep) FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t capacity = 0;
    int r = 0;

    if (!file)
        return err_set(err, -errno, "%s: %s", path, strerrordesc_np(errno));
    for (ssize_t len; r == 0 && (len = getline(&line, &capacity, file)) > 0;) {
        /* The last line of a recording whose process was killed may be a part of one. */
        if (line[len - 1] != '\n')
            break;
        r = player_line(player, (struct str){line, (size_t)len - 1}, err);
    }
    free(line);
    return r < 0 ? err_wrap(err, r, "%s", path) : 0;
}

bool replay_is_recording(const char *path)
{
    char head[16] = {0};
    _cleanup_(file_closep) FILE *file = fopen(path, "re");
    size_t len = file ? fread(head, 1, sizeof(head), file) : 0;

    return recording_is((struct str){head, len});
}

static int check_policy(const struct replay_policy *policy, struct err *err)
{
    if (policy && (policy->one_queue || policy->taught))
        return err_set(
            err, -EINVAL,
            "--policy: %s puts all jobs into a line of its own or knows them beforehand; "
            "a recording is compared with muster, kai, best-fit or random",
            policy->name);
    return 0;
}

int replay_recording(const char *path, const struct replay_policy *other, struct err *err)
{
    size_t shown = 0;
    struct player_result result;
    struct player *player = NULL;
    int r = check_policy(other, err);

    if (r < 0)
        return r;
    player = player_new(
        &(struct player_options){.other = other, .differs = on_difference, .user = &shown});
    r = play_file(player, path, err);
    player_result(player, &result);
    player_free(player);
    if (r < 0)
        return r;
    if (shown > DIFFERENCES_SHOWN)
        printf("and %zu more\n", shown - DIFFERENCES_SHOWN);
    if (other)
        printf("%s decides otherwise %zu times\n", other->name, result.differences);
    printf("%zu events, %zu cycles, %zu binds, %zu evictions; hash of all plans %016llx: %s\n",
           result.events, result.cycles, result.binds, result.evicts,
           (unsigned long long)result.hash, result.wrong ? "NOT what was recorded" : "as recorded");
    if (result.wrong)
        return err_set(err, -EPROTO,
                       "%s: %zu of %zu plans are not what was recorded, first that of line %zu: "
                       "another version of muster decides otherwise",
                       path, result.wrong, result.cycles, result.wrong_line);
    return 0;
}
