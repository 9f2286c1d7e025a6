#!/usr/bin/env python3
"""device_plugin.py FOLDER RESOURCE ID...: tell the kubelet of FOLDER that this node has these devices.

What NVIDIA's device plugin does, as far as a kubelet sees it: it registers, lists devices, and when a container gets one
names it in the container's environment. The messages are few and small, so they are written by hand. Needs python3-grpcio.
"""

import os
import queue
import sys
from concurrent import futures

import grpc

SOCKET = "muster-test.sock"
VARIABLE = "NVIDIA_VISIBLE_DEVICES"


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not data[at - 1] & 0x80:
            return value, at


def field(number, content):
    """A string or message; all here are shorter than 16 KiB."""
    content = content.encode() if isinstance(content, str) else content
    length = bytes([len(content)]) if len(content) < 0x80 else bytes([len(content) & 0x7F | 0x80, len(content) >> 7])
    return bytes([number << 3 | 2]) + length + content


def fields(data):
    """(number, bytes) of every string or message in one."""
    at, found = 0, []
    while at < len(data):
        key, at = varint(data, at)
        length, at = varint(data, at)
        found.append((key >> 3, data[at:at + length]))
        at += length
    return found


def allocate(request, _):
    """AllocateRequest: for each container the devices; the answer has the environment of each."""
    answer = b""
    for _, container in fields(request):
        devices = ",".join(name.decode() for _, name in fields(container))
        answer += field(1, field(1, field(1, VARIABLE) + field(2, devices)))
    return answer


def main(folder, resource, *devices):
    def watch(_, context):
        yield b"".join(field(1, field(1, device) + field(2, "Healthy")) for device in devices)
        queue.Queue().get()  # nothing changes

    raw = {"request_deserializer": None, "response_serializer": None}
    methods = {"GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(lambda *_: b"", **raw),
               "ListAndWatch": grpc.unary_stream_rpc_method_handler(watch, **raw),
               "Allocate": grpc.unary_unary_rpc_method_handler(allocate, **raw)}
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", methods)])
    server.add_insecure_port("unix:" + os.path.join(folder, SOCKET))
    server.start()
    with grpc.insecure_channel("unix:" + os.path.join(folder, "kubelet.sock")) as kubelet:
        register = kubelet.unary_unary("/v1beta1.Registration/Register")
        register(field(1, "v1beta1") + field(2, SOCKET) + field(3, resource), wait_for_ready=True, timeout=60)
    print("registered", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main(*sys.argv[1:])
