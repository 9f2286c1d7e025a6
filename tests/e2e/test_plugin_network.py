"""The network between a person and the server is cut: what was under way goes on by itself."""

import os
import socket
import threading

from harness import Muster, check, wait_for
from test_plugin_commands import FLAGS, QUEUE, need_torch, project


class Relay:
    """Carries bytes to the server, and can be cut: every connection is reset and new ones are refused."""

    def __init__(self, to):
        host, port = to.rsplit(":", 1)
        self.to = (host, int(port))
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        self.port = self.listener.getsockname()[1]
        self.pairs, self.carried, self.whole, self.ended = [], 0, True, False
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while not self.ended:
            try:
                peer, _ = self.listener.accept()
                if not self.whole:
                    peer.close()
                    continue
                server = socket.create_connection(self.to)
            except OSError:
                continue
            self.pairs.append((peer, server))
            for a, b in ((peer, server), (server, peer)):
                threading.Thread(target=self.carry, args=(a, b), daemon=True).start()

    def carry(self, a, b):
        try:
            while True:
                piece = a.recv(65536)
                if not piece:
                    break
                self.carried += len(piece)
                b.sendall(piece)
        except OSError:
            pass
        for s in (a, b):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        self.whole = False
        for pair in self.pairs:
            for s in pair:
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        self.pairs = []

    def mend(self):
        self.whole = True

    def end(self):
        self.ended = True
        self.listener.close()
        self.cut()


def test_an_upload_and_a_log_go_on_after_the_network_was_cut():
    need_torch()
    with Muster(nodes=1, gpus_per_node=2, flags=FLAGS) as m:
        m.apply(QUEUE)
        folder = project(m)
        for i in range(24):
            with open(os.path.join(folder, f"part{i}"), "wb") as f:
                f.write(os.urandom(4 << 20))
        relay = Relay(m.listen)
        try:
            with open(m.kubeconfig) as f:
                text = f.read()
            with open(m.kubeconfig + ".relay", "w") as f:
                f.write(text.replace(m.listen, f"127.0.0.1:{relay.port}"))
            submit = m.spawn_torchrun("submit", "--kubeconfig", m.kubeconfig + ".relay", "--queue", "demo", "--gpus", "1",
                                      "--name", "cut",
                                      "cat part* | wc -c; for i in $(seq 1 40); do echo line $i; sleep 0.1; done",
                                      cwd=folder)
            wait_for(lambda: relay.carried > 10 << 20, "the upload to be under way", 60)
            relay.cut()
            before = relay.carried
            relay.mend()
            wait_for(lambda: relay.carried > before + (1 << 20), "the upload to go on", 60)
            wait_for(lambda: "line 5" in m.torchrun("logs", "cut").stdout, "the log to be under way", 120)
            relay.cut()
            relay.mend()
            output = submit.communicate(timeout=150)[0]
        finally:
            relay.end()
        check(submit.returncode == 0, f"exit {submit.returncode}:\n{output}")
        check(f"[rank0] {96 << 20}" in output, f"the files did not arrive whole:\n{output}")
        lines = [line for line in output.splitlines() if line.startswith("[rank0] line ")]
        check(lines == [f"[rank0] line {i}" for i in range(1, 41)], f"lines are missing or doubled:\n{output}")
        # What had arrived before the cut was not sent again.
        check(relay.carried < 140 << 20, f"{relay.carried >> 20} MiB were carried for 96 MiB")
