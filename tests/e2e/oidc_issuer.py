"""A small OpenID Connect issuer: over HTTPS what others find its keys by, and ID tokens signed by openssl, also for the code that
it gives a browser (PKCE; with `secret`, to a client that shows it)."""

import base64
import hashlib
import http.server
import json
import os
import ssl
import threading
import time
import urllib.parse

from harness import run


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Issuer:
    def __init__(self, folder):
        self.folder, self.keys, self.asked = folder, {}, []
        self.person = None  # the claims of who signs in; None: nobody, who is sent back with an error
        self.secret, self.codes, self.claims = None, {}, {}  # claims: what an ID token has otherwise than it should
        self.crt, key = os.path.join(folder, "issuer.crt"), os.path.join(folder, "issuer.key")
        run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", self.crt, "-days", "2", "-subj",
             "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                issuer.asked.append(self.path)
                if self.path.startswith("/authorize?"):
                    self.send_response(302)
                    self.send_header("Location", issuer.authorize(self.path))
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                else:
                    self.say(200, issuer.answer(self.path))

            def do_POST(self):
                form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                self.say(*issuer.exchange({k: v[0] for k, v in form.items()}, self.headers.get("Authorization")))

            def say(self, status, answer):
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.crt, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://localhost:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *how):
        self.server.shutdown()
        self.server.server_close()

    def answer(self, path):
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys", "authorization_endpoint": f"{self.url}/authorize",
                    "token_endpoint": f"{self.url}/token", "scopes_supported": ["openid", "email", "groups", "offline_access"]}
        return {"keys": list(self.keys.values())}

    def authorize(self, path):
        """Where a browser goes next: back, at once, as where the person is signed in already."""
        asked = {k: v[0] for k, v in urllib.parse.parse_qs(urllib.parse.urlparse(path).query).items()}
        wanted = {"response_type": "code", "client_id": "muster", "scope": "openid email groups", "code_challenge_method": "S256"}
        if any(asked.get(k) != v for k, v in wanted.items()) or not asked["redirect_uri"].endswith("/ui/callback"):
            raise AssertionError(f"the browser came with {asked}")
        if not self.person:
            answer = {"error": "access_denied", "error_description": "<b>not today</b>"}
        else:
            answer = {"code": base64.urlsafe_b64encode(os.urandom(9)).decode() + "&=", "iss": self.url}
            self.codes[answer["code"]] = (asked, self.person)
        return asked["redirect_uri"] + "?" + urllib.parse.urlencode({**answer, "state": asked["state"]})

    def exchange(self, form, authorization):
        """A code is good once, for whoever was sent with that challenge to that address."""
        asked, person = self.codes.pop(form.get("code"), (None, None))
        challenge = b64(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        basic = "Basic " + base64.b64encode(f"muster:{urllib.parse.quote(self.secret or '', safe='')}".encode()).decode()
        if self.secret and authorization != basic or not self.secret and form.get("client_id") != "muster":
            return 401, {"error": "invalid_client"}
        if not asked or challenge != asked["code_challenge"] or form["redirect_uri"] != asked["redirect_uri"]:
            return 400, {"error": "invalid_grant", "error_description": "no such code"}
        claims = {"nonce": asked["nonce"], **person, **self.claims}
        return 200, {"access_token": "x", "token_type": "Bearer", "id_token": self.token(next(iter(self.keys)), **claims)}

    def new_key(self, kid):
        """An RSA key whose public half is served from now on."""
        file = os.path.join(self.folder, kid + ".pem")
        run(["openssl", "genrsa", "-out", file, "2048"])
        n = run(["openssl", "rsa", "-in", file, "-noout", "-modulus"]).stdout.strip().split("=")[1]
        self.keys[kid] = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": kid, "n": b64(bytes.fromhex(n)), "e": "AQAB"}

    def token(self, kid, **claims):
        body = {"iss": self.url, "aud": "muster", "sub": "7", "exp": int(time.time()) + 600, **claims}
        text = b64(json.dumps({"alg": "RS256", "kid": kid}).encode()) + "." + b64(json.dumps(body).encode())
        file = os.path.join(self.folder, "text")
        with open(file, "w") as f:
            f.write(text)
        run(["openssl", "dgst", "-sha256", "-sign", os.path.join(self.folder, kid + ".pem"), "-out", file + ".sig", file])
        with open(file + ".sig", "rb") as f:
            return f"{text}.{b64(f.read())}"
