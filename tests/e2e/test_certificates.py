"""CertificateSigningRequests: approved, signed, and good for the API."""

import base64
import json
import subprocess
import tempfile

from harness import Muster, check, need_kubectl, wait_for
from pods import apply


def request(folder, name, subject, **spec):
    subprocess.run(["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-subj", subject, "-keyout", f"{folder}/key", "-out", f"{folder}/csr"],
                   check=True, capture_output=True)
    with open(f"{folder}/csr", "rb") as file:
        text = base64.b64encode(file.read()).decode()
    return {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
            "spec": dict({"request": text, "signerName": "kubernetes.io/kube-apiserver-client",
                          "usages": ["client auth"], "username": "somebody else"}, **spec)}


def test_an_approved_certificate_is_signed_and_good_for_the_api():
    need_kubectl(27)
    with tempfile.TemporaryDirectory() as folder, Muster() as m:
        apply(m, request(folder, "jo", "/O=team/CN=jo", expirationSeconds=3600))
        csr = m.get("csr", "jo")
        check(csr["spec"]["username"] != "somebody else", f"{csr['spec']}")
        check("Pending" in m.kubectl("get", "csr", "jo").stdout, "it waits for somebody")
        m.kubectl("certificate", "approve", "jo")
        wait_for(lambda: m.get("csr", "jo")["status"].get("certificate"), "it is signed")
        check("Approved,Issued" in m.kubectl("get", "csr", "jo").stdout, m.kubectl("get", "csr", "jo").stdout)
        with open(f"{folder}/crt", "wb") as file:
            file.write(base64.b64decode(m.get("csr", "jo")["status"]["certificate"]))
        view = json.loads(m.kubectl("config", "view", "--raw", "-o", "json").stdout)
        view["users"] = [{"name": "jo", "user": {"client-certificate": f"{folder}/crt", "client-key": f"{folder}/key"}}]
        view["contexts"][0]["context"]["user"] = "jo"
        with open(f"{folder}/kubeconfig", "w") as file:
            json.dump(view, file)
        who = m.kubectl("--kubeconfig", f"{folder}/kubeconfig", "auth", "whoami", "-o", "json")
        info = json.loads(who.stdout)["status"]["userInfo"]
        check(info["username"] == "jo" and "team" in info["groups"], f"{info}")
        apply(m, request(folder, "no", "/CN=no"))
        m.kubectl("certificate", "deny", "no")
        check("Denied" in m.kubectl("get", "csr", "no").stdout, "it is denied")
        refused = m.kubectl("certificate", "approve", "no", ok=False)
        check(refused.returncode != 0, "what is denied stays denied")
        apply(m, request(folder, "all", "/O=system:masters/CN=all"))
        m.kubectl("certificate", "approve", "all")
        wait_for(lambda: "Failed" in m.kubectl("get", "csr", "all").stdout, "nobody becomes the owner this way")
        apply(m, request(folder, "node", "/CN=n", signerName="kubernetes.io/kubelet-serving"))
        m.kubectl("certificate", "approve", "node")
        wait_for(lambda: "SignerNotServed" in json.dumps(m.get("csr", "node")["status"]), "the signer is not served")
        # To approve takes a right on the signer, too.
        m.kubectl("create", "clusterrole", "half", "--verb=get,list,update", "--resource=csr,csr/approval")
        m.kubectl("create", "clusterrolebinding", "half", "--clusterrole=half", "--user=eve")
        apply(m, request(folder, "late", "/CN=late"))
        forbidden = m.kubectl("certificate", "approve", "late", "--as=eve", ok=False)
        check("signers" in forbidden.stderr, forbidden.stderr)


def decoded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def der_number(number):
    number = number.lstrip(b"\0") or b"\0"
    number = b"\0" + number if number[0] & 0x80 else number
    return b"\x02" + bytes((len(number),)) + number


def test_a_token_for_somebody_else_is_checked_with_the_published_key():
    with tempfile.TemporaryDirectory() as folder, Muster() as m:
        def written(name, data):
            path = f"{folder}/{name}"
            with open(path, "wb") as file:
                file.write(data)
            return path
        wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["vault"]}}
        path = written("request", json.dumps(wanted).encode())
        token = json.loads(m.kubectl("create", "--raw", "/api/v1/namespaces/default/serviceaccounts/default/token", "-f",
                                     path).stdout)["status"]["token"]
        told = json.loads(m.kubectl("get", "--raw", "/.well-known/openid-configuration").stdout)
        # Clients read for whom a token is, and for how long, where nothing was asked for.
        path = written("request", json.dumps({**wanted, "spec": {}}).encode())
        spec = json.loads(m.kubectl("create", "--raw", "/api/v1/namespaces/default/serviceaccounts/default/token", "-f",
                                    path).stdout)["spec"]
        check(spec["audiences"] == [told["issuer"]] and spec["expirationSeconds"] == 3600, f"{spec}")
        head, claims, signature = token.split(".")
        check(json.loads(decoded(claims))["iss"] == told["issuer"], f"{told}")
        key, = json.loads(m.kubectl("get", "--raw", "/openid/v1/jwks").stdout)["keys"]
        check(json.loads(decoded(head)) == {"alg": "ES256", "kid": key["kid"], "typ": "JWT"}, f"{head} {key}")
        # openssl takes key and signature as DER.
        point = written("key", bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d03010703420004") +
                        decoded(key["x"]) + decoded(key["y"]))
        numbers = decoded(signature)
        both = der_number(numbers[:32]) + der_number(numbers[32:])
        coded = written("signature", b"\x30" + bytes((len(both),)) + both)
        text = written("text", f"{head}.{claims}".encode())
        subprocess.run(["openssl", "dgst", "-sha256", "-verify", point, "-keyform", "DER", "-signature", coded, text],
                       check=True, capture_output=True)
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
                  "spec": {"token": token, "audiences": ["vault"]}}
        answer = json.loads(m.kubectl("create", "-o", "json", "-f", written("review", json.dumps(review).encode())).stdout)
        check(answer["status"].get("authenticated"), f"{answer}")
