"""SkyPilot's check of a Kubernetes context, as `sky check kubernetes` runs it behind its server: what it may do there, and which
GPUs the nodes have."""

import os
import shutil

HOME = os.environ["HOME"]
os.makedirs(os.path.join(HOME, ".kube"), exist_ok=True)
shutil.copyfile(os.environ["KUBECONFIG"], os.path.join(HOME, ".kube/config"))
os.environ["SKYPILOT_DISABLE_USAGE_COLLECTION"] = "1"

from sky import check  # noqa: E402
from sky.provision.kubernetes import utils  # noqa: E402

enabled = check.check(clouds=["kubernetes"])
assert any("Kubernetes" in str(clouds) for clouds in enabled.values()), enabled
context = utils.get_current_kube_config_context_name()
nodes = utils.get_kubernetes_nodes(context=context)
assert len(nodes) == 2, nodes
fits, why = utils.check_instance_fits(context, "2CPU--1GB")
assert fits, why
