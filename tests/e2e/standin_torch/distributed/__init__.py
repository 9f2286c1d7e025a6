"""The stores of torch.distributed that torchrun uses, in the protocol of PyTorch 1.13: a request is a byte and its arguments,
texts have a 64-bit length. src/workspace/c10d.c serves the same."""

import datetime
import pkgutil
import socket
import socketserver
import struct
import threading
import time

__path__ = pkgutil.extend_path(__path__, __name__)

SET, COMPARE_SET, GET, ADD, CHECK, WAIT, COUNT, WATCH, DELETE = range(9)
NUMBER = struct.Struct("=q")
AGAIN_S = 0.1  # until somebody is asked again who does not listen yet


def _bytes(value):
    return value.encode() if isinstance(value, str) else bytes(value)


def _text(value):
    return NUMBER.pack(len(value)) + value


class _Server(socketserver.ThreadingTCPServer):
    """Who hosts the store: a thread a connection, one lock."""
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, port):
        super().__init__(("", port), _Connection)
        self.keys = {}
        self.changed = threading.Condition()


class _Connection(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def number(self):
        return NUMBER.unpack(self.exactly(NUMBER.size))[0]

    def text(self):
        return self.exactly(self.number())

    def exactly(self, size):
        got = self.rfile.read(size)
        if len(got) < size:
            raise ConnectionError("the client has gone")
        return got

    def handle(self):
        try:
            while True:
                kind = self.exactly(1)[0]
                with self.server.changed:
                    self.wfile.write(self.answer(kind, self.server.keys))
                    self.server.changed.notify_all()
        except OSError:
            pass

    def answer(self, kind, keys):
        if kind in (CHECK, WAIT):
            wanted = [self.text() for _ in range(self.number())]
            here = all(key in keys for key in wanted)
            if kind == CHECK:
                return b"\0" if here else b"\1"
            self.server.changed.wait_for(lambda: all(key in keys for key in wanted))
            return b"\0"
        if kind == COUNT:
            return NUMBER.pack(len(keys))
        key = self.text()
        if kind == SET:
            keys[key] = self.text()
            return b""
        if kind == COMPARE_SET:
            expected, desired = self.text(), self.text()
            if keys.get(key, b"") == expected:
                keys[key] = desired
            return _text(keys.get(key, expected))
        if kind == GET:
            return _text(keys[key])
        if kind == ADD:
            keys[key] = str(int(keys.get(key, b"0")) + self.number()).encode()
            return NUMBER.pack(int(keys[key]))
        if kind == DELETE:
            return NUMBER.pack(keys.pop(key, None) is not None)
        raise ConnectionError(f"a request of kind {kind}")


class Store:
    """What torchrun's store in an etcd, too, has of here."""
    timeout = datetime.timedelta(seconds=300)

    def set_timeout(self, timeout):
        self.timeout = timeout


class TCPStore(Store):
    def __init__(self, host_name, port, world_size=None, is_master=False, timeout=datetime.timedelta(seconds=300),
                 wait_for_workers=True, multi_tenant=False):
        self._lock = threading.Lock()
        self.timeout = timeout
        if is_master:
            try:
                self._server = _Server(port)
            except OSError as e:
                raise RuntimeError(f"The server socket has failed to listen on any local network address: {e}") from e
            port = self._server.server_address[1]
            threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.host, self.port = host_name, port
        self._connect()
        if world_size and world_size > 0 and wait_for_workers:
            self.add("init/", 1)
            while self.add("init/", 0) < world_size:
                time.sleep(AGAIN_S)

    def _connect(self):
        deadline = time.monotonic() + self.timeout.total_seconds()
        while True:
            try:
                self._socket = socket.create_connection((self.host, self.port), self.timeout.total_seconds())
                break
            except OSError as e:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"The client socket has timed out after {self.timeout.total_seconds():.0f}s while trying "
                                       f"to connect to ({self.host}, {self.port}).") from e
                time.sleep(AGAIN_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _ask(self, kind, *parts, answer):
        """`answer`: what is read of it, with the lock held."""
        with self._lock:
            try:
                self._socket.sendall(bytes([kind]) + b"".join(parts))
                return answer()
            except TimeoutError as e:
                raise RuntimeError("Socket Timeout") from e
            except OSError as e:
                raise RuntimeError(f"Connection reset by peer: {e}") from e

    def _exactly(self, size):
        got = b""
        while len(got) < size:
            more = self._socket.recv(size - len(got))
            if not more:
                raise ConnectionError("the host of the store has gone")
            got += more
        return got

    def _number(self):
        return NUMBER.unpack(self._exactly(NUMBER.size))[0]

    def _value(self):
        return self._exactly(self._number())

    @staticmethod
    def _key(key):
        return _text(b"/" + _bytes(key))

    def set(self, key, value):
        self._ask(SET, self._key(key), _text(_bytes(value)), answer=lambda: None)

    def compare_set(self, key, expected, desired):
        return self._ask(COMPARE_SET, self._key(key), _text(_bytes(expected)), _text(_bytes(desired)), answer=self._value)

    def get(self, key):
        self.wait([key])
        return self._ask(GET, self._key(key), answer=self._value)

    def add(self, key, amount):
        return self._ask(ADD, self._key(key), NUMBER.pack(amount), answer=self._number)

    def check(self, keys):
        return self._ask(CHECK, NUMBER.pack(len(keys)), *map(self._key, keys), answer=lambda: self._exactly(1)) == b"\0"

    def wait(self, keys, timeout=None):
        self._socket.settimeout((timeout or self.timeout).total_seconds())
        self._ask(WAIT, NUMBER.pack(len(keys)), *map(self._key, keys), answer=lambda: self._exactly(1))

    def num_keys(self):
        return self._ask(COUNT, answer=self._number)

    def delete_key(self, key):
        return self._ask(DELETE, self._key(key), answer=self._number) == 1


class PrefixStore(Store):
    def __init__(self, prefix, store):
        self._prefix, self._store = prefix, store

    def set_timeout(self, timeout):
        self._store.set_timeout(timeout)

    def _key(self, key):
        return f"{self._prefix}/{key}"

    def set(self, key, value):
        self._store.set(self._key(key), value)

    def get(self, key):
        return self._store.get(self._key(key))

    def add(self, key, amount):
        return self._store.add(self._key(key), amount)

    def compare_set(self, key, expected, desired):
        return self._store.compare_set(self._key(key), expected, desired)

    def check(self, keys):
        return self._store.check([self._key(key) for key in keys])

    def wait(self, keys, *timeout):
        self._store.wait([self._key(key) for key in keys], *timeout)

    def delete_key(self, key):
        return self._store.delete_key(self._key(key))


class FileStore(Store):
    """Only named: torchrun takes it for a rendezvous of store_type=file, which Muster never asks for."""


def __getattr__(name):
    raise AttributeError(f"torch.distributed.{name}: this is torchrun alone (tests/e2e/standin_torch); a test that needs PyTorch "
                         "says Muster(..., pytorch=\"ranks\")")
