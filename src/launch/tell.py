"""One report of ranks (stdin) to the operator: URL, file of the token, file of the authority. 0: it was taken;
NOT_NOW: the pod has told too lately; 1: all else.

Run by muster-launch with -I, -S and -B, so that nothing of the user's Python takes part. Python 3.6 and later.
"""
import socket
import ssl
import sys

LIMIT_S = 5  # of each wait; muster-launch ends it after TELL_LIMIT_MS
NOT_NOW = 75  # as sysexits.h has it for "try again", and no Python ends so by itself


def main(url, token_file, authority):
    name, _, path = url[len("https://"):].partition("/")
    host, port = name, 443
    colon = name.rfind(":")
    if colon > name.rfind("]"):
        host, port = name[:colon], int(name[colon + 1:])
    host = host.strip("[]")
    with open(token_file) as f:
        token = f.read().strip()
    body = sys.stdin.buffer.read()
    head = ("POST /%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"
            "Content-Length: %d\r\nConnection: close\r\n\r\n" % (path, name, token, len(body)))
    context = ssl.create_default_context(cafile=authority)
    with socket.create_connection((host, port), LIMIT_S) as plain:
        with context.wrap_socket(plain, server_hostname=host) as connection:
            connection.settimeout(LIMIT_S)
            connection.sendall(head.encode("ascii") + body)
            answer = b""
            while b"\r\n" not in answer and len(answer) < 4096:
                piece = connection.recv(4096)
                if not piece:
                    break
                answer += piece
    code = b"".join(answer.split(b" ")[1:2])
    return {b"200": 0, b"429": NOT_NOW}.get(code, 1)


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:4]))
    except Exception:
        sys.exit(1)
