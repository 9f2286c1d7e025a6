"""`muster operator` as an account with too few rights; tests/kubernetes has it on a real control plane."""

import os
import shutil
import subprocess
import urllib.error
import urllib.request

from harness import ROOT, Muster, binary, check, free_port, need_kubectl, wait_for

RBAC = os.path.join(ROOT, "deploy", "rbac")


def said(port):
    """What /readyz answers, ready or not."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.read().decode()


def test_readyz_names_the_right_that_is_missing():
    need_kubectl(24)
    with Muster(nodes=1) as m:
        m.kubectl("apply", "-f", os.path.join(RBAC, "role.yaml"))
        account = shutil.copy(m.kubeconfig, os.path.join(m.folder, "operator.kubeconfig"))
        token = m.kubectl("create", "token", "muster-operator", "-n", "muster-system").stdout.strip()
        m.kubectl("config", "--kubeconfig", account, "set-credentials", "operator", "--token", token)
        m.kubectl("config", "--kubeconfig", account, "set-context", "--current", "--user", "operator")
        port = free_port()
        with open(os.path.join(m.folder, "operator.log"), "w") as log:
            operator = subprocess.Popen([binary("muster"), "operator", "--kubeconfig", account, "--listen", f"127.0.0.1:{port}",
                                         "--debug-listen", "", "--webhook-listen", f"127.0.0.1:{free_port()}"],
                                        stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_for(lambda: 'resource "mutatingwebhookconfigurations"' in said(port), "the missing right in /readyz", 60)
            words = said(port)
            check("a permission is missing: " in words and "webhook.yaml" in words, f"what to do about it: {words}")
        finally:
            operator.terminate()
            operator.wait()
