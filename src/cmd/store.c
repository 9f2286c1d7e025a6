#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "cmd/datadir.h"
#include "cmd/muster.h"
#include "store/maintain.h"
#include "tool/option.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* muster store check | backup FILE: looks after the file of the embedded store. */

struct store_values {
    const char *data_dir;
};

static const struct option store_options[] = {
    {"data-dir", 0, OPTION_STR, offsetof(struct store_values, data_dir), .value = "DIR",
     .help = "data folder of muster up (default: that of $KUBECONFIG, else the same as for up)"},
    {0},
};

static void print_problem(void *user, const char *text)
{
    (void)user;
    (void)printf("%s\n", text);
}

static int check(const char *path)
{
    struct store_report report = {0};
    struct err err = {0};

    if (store_check(path, print_problem, NULL, &report, &err) < 0) {
        (void)fprintf(stderr, "muster store check: %s\n", err.text);
        return EXIT_FAILURE;
    }
    if (report.problems) {
        (void)fprintf(
            stderr,
            "muster store check: %s: %zu problems; restore a backup, or delete the objects "
            "named above\n",
            path, report.problems);
        return EXIT_FAILURE;
    }
    (void)printf("%s: fine: %zu objects, %zu changes, revision %" PRIu64 "\n", path, report.objects,
                 report.changes, report.revision);
    return EXIT_SUCCESS;
}

static int backup(const char *path, const char *target)
{
    struct err err = {0};

    if (store_backup(path, target, &err) < 0) {
        (void)fprintf(stderr, "muster store backup: %s\n", err.text);
        return EXIT_FAILURE;
    }
    (void)printf("%s\n", target);
    return EXIT_SUCCESS;
}

static int store_run(struct invocation *invocation)
{
    const struct store_values *values = invocation->values;
    const char *folder = values->data_dir ? values->data_dir : datadir_meant(invocation->arena);
    const char *path = str_printf(invocation->arena, "%s/store.db", folder).p;
    struct str action = str_from(invocation->args[0]);

    if (str_is(action, "check") && invocation->arg_count == 1)
        return check(path);
    if (str_is(action, "backup") && invocation->arg_count == 2)
        return backup(path, invocation->args[1]);
    (void)fprintf(stderr, "muster store: use `check` or `backup FILE`\n");
    return EXIT_USAGE;
}

const struct command command_store = {
    .name = "store",
    .summary = "check or back up the store of muster up, also while it runs",
    .usage = "check | backup FILE",
    .about =
        "check reads the whole store and reports what is wrong with it. backup writes a copy as of "
        "one moment;\nto go back to it, stop muster, put the copy in place of store.db in the "
        "data folder, remove\nstore.db-wal, and start muster up --accept-lost-writes once.",
    .options = store_options,
    .values_size = sizeof(struct store_values),
    .args_min = 1,
    .args_max = 2,
    .run = store_run,
};
