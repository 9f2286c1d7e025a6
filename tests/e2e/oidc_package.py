"""The issuer of the Python package oidc-provider-mock, over HTTPS: serve.py CERTIFICATE KEY prints its address; then, a line for
each name on its standard input, an ID token that a client got for that person by an authorization code with PKCE; for a name
and an address, where the issuer sends that person's browser from there."""

import base64
import hashlib
import secrets
import ssl
import sys
import threading
import urllib.parse

import httpx
import oidc_provider_mock
import werkzeug.serving


def main(crt, key):
    people = [oidc_provider_mock.User(sub="alice", claims={"email": "alice@lab", "groups": ["vision"], "hd": "lab"})]
    server = werkzeug.serving.make_server("localhost", 0, oidc_provider_mock.app(user_claims=people), ssl_context=(crt, key),
                                          threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"https://localhost:{server.server_port}"
    client = httpx.Client(verify=ssl.create_default_context(cafile=crt))
    print(client.get(url + "/.well-known/openid-configuration").json()["issuer"], flush=True)
    for line in sys.stdin:
        name, _, address = line.strip().partition(" ")
        if address:
            print(client.post(address, data={"sub": name}).headers["location"], flush=True)
            continue
        back, verifier = "https://localhost/back", secrets.token_urlsafe(40)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        asked = {"client_id": "muster", "redirect_uri": back, "response_type": "code", "scope": "openid email",
                 "code_challenge": challenge, "code_challenge_method": "S256"}
        said = client.post(url + "/oauth2/authorize", params=asked, data={"sub": name})
        code = urllib.parse.parse_qs(urllib.parse.urlparse(said.headers["location"]).query)["code"][0]
        token = client.post(url + "/oauth2/token", auth=("muster", "any"), data={
            "grant_type": "authorization_code", "code": code, "redirect_uri": back, "code_verifier": verifier})
        print(token.json()["id_token"], flush=True)


main(*sys.argv[1:])
