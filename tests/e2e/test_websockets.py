"""exec and port-forward over WebSocket, frame by frame: what clients send that are not kubectl."""

import base64
import json
import os
import ssl
import struct
import urllib.parse

from harness import PATIENCE, Muster, check, free_port, wait_for
from pods import apply, container, pod, wait_phase, wait_ready
from test_hostile import Wire, resident_mb

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
PODS = "/api/v1/namespaces/default/pods"
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io", "v4.base64.channel.k8s.io",
             "base64.channel.k8s.io", None)


def frame(opcode, data):
    size = struct.pack("!B", 0x80 | len(data)) if len(data) < 126 else struct.pack("!BH", 0x80 | 126, len(data))
    return bytes([0x80 | opcode]) + size + b"\0\0\0\0" + data  # a mask of zeros changes nothing


def command(*words):
    return "&".join("command=" + urllib.parse.quote(word) for word in words)


class Socket(Wire):
    def __init__(self, muster, path, protocol, token=None):
        super().__init__(muster, timeout=30 * PATIENCE)
        self.base64 = protocol and "base64" in protocol
        named = f"Sec-WebSocket-Protocol: {protocol}\r\n" if protocol else ""
        slash = "" if path.startswith("?") else "/"
        self.send(f"GET {PODS}{slash}{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token or self.token}\r\n"
                  f"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n{named}"
                  f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n\r\n".encode())
        head = self.line_and_headers().decode()
        check(" 101 " in head.split("\r\n")[0] and (not protocol or protocol in head), head)

    def write(self, channel, data, opcode=TEXT):
        if self.base64:
            self.send(frame(opcode, b"%d" % channel + base64.b64encode(data)))
        else:
            self.send(frame(opcode, bytes([channel]) + data))

    def take(self, count):
        while len(self.rest) < count:
            more = self.tls.recv(65536)
            if not more:
                raise EOFError(f"closed after {self.rest[:200]!r}")
            self.rest += more
        data, self.rest = self.rest[:count], self.rest[count:]
        return data

    def frame(self):
        first, size = self.take(2)
        if size >= 126:
            size = int.from_bytes(self.take(2 if size == 126 else 8), "big")
        return first & 15, self.take(size)

    def all(self):
        """What every channel said until the end."""
        said = {}
        while True:
            opcode, data = self.frame()
            if opcode == CLOSE:
                return said
            if opcode == PING:
                self.send(frame(PONG, data))
                continue
            channel, data = (data[0] - 48, base64.b64decode(data[1:])) if self.base64 else (data[0], data[1:])
            said[channel] = said.get(channel, b"") + data


def test_text_messages_reach_commands_and_ports():
    number = free_port()
    with Muster() as m:
        apply(m, pod("a", container(["python3", "-m", "http.server", str(number)], workingDir="/usr/share",
                                    readinessProbe={"tcpSocket": {"port": number}, "periodSeconds": 1}),
                     terminationGracePeriodSeconds=0))
        wait_ready(m, "a")
        for protocol in PROTOCOLS:
            for opcode in (TEXT, BINARY):
                with Socket(m, "a/exec?stdin=1&stdout=1&stderr=1&command=head&command=-n1", protocol) as s:
                    s.write(0, b"hello\n", opcode)
                    said = s.all()
                    check(said.get(1) == b"hello\n", f"{protocol}, {opcode}: {said}")
                    if protocol and protocol[0] == "v":
                        check(json.loads(said[3])["status"] == "Success", f"{protocol}: {said}")
                    else:
                        check(3 not in said, f"{protocol}: {said}")
        with Socket(m, "a/exec?stdin=1&stdout=1&command=cat", PROTOCOLS[0]) as s:
            s.write(0, b"until it is closed", BINARY)
            s.write(255, b"\0", BINARY)
            said = s.all()
            check(said.get(1) == b"until it is closed" and b"Success" in said[3], f"close of a channel: {said}")
        with Socket(m, f"a/exec?stdin=1&stdout=1&tty=1&{command('sh', '-c', 'read x; stty size')}", PROTOCOLS[1]) as s:
            s.write(4, b'{"Width":77,"Height":33}')
            s.write(0, b"\n")
            check(b"33 77" in s.all().get(1, b""), "the size of the terminal")
        for protocol in ("v4.channel.k8s.io", "v4.base64.channel.k8s.io"):
            with Socket(m, f"a/portforward?ports={number}", protocol) as s:
                s.write(0, b"GET / HTTP/1.0\r\n\r\n")
                said = s.all()
                port = number.to_bytes(2, "little")
                check(said[0].startswith(port) and b"Directory listing" in said[0], f"{protocol}: {said[0][:200]}")
                check(said[1] == port, f"{protocol}: {said[1]}")
        with Wire(m) as w:
            got, answer = w.ask(f"GET {PODS}/a/portforward?ports=none\nConnection: Upgrade\nUpgrade: websocket\n"
                                "Sec-WebSocket-Version: 13\nSec-WebSocket-Key: eA==\n"
                                "Sec-WebSocket-Protocol: v4.channel.k8s.io")
            check(got == 400 and b"ports" in answer, f"{got} {answer}")


def test_logs_come_as_messages():
    with Muster() as m:
        apply(m, pod("b", container("echo container is alive; sleep 1000"), terminationGracePeriodSeconds=0))
        wait_phase(m, "b", "Running")
        wait_for(lambda: "alive" in m.kubectl("logs", "b").stdout, "the pod to say something")
        for protocol, opcode in (("binary.k8s.io", BINARY), ("base64.binary.k8s.io", TEXT), (None, BINARY)):
            with Socket(m, "b/log?tailLines=1", protocol) as s:
                said = b""
                while (got := s.frame())[0] != CLOSE:
                    check(got[0] == opcode, f"{protocol}: {got}")
                    said += base64.b64decode(got[1]) if s.base64 else got[1]
                check(said == b"container is alive\n", f"{protocol}: {said}")
                check(got[1][:2] == b"\x03\xe8", f"{protocol}: closed with {got[1]}")


def test_watches_come_as_messages():
    """As fabric8's client for Java asks: it waits for the 101, and takes an answer without it for one that never ends."""
    with Muster() as m, Socket(m, "?watch=true&allowWatchBookmarks=true&timeoutSeconds=600", None) as s:
        m.create(pod("w", container("sleep 1000"), terminationGracePeriodSeconds=0))
        opcode, data = s.frame()
        event = json.loads(data)
        check((opcode, event["type"], event["object"]["metadata"]["name"]) == (TEXT, "ADDED", "w"), f"{opcode} {data}")
        s.send(frame(PING, b"there?"))
        while (got := s.frame())[0] != PONG:
            check(json.loads(got[1])["type"] in ("MODIFIED", "BOOKMARK"), f"{got}")
        check(got[1] == b"there?", f"{got}")
        s.send(frame(CLOSE, b"\x03\xe8"))
        while (got := s.frame())[0] != CLOSE:
            pass
        check(got[1][:2] == b"\x03\xe8", f"closed with {got[1]}")


def test_unread_pongs_take_no_memory():
    """A client that asks and does not read is not read either; when it reads, nothing is missing."""
    pings, payload = 200_001, b"p" * 125
    with Muster() as m:
        apply(m, pod("a", container("sleep 1000"), terminationGracePeriodSeconds=0))
        wait_phase(m, "a", "Running")
        with Socket(m, "a/exec?stdin=1&stdout=1&command=cat", PROTOCOLS[0]) as s:
            check(s.frame()[0] == PING, "the server asks first whether anybody reads")
            before = resident_mb(m)
            data = memoryview(frame(PING, payload) * pings)
            sent, blocked, got = 0, 0, len(s.rest)
            s.tls.setblocking(False)

            def push():
                nonlocal sent, blocked
                try:
                    while sent < len(data):
                        sent += s.tls.send(data[sent:sent + 65536])
                        blocked = 0
                except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                    blocked += 1
                return sent == len(data) or blocked > 20
            wait_for(push, "the pings to be sent, or not taken")
            grown = resident_mb(m) - before
            check(grown < 12, f"{sent} bytes of pings, and memory grew by {grown} MB")

            def pull():
                nonlocal got
                push()
                try:
                    while got < pings * (len(payload) + 2):
                        got += len(s.tls.recv(1 << 20))
                        push()
                except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                    return False
                return True
            wait_for(pull, "an answer to every ping", 60)


def test_a_command_starts_when_its_client_reads():
    """kubectl before 1.34 throws away what comes for a channel that it has not made yet, and makes them when it reads."""
    with Muster() as m:
        apply(m, pod("a", container("sleep 1000"), terminationGracePeriodSeconds=0))
        wait_phase(m, "a", "Running")
        for answers in (True, False):
            with Socket(m, f"a/exec?stdout=1&{command('echo', 'hello')}", PROTOCOLS[0]) as s:
                opcode, data = s.frame()
                check(opcode == PING, f"the first frame is no ping but {opcode}: {data}")
                if answers:
                    s.send(frame(PONG, data))
                said = s.all()  # of one that answers no ping it is not known, and it is not kept waiting for ever
                check(said.get(1) == b"hello\n" and b"Success" in said.get(3, b""), f"answers: {answers}: {said}")


# Writes until nobody has taken anything for a second, leaves the number of bytes behind and ends.
FILL = """
import fcntl, os, select
fcntl.fcntl(1, fcntl.F_SETFL, os.O_NONBLOCK)
sent = 0
while select.select([], [1], [], 1)[1]:
    sent += os.write(1, b"x" * 65536)
with open("/sent.new", "w") as f:
    f.write(str(sent))
os.rename("/sent.new", "/sent")
"""


def test_a_client_that_reads_late_gets_all_of_it():
    with Muster() as m:
        apply(m, pod("a", container("sleep 1000"), terminationGracePeriodSeconds=0))
        wait_phase(m, "a", "Running")
        with Socket(m, f"a/exec?stdout=1&{command('python3', '-c', FILL)}", PROTOCOLS[0]) as s:
            s.send(frame(PONG, s.frame()[1]))
            sent = wait_for(lambda: m.kubectl("exec", "a", "--", "cat", "/sent", ok=False).stdout, "the command to be over", 60)
            m.kubectl("exec", "a", "--", "sleep", "0.5")  # longer than what a process that was left behind is listened to
            said = s.all()
            got = len(said.get(1, b""))
            check(got == int(sent) and b"Success" in said.get(3, b""), f"{got} bytes of {sent} arrived; {said.get(3)}")
