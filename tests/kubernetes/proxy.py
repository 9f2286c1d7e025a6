"""A proxy between a client and the API server that misbehaves on demand.

    with Proxy(control_plane, user="admin") as p:
        p.kubeconfig                 # goes through the proxy
        p.partition()                # bytes stop in both directions, connections stay open
        p.heal()
        p.faults(percent=10, seed=1) # a tenth of the requests fail, before or after they took effect
        p.clear()
        p.late = 10                  # what is asked is done at once, and answered that many seconds later, or when late is 0

It ends TLS itself and speaks HTTP/1.1 on both sides, one upstream connection a request, as the user whose
certificate it holds.
"""

import asyncio
import os
import random
import ssl
import threading

from harness import free_port

# What can go wrong with one request. `after`: the API server has done it, and nobody hears of it.
FAULTS = ("409", "429", "500", "timeout-before", "timeout-after", "reset-before", "reset-after", "500-after")
REASONS = {"404": "NotFound", "409": "Conflict", "429": "TooManyRequests", "500": "InternalError"}


class Proxy:
    def __init__(self, plane, user="admin"):
        self.plane, self.port = plane, free_port()
        certs = plane.certs
        self.server_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.certify("ca")
        self.client_tls = ssl.create_default_context(cafile=certs.path("ca.crt"))
        self.client_tls.load_cert_chain(certs.path(user + ".crt"), certs.path(user + ".key"))
        self.kubeconfig = certs.kubeconfig(f"{plane.folder}/proxy-{self.port}.kubeconfig",
                                           f"https://127.0.0.1:{self.port}", user)
        self.loop = asyncio.new_event_loop()
        self.flowing = None
        self.late = 0
        self.percent, self.kinds, self.random = 0, FAULTS, random.Random(0)
        self.only = lambda method, path: True
        self.look = lambda method, path, body: None  # sees every request
        self.injected = {}
        self.requests = 0
        self.tasks = set()

    def certify(self, authority):
        """New connections are served with a certificate of this authority, which is made if it is not there."""
        certs, name = self.plane.certs, f"proxy-{self.port}-{authority}"
        if not os.path.exists(certs.path(authority + ".crt")):
            certs.authority(authority)
        certs.sign(name, "/CN=proxy", "serverAuth", "DNS:localhost,IP:127.0.0.1", authority=authority)
        self.server_tls.load_cert_chain(certs.path(name + ".crt"), certs.path(name + ".key"))

    def __enter__(self):
        started = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self.thread.start()
        started.wait()
        return self

    def __exit__(self, *unused):
        self.loop.call_soon_threadsafe(self.done.set)
        self.thread.join(10)

    def partition(self):
        self.loop.call_soon_threadsafe(self.flowing.clear)

    def heal(self):
        self.loop.call_soon_threadsafe(self.flowing.set)

    def drop(self):
        """Cut every connection that is open now."""
        self.loop.call_soon_threadsafe(lambda: [t.cancel() for t in list(self.tasks)])

    def faults(self, percent, seed=0, kinds=FAULTS, only=None):
        """`only(method, path)` chooses the requests; watches and leases are left alone unless it says so."""
        self.random, self.kinds = random.Random(seed), kinds
        self.only = only or (lambda method, path: "watch=true" not in path and "/leases/" not in path)
        self.percent = percent

    def clear(self):
        self.percent = 0

    def _run(self, started):
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self._serve(started))

    async def _serve(self, started):
        self.flowing, self.done = asyncio.Event(), asyncio.Event()
        self.flowing.set()
        server = await asyncio.start_server(self._client, "127.0.0.1", self.port, ssl=self.server_tls,
                                            limit=1 << 24)
        started.set()
        await self.done.wait()
        server.close()
        for task in list(self.tasks):
            task.cancel()

    async def _client(self, reader, writer):
        task = asyncio.current_task()
        self.tasks.add(task)
        try:
            while await self._request(reader, writer):
                pass
        except (asyncio.CancelledError, asyncio.IncompleteReadError, OSError, asyncio.LimitOverrunError):
            pass
        finally:
            self.tasks.discard(task)
            writer.transport.abort()

    async def _request(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        await self.flowing.wait()
        lines = head.decode("latin-1").split("\r\n")
        method, path, _ = lines[0].split(" ", 2)
        length = next((int(l.split(":")[1]) for l in lines if l.lower().startswith("content-length:")), 0)
        body = await reader.readexactly(length) if length else b""
        self.requests += 1
        self.look(method, path, body)
        fault = self._fault(method, path)
        if fault in REASONS:
            await self._answer(writer, fault)
            return True
        if fault == "reset-before":
            return False
        if fault == "timeout-before":
            await asyncio.sleep(3600)
        kept = [l for l in lines[1:-2] if not l.lower().startswith(("connection:", "host:"))]
        request = "\r\n".join([lines[0], f"Host: 127.0.0.1:{self.plane.port}", "Connection: close", *kept])
        return await self._forward(request.encode("latin-1") + b"\r\n\r\n" + body, writer, fault, "watch=true" in path)

    async def _forward(self, request, writer, fault, watching):
        answered = False
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.plane.port, ssl=self.client_tls)
        try:
            up_writer.write(request)
            while True:
                piece = await up_reader.read(1 << 16)
                await self.flowing.wait()
                if watching or not answered:
                    await self._wait()
                answered = True
                if fault:  # something-after: the answer is read to its end and lost
                    if piece:
                        continue
                    if fault == "500-after":
                        await self._answer(writer, "500")
                        return True
                    if fault == "timeout-after":
                        await asyncio.sleep(3600)
                    return False
                if not piece:
                    return False
                writer.write(piece)
                await writer.drain()
        finally:
            up_writer.transport.abort()

    async def _wait(self):
        began = self.loop.time()
        while self.loop.time() < began + self.late:
            await asyncio.sleep(0.1)

    def _fault(self, method, path):
        if not self.percent or not self.only(method, path) or self.random.random() * 100 >= self.percent:
            return None
        kind = self.random.choice(self.kinds)
        if method == "GET" and kind == "409":
            kind = "500"
        self.injected[kind] = self.injected.get(kind, 0) + 1
        return kind

    async def _answer(self, writer, status):
        body = ('{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"%s","code":%s,'
                '"message":"injected by the test\'s proxy"}' % (REASONS[status], status)).encode()
        retry = b"Retry-After: 1\r\n" if status == "429" else b""
        writer.write(b"HTTP/1.1 %s Injected\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n"
                     % (status.encode(), retry, len(body)) + body)
        await writer.drain()
