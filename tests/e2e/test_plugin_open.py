"""open: the address of a program in a job, on one's own machine and, in tests/kubernetes, through a real API server."""

import socket
import subprocess
import urllib.error
import urllib.request

from harness import PATIENCE, Muster, binary, check, free_port, wait_for

BYTES = 3 << 20
PAGE = """
apiVersion: v1
kind: Pod
metadata:
  name: web-worker-0
  labels: {torchrun-job-name: web, torchrun.ai/role: worker, torchrun.ai/index: "0"}
  ownerReferences: [{apiVersion: torchrun.ai/v1alpha1, kind: TorchrunJob, name: web, uid: UID, controller: true}]
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
    - name: trainer
      image: i
      command: [sh, -c, 'd=/tmp/web-$IP; mkdir -p $d; cd $d; echo hello > page; head -c %d /dev/zero > large;
                         exec python3 -m http.server PORT --bind 0.0.0.0']
      env: [{name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
""" % BYTES


JOB = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {name: web}
spec: {jobQueue: none, numGPUs: 1, command: "true"}
"""


def apply_page(m, page):
    """A pod of a job that has no queue, so nobody else makes or removes any."""
    m.apply(JOB)
    wait_for(lambda: "does not exist" in m.get("torchrunjob", "web").get("status", {}).get("message", ""), "the job to be known")
    m.apply(page.replace("UID", m.get("torchrunjob", "web")["metadata"]["uid"]))


class Opened:
    """kubectl torchrun open, without kubectl, until the end of the block: the address that it says, and its process."""

    def __init__(self, m, port):
        self.argv = [binary("kubectl-torchrun"), "open", "web", str(port)]
        self.env = dict(m.env, PATH="/nonexistent")

    def __enter__(self):
        self.process = subprocess.Popen(self.argv, env=self.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.url = self.process.stdout.readline().strip()
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


def get(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read()


def reach(m, port):
    """An Opened whose page answers."""
    def one():
        opened = Opened(m, port).__enter__()
        if opened.url:
            return opened
        opened.__exit__()
        return None
    return wait_for(one, "something to listen")


def test_a_program_in_a_job_is_opened_without_kubectl():
    with Muster() as m:
        port, other = free_port(), free_port()  # pods may share the network of this machine
        apply_page(m, PAGE.replace("PORT", str(port)))
        m.kubectl("wait", "--for=condition=Ready", "pod/web-worker-0", "--timeout=60s")
        opened = reach(m, port)
        try:
            check(get(opened.url + "/page") == b"hello\n", "the page of the pod")
            check(len(get(opened.url + "/large")) == BYTES, "what is large comes whole")
            check(get(opened.url + "/page") == b"hello\n", "and the next connection too")
            with socket.create_connection((opened.url.split("//")[1].rsplit(":", 1)[0], int(opened.url.rsplit(":", 1)[1]))) as s:
                s.sendall(b"GET /page HTTP/1.0\r\n\r\n")
                s.shutdown(socket.SHUT_WR)  # it will say no more: the answer comes all the same
                answer = b""
                while piece := s.recv(65536):
                    answer += piece
                check(answer.endswith(b"hello\n"), f"{answer}")
            forwards = opened.process.poll() is None
            with Opened(m, other) as nothing:
                check(nothing.process.wait(60 * PATIENCE) == 1, "a port on which nothing listens is an error")
                check(str(other) in nothing.process.stderr.read(), "and it is named")
            if forwards:
                m.kubectl("delete", "pod", "web-worker-0", "--grace-period=0", "--force")

                def over():
                    try:
                        get(opened.url + "/page")
                    except (OSError, urllib.error.URLError):
                        pass
                    return opened.process.poll() is not None
                wait_for(over, "open to end with its pod", 120)
                check("web-worker-0" in opened.process.stderr.read(), "and to say so")
        finally:
            opened.__exit__()
