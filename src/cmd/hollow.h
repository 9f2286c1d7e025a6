#pragma once

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct connect_options;
struct err;
struct kube;
struct log;
struct processes;
struct uv_loop_s;

/* hollow-nodes --processes: the node agent of `muster up` for another API server. It registers
 * the nodes, runs their pods as processes of this machine, answers the API server when it asks for
 * logs, exec, attach and ports (only whom the cluster's authority has signed), and makes volumes
 * for claims whose class names no other provisioner.
 *
 * With a bridge the addresses of Services are reachable where they are of the upper half of the
 * node's network, 10.X.128.0/17: what the API server's --service-cluster-ip-range should be. X is
 * in the file `network` of the folder, and taken from there. */
struct processes_options {
    struct uv_loop_s *loop;
    struct kube *kube;
    const struct connect_options *connect;
    const char *folder;
    const char *prefix;
    const char *labels; /* "a=b,c=d" */
    uint32_t nodes;
    uint32_t gpus;
    uint32_t gpu_time_slices;
    int64_t cpus;
    int64_t memory_bytes;
    int network; /* enum agent_network */
    bool images_oci;
    bool unobserved;
    const struct log *log;
};

int processes_start(struct arena *arena,
                    const struct processes_options *options,
                    struct processes **ret,
                    struct err *err);
/* The pods go on. NULL is fine. */
void processes_stop(struct processes *processes);
