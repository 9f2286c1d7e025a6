#include "control/job/launcher.h"

#include "api/install.h"
#include "api/launch.h"
#include "base/json.h"

#include <stddef.h>

#define VOLUME "muster-launch"

void launcher_add(struct json *pod, struct str image, struct arena *arena)
{
    const struct json *like = NULL;

    if (!image.len)
        return;
    JSON_FOREACH(json_at(pod, "spec.containers"), container) {
        if (!str_is(json_str_at(container, "command.0"), LAUNCH_PATH))
            continue;
        install_mount(arena, container, VOLUME, LAUNCH_DIR, false);
        like = like ? like : container;
    }
    if (like)
        install_add(arena, pod,
                    &(struct install){.name = VOLUME,
                                      .to = LAUNCH_PATH,
                                      .folder = LAUNCH_DIR,
                                      .image = image,
                                      .like = like,
                                      .asks = true});
}
