"""dask-kubernetes: its operator, a cluster of one scheduler and two workers, and a sum that they compute. The scheduler listens
on 0.0.0.0, as dask's does, behind a Service with the same port. What pods run stands beside this Python."""

import glob
import os
import subprocess
import sys

import dask_kubernetes
from dask_kubernetes.operator import KubeCluster, make_cluster_spec
from distributed import Client

BIN = os.path.dirname(sys.executable)


def main():
    crds = glob.glob(os.path.join(os.path.dirname(dask_kubernetes.__file__), "operator", "**", "crds", "*.yaml"), recursive=True)
    for path in crds:
        subprocess.run(["kubectl", "apply", "--server-side", "-f", path], check=True)
    kopf = [os.path.join(BIN, "kopf"), "run", "-A", "--standalone", "-m", "dask_kubernetes.operator.controller"]
    operator = subprocess.Popen(kopf)
    try:
        spec = make_cluster_spec(name="sums", image="any", n_workers=2)
        for part in (spec["spec"]["scheduler"], spec["spec"]["worker"]):
            container = part["spec"]["containers"][0]
            container["args"][:1] = [os.path.join(BIN, "dask"), container["args"][0].removeprefix("dask-")]
        with KubeCluster(custom_cluster_spec=spec, namespace="default") as cluster, Client(cluster) as client:
            client.wait_for_workers(2, timeout=120)
            assert client.submit(sum, range(100)).result(timeout=60) == 4950
    finally:
        operator.terminate()
        operator.wait()


main()
