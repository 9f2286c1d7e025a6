"""The addresses of the web that a guide has its reader type: a proxy that answers for them, so that the line is typed as it
stands on a machine without a network. What is there is told by the script, each by its own line.

    with Web({"https://...": text}) as web:
        subprocess.run(command, env={**env, **web.env})
"""

import http.server
import os
import shutil
import ssl
import tempfile
import threading
from urllib.parse import urlsplit

from test_webhooks import certificate


class Web:
    def __init__(self, pages):
        self.pages = pages
        self.folder = tempfile.mkdtemp(prefix="muster-web-")
        certificate(self.folder, "DNS:localhost", *sorted({f"DNS:{urlsplit(address).hostname}" for address in pages}))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{self.folder}/cert", f"{self.folder}/key")

        class Answers(http.server.BaseHTTPRequestHandler):
            def do_CONNECT(self):
                self.send_response(200)
                self.end_headers()
                self.host = self.path.split(":")[0]
                self.connection = context.wrap_socket(self.connection, server_side=True)
                self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", 0)
                self.handle_one_request()

            def do_GET(self):
                page = pages.get(f"https://{self.host}{self.path}")
                self.send_response(200 if page is not None else 404)
                self.send_header("Content-Length", str(len((page or "").encode())))
                self.end_headers()
                self.wfile.write((page or "").encode())

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.env = {"HTTPS_PROXY": f"http://127.0.0.1:{self.server.server_port}", "SSL_CERT_FILE": f"{self.folder}/cert",
                    "NO_PROXY": "127.0.0.0/8,10.0.0.0/8"}

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        shutil.rmtree(self.folder)
