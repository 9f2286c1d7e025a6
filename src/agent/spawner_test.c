#include "agent/spawner.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "test.h"
#include "tool/files.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* A shim outlives the terminal and the pipe that muster was started with: whoever reads from that
 * pipe would wait for the pods, too. */
TEST(what_makes_shims_holds_nothing_of_ours)
{
    _cleanup_(buf_done) struct buf text = {0};
    char top[] = "/tmp/muster-spawner-XXXXXX", program[64], said[64], script[256];
    struct spawner *spawner = NULL;

    EXPECT(mkdtemp(top) != NULL);
    (void)snprintf(program, sizeof(program), "%s/program", top);
    (void)snprintf(said, sizeof(said), "%s/said", top);
    (void)snprintf(script, sizeof(script),
                   "#!/bin/sh\nfor n in 0 1 2; do its=$(/bin/readlink /proc/$$/fd/$n)\necho "
                   "\"$its\" >> %s; done\n",
                   said);
    EXPECT(files_write(program, str_from(script), 0755, NULL) == 0);
    EXPECT(spawner_start(program, "", &spawner, NULL) == 0);
    spawner_stop(spawner); /* waits for its end */
    EXPECT(files_read(said, 256, &text));
    EXPECT(str_is(buf_str(&text), "/dev/null\n/dev/null\n/dev/null\n"));
    files_remove(top);
}
