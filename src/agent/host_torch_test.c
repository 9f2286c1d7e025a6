#include "agent/host_torch.h"
#include "base/count.h"
#include "base/str.h"
#include "test.h"
#include "tool/files.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

TEST(debians_pytorch_of_version_1_on_a_new_python_is_known)
{
    static const struct {
        const char *python;
        const char *version;
        bool broken;
    } rows[] = {
        {"python3.11", "__version__ = '1.13.0a0'\ndebug = False\n", true},
        {"/usr/bin/python3.12", "__version__ = '1.13.0a0'\n", true},
        {"python3.9", "__version__ = '1.7.1'\n", false},
        {"python3.13", "__version__ = '2.6.0'\n", false},
        {"python3.11", NULL, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char folder[] = "/tmp/muster-torch-XXXXXX";
        char python[PATH_MAX];
        char path[PATH_MAX];

        test_case(rows[i].python);
        EXPECT(mkdtemp(folder) != NULL);
        (void)snprintf(python, sizeof(python), "%s/python3", folder);
        EXPECT(symlink(rows[i].python, python) == 0);
        (void)snprintf(path, sizeof(path), "%s/torch", folder);
        EXPECT(mkdir(path, 0700) == 0);
        (void)snprintf(path, sizeof(path), "%s/torch/version.py", folder);
        if (rows[i].version)
            EXPECT(files_write(path, str_from(rows[i].version), 0600, NULL) == 0);
        EXPECT(host_torch_is_broken(python, folder) == rows[i].broken);
        files_remove(folder);
    }
}
