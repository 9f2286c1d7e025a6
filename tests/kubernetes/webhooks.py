"""A Cluster whose operators answer admission webhooks.

    with WebhookCluster(operators=2, sharing=True) as m:
        m.refused(manifest)      # what the API server says, None when it takes it

The shipped configuration names a Service; there is no service network here, so the API server is given the address of
a splitter instead, which passes each connection on to a replica that is up, as a Service would.
"""

import os
import re
import socket
import threading

import harness
from cluster import ROOT, Cluster, Operator
from harness import free_port, wait_for

MANIFEST = os.path.join(ROOT, "deploy", "webhooks.yaml")


class Splitter:
    """Connections to one port go to the others in turn, those that do not answer left out."""

    def __init__(self):
        self.targets, self.turn = [], 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        for _ in range(len(self.targets)):
            self.turn += 1
            try:
                server = socket.create_connection(("127.0.0.1", self.targets[self.turn % len(self.targets)]), 2)
                break
            except OSError:
                continue
        else:
            client.close()
            return
        threading.Thread(target=self._pipe, args=(client, server), daemon=True).start()
        self._pipe(server, client)

    @staticmethod
    def _pipe(a, b):
        try:
            while data := a.recv(65536):
                b.sendall(data)
        except OSError:
            pass
        for s in (a, b):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()


class WebhookCluster(Cluster):
    def __init__(self, sharing=False, limits=False, suspend=False, lifetime=None, **options):
        super().__init__(**options)
        self.splitter = None
        self.operator_flags += ["--gpu-sharing", "--reservation-image=muster:test"] if sharing else []
        self.operator_flags += ["--gpu-memory-limits", "--launcher-image=muster:test"] if limits else []
        self.operator_flags += ["--gpu-suspend"] if suspend else []
        self.operator_flags += [f"--webhook-certificate-lifetime={lifetime}"] if lifetime else []

    def manifest(self):
        with open(MANIFEST) as f:
            return re.sub(r"service: \{namespace: muster-system, name: muster-webhook, path: (\S+)\}",
                          rf"url: https://127.0.0.1:{self.splitter.port}\1", f.read())

    def start(self):
        self.splitter = self.splitter or Splitter()
        self.kubectl("delete", "secret", "muster-webhook", "-n", "muster-system", "--ignore-not-found", ok=False)
        self.kubectl("create", "namespace", "muster-system", ok=False)
        self.kubectl("apply", "-f", "-", input=self.manifest())
        super().start()
        wait_for(lambda: all(o.ready() for o in self.operators), "every replica to answer webhooks", 30)
        wait_for(self.asked, "the API server to ask the webhooks", 30)

    def asked(self):
        """A queue that only a webhook refuses is refused: the API server knows our authority."""
        done = self.kubectl("create", "--dry-run=server", "-f", "-", ok=False, input="""
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: asked}
spec: {parentQueue: asked, resources: {}}
""")
        return "its own parent" in done.stderr

    def webhook_flags(self, port):
        return [f"--webhook-listen=127.0.0.1:{port}"]

    def start_operator(self, index=0):
        port = free_port()
        operator = Operator(f"operator-{len(self.operators)}", self.folder, self.operator_kubeconfig,
                            [*self.operator_flags, *self.webhook_flags(port)])
        operator.webhook_port = port
        self.splitter.targets.append(port)
        self.operators.append(operator.start())
        return operator

    def stop(self):
        if self.splitter:
            self.kubectl("delete", "-f", "-", "--ignore-not-found", input=self.manifest(), ok=False)
        super().stop()
        if self.splitter:
            self.splitter.close()
        self.splitter = None

    def refused(self, manifest, *flags):
        done = self.kubectl("create", "-f", "-", *flags, ok=False, input=manifest)
        return None if done.returncode == 0 else done.stderr
