"""The sync service against peers that mean no good: nothing is written outside, each refusal has words."""

import http.client
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile

from harness import binary, check, free_port, wait_for


SECRET = "0123456789abcdef" * 4


class Sync:
    """muster-launch sync on a folder of its own, spoken to directly."""

    def __init__(self, **env):
        self.env = env or {"MUSTER_JOB": "default/hostile", "MUSTER_JOB_SECRET": SECRET}

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="muster-sync-")
        self.workspace = os.path.join(self.folder, "workspace")
        os.mkdir(self.workspace)
        self.port = free_port()
        self.store_port = free_port()
        self.start()
        return self

    def start(self):
        env = dict(os.environ, MUSTER_WORKSPACE_DIR=self.workspace, MUSTER_SYNC_PORT=str(self.port),
                   MUSTER_SYNC_ADDRESS="127.0.0.1", MUSTER_STORE_PORT=str(self.store_port), **self.env)
        self.process = subprocess.Popen([binary("muster-launch"), "sync"], env=env,
                                        stderr=subprocess.DEVNULL)
        wait_for(lambda: self.ask("GET", "/healthz")[0] == 200, "the sync service", 30)

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(10)

    def __exit__(self, *_):
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.folder)

    def ask(self, method, path, body=b"", secret=SECRET):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        c.request(method, path, body, {"Muster-Job-Secret": secret} if secret is not None else {})
        answer = c.getresponse()
        return answer.status, answer.read()


def frame(kind, payload):
    return kind.encode() + struct.pack(">I", len(payload)) + payload


def entry(path, kind="f", mode=0o644, size=0, digest=bytes(16), target=b""):
    path = path if isinstance(path, bytes) else path.encode()
    return frame("E", kind.encode() + struct.pack(">HQ", mode, size) + digest +
                 struct.pack(">H", len(path)) + path + target)


def begin(target=bytes(16), base=bytes(16), full=1):
    return frame("T", target + base + bytes([full]))


def commit(*entries):
    return begin() + b"".join(entries) + frame("C", b"")


def everything_below(folder):
    return sorted(os.path.join(d, f) for d, _, files in os.walk(folder) for f in files)


def test_hostile_manifests_are_refused_with_words():
    cases = [
        ("up and out", commit(entry("../evil")), b".."),
        ("absolute", commit(entry("/tmp/evil")), b"absolute"),
        ("hidden up", commit(entry("a", "d", 0o755), entry("a/../../evil")), b".."),
        ("a link out", commit(entry("link", "l", 0, target=b"../../etc/passwd")), b"outside"),
        ("a file through an absolute link", commit(entry("l", "l", 0, target=b"/tmp"), entry("l/evil")), b"not a folder"),
        ("a file through a link", commit(entry("l", "l", 0, target=b"x"), entry("l/evil")), b"not a folder"),
        ("a device node", commit(entry("null", "c")), b"not a file, a folder or a link"),
        ("set-uid", commit(entry("su", mode=0o4755)), b"permission"),
        ("our own state", commit(entry(".muster/manifest")), b"our own"),
        ("a NUL in the name", commit(entry(b"a\0b")), b"NUL"),
        ("twice the same", commit(entry("a"), entry("a")), b"twice"),
        ("larger than a workspace", commit(entry("a", size=1 << 50)), b"larger"),
        ("content that was never sent", commit(entry("a", size=5, digest=b"x" * 16)), b""),
        ("no begin", entry("a") + frame("C", b""), b"before the commit began"),
        ("cut in the middle", commit(entry("a"))[:-7], b""),
        ("not frames at all", b"PK\x03\x04" + bytes(100), b""),
        ("a frame without end", frame("T", bytes(33)) + b"E\x7f\xff\xff\xff", b"at most"),
    ]
    with Sync() as s:
        for why, body, words in cases:
            status, text = s.ask("POST", "/v1/commit", body)
            check(400 <= status < 500, f"{why}: status {status} {text}")
            check(text.strip() and words in text, f"{why}: {text}")
        left = [path for path in everything_below(s.folder) if not path.endswith("/.muster/boot")]
        check(left == [], f"something was written: {left}")
        check(s.ask("GET", "/v1/state")[0] == 200, "the service lives")


def test_hostile_contents_are_refused_with_words():
    def blob(digest, size, offset, data, path=b""):
        return frame("B", digest + struct.pack(">QQHH", size, offset, 0o644, len(path)) + path + data)
    bomb = bytes.fromhex("28b52ffd") + bytes(64)
    cases = [
        ("another hash", blob(b"h" * 16, 4, 0, b"evil"), b"hash"),
        ("beyond its end", blob(b"h" * 16, 4, 3, b"evil"), b"beyond"),
        ("larger than a workspace", blob(b"h" * 16, 1 << 60, 0, b"x"), b"may have"),
        ("a bomb by its own account", frame("Z", struct.pack(">I", 1 << 30) + bomb), b"at most"),
        ("a bomb that lies", frame("Z", struct.pack(">I", 1 << 20) + bomb), b"unpack"),
        ("an entry among contents", entry("a"), b"only contents"),
        ("for a place outside", blob(b"h" * 16, 4, 0, b"evil", b"../../evil"), b".."),
        ("for an absolute place", blob(b"h" * 16, 4, 0, b"evil", b"/tmp/evil"), b"absolute"),
        ("for a place of our own", blob(b"h" * 16, 4, 0, b"evil", b".muster/manifest"), b"our own"),
    ]
    with Sync() as s:
        for why, body, words in cases:
            status, text = s.ask("POST", "/v1/blobs", body)
            check(400 <= status < 500, f"{why}: status {status} {text}")
            check(words in text, f"{why}: {text}")
        staged = [f for f in everything_below(s.workspace) if "/stage/" in f]
        check(not staged, f"refused contents were kept: {staged}")


def test_bad_http_does_not_hurt_the_service():
    with Sync() as s:
        for text in (b"\r\n\r\n", b"GET\r\n\r\n", b"POST /v1/commit HTTP/1.1\r\nContent-Length: x\r\n\r\n",
                     b"POST /v1/commit HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                     b"GET / HTTP/1.1\r\nA: " + b"x" * 40000, b"\x16\x03\x01\x02\x00" * 10):
            c = socket.create_connection(("127.0.0.1", s.port), timeout=5)
            try:
                c.sendall(text)
                c.shutdown(socket.SHUT_WR)
                c.recv(1000)
            except ConnectionError:
                pass
            c.close()
        check(s.ask("GET", "/nowhere")[0] == 404, "unknown paths")
        check(s.ask("GET", "/v1/state")[0] == 200, "the service lives")


def test_what_was_sent_survives_a_crash_of_the_service():
    """An upload goes on where it was: contents that arrived are not asked for again."""
    import hashlib
    with Sync() as s:
        status, _ = s.ask("POST", "/v1/blobs", b"")
        check(status == 200, "an empty upload is fine")
        missing = frame("H", hashlib.md5(b"x").digest() + struct.pack(">Q", 1))
        status, answer = s.ask("POST", "/v1/missing", missing)
        check(status == 200 and answer == frame("H", hashlib.md5(b"x").digest() + bytes(8)),
              f"it lacks what it never had: {answer}")
        s.stop(signal.SIGKILL)
        s.start()
        check(s.ask("GET", "/v1/state")[0] == 200, "it starts again on the same folder")
