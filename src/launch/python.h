#pragma once

#include <stdbool.h>

struct err;

/* python: the first Python that can import torch: `python`, `python3`, the interpreter of a
 * `torchrun` on PATH, then the usual places. Ranks run with it, and `muster doctor` names it. */
struct python {
    char path[4096];
    char torch[32]; /* "2.3.1" */
    int torch_major;
    bool has_etcd;      /* the package python-etcd */
    int python_minor;   /* of Python 3 */
    bool first_on_path; /* `python` already means this one */
};

/* -ENOENT: none, in words. Starts Python a few times, but does not import torch. */
int python_find(struct python *ret, struct err *err);
/* PyTorch 1.x on Python 3.11 reads its redirect flags as nothing, and fails. */
bool python_redirects_broken(const struct python *python);
