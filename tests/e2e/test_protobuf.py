"""Bodies in protobuf, as typed Go clients send all of theirs: nothing of them is lost, and what the server does not
know is said."""

import base64
import http.client
import json
import ssl

from harness import Muster, check

MEDIA = "application/vnd.kubernetes.protobuf"
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


def varint(n):
    out = b""
    n &= (1 << 64) - 1
    while n > 0x7f:
        out += bytes([n & 0x7f | 0x80])
        n >>= 7
    return out + bytes([n])


def msg(*fields):
    """A message from (number, value): a number, text, bytes, or a message."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            value = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


def fields(message):
    """The way back: {number: [values]}; values are numbers or bytes."""
    out, at = {}, 0

    def number():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = number()
        check(key & 7 in (0, 2), f"wire type {key & 7}")
        if key & 7 == 0:
            value = number()
        else:
            size = number()
            value, at = message[at:at + size], at + size
        out.setdefault(key >> 3, []).append(value)
    return out


def opened(data):
    """apiVersion, kind and the fields of what stands in an envelope."""
    check(data[:4] == b"k8s\0", data[:60])
    envelope = fields(data[4:])
    kind = fields(envelope[1][0])
    return kind[1][0].decode(), kind[2][0].decode(), fields(envelope[2][0])


def body(version, kind, *fields):
    return b"k8s\0" + msg((1, msg((1, version), (2, kind))), (2, msg(*fields)), (3, ""), (4, ""))


NOWHERE = (7, msg((1, "no"), (2, "such-node")))  # nodeSelector: it is not started


def plain(name, *more):
    """A pod. Numbers are those of Kubernetes' generated.proto, written down here once more."""
    spec = msg((2, msg((1, "c"), (2, "busybox"))), NOWHERE, *more)
    return body("v1", "Pod", (1, msg((1, name))), (2, spec), (3, msg()))


def whole(name):
    port = msg((1, 0), (2, 8080), (3, ""))
    readiness = msg((1, msg((2, msg((1, "/ready"), (2, port), (3, ""), (4, "HTTP"))))), (2, 3), (3, 1), (4, 7))
    liveness = msg((1, msg((1, msg((1, "true"))))))
    env = msg((1, "POD"), (2, ""), (3, msg((1, msg((1, "v1"), (2, "metadata.name"))))))
    secret = msg((1, "KEY"), (3, msg((4, msg((1, msg((1, "creds"))), (2, "key"), (3, 1))))))
    container = msg((1, "c"), (2, "busybox"), (3, "sleep"), (7, env), (7, secret),
                    (8, msg((2, msg((1, "cpu"), (2, msg((1, "10m"))))))), (10, liveness), (11, readiness),
                    (15, msg((4, 0))))
    volumes = [msg((1, "v"), (2, msg((2, msg((1, "Memory"), (2, msg((1, "1Gi")))))))),
               msg((1, "cm"), (2, msg((19, msg((1, msg((1, "conf"))), (4, 0))))))]
    toleration = msg((1, "gpu"), (2, "Exists"), (3, ""), (4, "NoExecute"), (5, 0))
    spec = msg(*[(1, v) for v in volumes], (2, container), (4, 0), NOWHERE, (22, toleration))
    return body("v1", "Pod", (1, msg((1, name))), (2, spec), (3, msg()))


class Client:
    def __init__(self, muster):
        with open(muster.kubeconfig) as f:
            text = f.read()
        self.token = text.split("token: ")[1].split()[0]
        authority = base64.b64decode(text.split("certificate-authority-data: ")[1].split()[0]).decode()
        self.tls = ssl.create_default_context(cadata=authority)
        self.listen = muster.listen

    def ask(self, method, path, data=None, accept="application/json"):
        """Status, body, Warning headers, Content-Type."""
        host, port = self.listen.split(":")
        connection = http.client.HTTPSConnection(host, int(port), context=self.tls, timeout=60)
        try:
            connection.request(method, path, body=data, headers={
                "Authorization": f"Bearer {self.token}", "Content-Type": MEDIA, "Accept": accept})
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers.get_all("Warning") or [], answer.headers["Content-Type"]
        finally:
            connection.close()

    def get(self, path):
        status, text, _, _ = self.ask("GET", path)
        check(status == 200, f"GET {path}: {status} {text[:300]!r}")
        return json.loads(text)


def test_pod_in_protobuf_keeps_probes_volumes_tolerations_and_sources():
    with Muster() as m:
        c = Client(m)
        status, text, warnings, _ = c.ask("POST", PODS, whole("typed"))
        check(status == 201 and not warnings, f"create: {status} {text[:300]!r} {warnings}")
        spec = c.get(f"{PODS}/typed")["spec"]
        container = spec["containers"][0]
        volumes = {v["name"]: v for v in spec["volumes"]}
        check(container["readinessProbe"]["httpGet"]["port"] == 8080 and
              container["readinessProbe"]["periodSeconds"] == 7, container)
        check(container["livenessProbe"]["exec"]["command"] == ["true"], container)
        check(container["env"][0]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name", container)
        check(container["env"][1]["valueFrom"]["secretKeyRef"] == {"name": "creds", "key": "key", "optional": True},
              container)
        check(container["securityContext"]["runAsUser"] == 0, container)
        check(volumes["v"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "1Gi"}, volumes)
        check(volumes["cm"]["configMap"]["name"] == "conf" and volumes["cm"]["configMap"]["optional"] is False, volumes)
        check(any(t.get("key") == "gpu" and t["tolerationSeconds"] == 0 for t in spec["tolerations"]), spec)
        check(spec["terminationGracePeriodSeconds"] == 0 and spec["nodeSelector"] == {"no": "such-node"}, spec)


def test_unknown_field_in_protobuf_warns_and_is_refused_when_strict():
    with Muster() as m:
        c = Client(m)
        newer = plain("newer", (900, "a field of a later Kubernetes"))
        status, text, _, _ = c.ask("POST", f"{PODS}?fieldValidation=Strict", newer)
        check(status == 400 and b'unknown field number 900 of \\"spec\\"' in text, f"strict: {status} {text!r}")
        status, text, warnings, _ = c.ask("POST", f"{PODS}?fieldValidation=Ignore&dryRun=All", newer)
        check(status == 201 and not warnings, f"ignore: {status} {warnings}")
        status, text, warnings, _ = c.ask("POST", PODS, newer)
        check(status == 201 and len(warnings) == 1 and 'unknown field number 900 of \\"spec\\"' in warnings[0],
              f"warn: {status} {warnings} {text[:300]!r}")
        status, text, _, _ = c.ask("POST", PODS, body("v1", "Nonsense", (1, msg((1, "x")))))
        check(status == 415 and b"Nonsense" in text, f"unknown kind: {status} {text!r}")
        status, text, _, _ = c.ask("POST", PODS, whole("cut")[:-30])
        check(status == 400, f"cut short: {status} {text!r}")


def test_delete_and_evict_in_protobuf():
    with Muster() as m:
        c = Client(m)
        for name in ("gone", "stays", "evicted"):
            status, text, _, _ = c.ask("POST", PODS, plain(name))
            check(status == 201, f"create {name}: {status} {text[:300]!r}")
        # DeleteOptions stand under the version of the client's group; a wrong uid is honoured.
        wrong = body("apps/v1", "DeleteOptions", (1, 0), (2, msg((1, "not-its-uid"))))
        status, text, _, _ = c.ask("DELETE", f"{PODS}/stays", wrong)
        check(status == 409, f"another uid: {status} {text[:300]!r}")
        status, text, _, _ = c.ask("DELETE", f"{PODS}/gone", body("v1", "DeleteOptions", (1, 0), (4, "Background")))
        check(status == 200, f"delete: {status} {text[:300]!r}")
        eviction = body("policy/v1", "Eviction", (1, msg((1, "evicted"), (3, "default"))), (2, msg((1, 0))))
        status, text, _, _ = c.ask("POST", f"{PODS}/evicted/eviction", eviction)
        answer = json.loads(text)
        check(status == 201 and answer["kind"] == "Status" and answer["status"] == "Success" and answer["code"] == 201,
              f"evict: {status} {answer}")
        for name, wanted in (("gone", 404), ("evicted", 404), ("stays", 200)):
            status, text, _, _ = c.ask("GET", f"{PODS}/{name}")
            check(status == wanted, f"{name}: {status} {text[:300]!r}")
        entry = msg((1, "a"), (2, "b"))
        for name in ("one", "two"):
            status, text, _, _ = c.ask("POST", MAPS, body("v1", "ConfigMap", (1, msg((1, name), (11, entry))), (2, entry)))
            check(status == 201, f"create {name}: {status} {text[:300]!r}")
        status, text, _, _ = c.ask("DELETE", f"{MAPS}?labelSelector=a%3Db", body("v1", "DeleteOptions"))
        check(status == 200, f"delete all: {status} {text[:300]!r}")
        check(c.get(f"{MAPS}?labelSelector=a%3Db")["items"] == [], "config maps are left")


def test_answers_in_protobuf_when_asked_for():
    with Muster() as m:
        c = Client(m)
        typed = f"{MEDIA},application/json"
        status, text, _, media = c.ask("POST", PODS, plain("typed"), typed)
        check(status == 201 and media == MEDIA, f"create: {status} {media} {text[:300]!r}")
        version, kind, pod = opened(text)
        check((version, kind) == ("v1", "Pod") and fields(pod[1][0])[1] == [b"typed"], f"created: {version} {kind} {pod}")
        container = fields(fields(pod[2][0])[2][0])
        check(container[1] == [b"c"] and container[2] == [b"busybox"], f"container: {container}")
        status, text, _, media = c.ask("GET", PODS, accept=typed)
        version, kind, found = opened(text)
        check(status == 200 and media == MEDIA and (version, kind) == ("v1", "PodList"), f"list: {status} {media}")
        revision = int(fields(found[1][0])[2][0])
        check([fields(fields(item)[1][0])[1][0] for item in found[2]] == [b"typed"] and revision > 0, f"list: {found}")
        status, text, _, media = c.ask("GET", f"{PODS}/none", accept=typed)
        version, kind, answer = opened(text)
        check(status == 404 and media == MEDIA and kind == "Status" and answer[4] == [b"NotFound"] and answer[6] == [404],
              f"Status: {status} {media} {text!r}")
        # Every event is four bytes of length and a message whose object stands in an envelope.
        status, text, _, media = c.ask("GET", f"{PODS}?watch=true&timeoutSeconds=1", accept=f"{MEDIA};stream=watch")
        check(status == 200 and media == f"{MEDIA};stream=watch", f"watch: {status} {media}")
        size = int.from_bytes(text[:4], "big")
        event = fields(text[4:4 + size])
        check(event[1] == [b"ADDED"] and opened(fields(event[2][0])[1][0])[1] == "Pod", f"event: {event}")
        eviction = body("policy/v1", "Eviction", (1, msg((1, "typed"), (3, "default"))), (2, msg((1, 0))))
        status, text, _, media = c.ask("POST", f"{PODS}/typed/eviction", eviction, typed)
        check(status == 201 and opened(text)[1] == "Status" and opened(text)[2][2] == [b"Success"],
              f"evict: {status} {media} {text!r}")
        review = body("authorization.k8s.io/v1", "SelfSubjectAccessReview", (1, msg()),
                      (2, msg((1, msg((2, "get"), (5, "pods"))))))
        status, text, _, media = c.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review, typed)
        check(status == 201 and fields(opened(text)[2][3][0])[1] == [1], f"review: {status} {media} {text!r}")
        table = "application/json;as=Table;v=v1;g=meta.k8s.io"
        status, text, _, _ = c.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review, table)
        check(status == 406, f"a review has no table: {status} {text!r}")


def test_scale_in_protobuf_is_read_and_written():
    with Muster() as m:
        c = Client(m)
        typed, deployments = f"{MEDIA},application/json", "/apis/apps/v1/namespaces/default/deployments"
        labels = msg((1, "a"), (2, "b"))
        template = msg((1, msg((11, labels))), (2, msg((2, msg((1, "c"), (2, "busybox"))), NOWHERE)))
        status, text, warnings, _ = c.ask("POST", deployments, body(
            "apps/v1", "Deployment", (1, msg((1, "d"))), (2, msg((1, 0), (2, msg((1, labels))), (3, template)))), typed)
        check(status == 201 and not warnings and opened(text)[:2] == ("apps/v1", "Deployment"), f"{status} {text[:300]!r}")
        for _ in range(20):  # the controller writes the status of the same object
            status, text, _, media = c.ask("GET", f"{deployments}/d/scale", accept=typed)
            version, kind, scale = opened(text)
            check((status, media, version, kind) == (200, MEDIA, "autoscaling/v1", "Scale"), f"{status} {media} {text[:300]!r}")
            check(fields(scale[2][0])[1] == [0] and fields(scale[3][0])[2] == [b"a=b"], f"scale: {scale}")
            wanted = body("autoscaling/v1", "Scale", (1, scale[1][0]), (2, msg((1, 2))), (3, msg()))
            status, text, _, _ = c.ask("PUT", f"{deployments}/d/scale", wanted, typed)
            if status != 409:
                break
        check(status == 200 and fields(opened(text)[2][2][0])[1] == [2], f"{status} {text[:300]!r}")
        check(c.get(f"{deployments}/d")["spec"]["replicas"] == 2, "it is not scaled")
        newer = body("autoscaling/v1", "Scale", (1, msg((1, "d"))), (2, msg((1, 3), (900, "later"))), (3, msg()))
        status, text, _, _ = c.ask("PUT", f"{deployments}/d/scale?fieldValidation=Strict", newer)
        check(status == 400 and b"unknown field number 900" in text, f"strict: {status} {text!r}")


def test_what_protobuf_has_no_form_of_is_json_or_not_acceptable():
    with Muster() as m:
        c = Client(m)
        jobs = "/apis/torchrun.ai/v1alpha1/namespaces/default/torchrunjobs"
        table = "application/json;as=Table;v=v1;g=meta.k8s.io"
        metadata = f"{MEDIA};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
        for path, accept, wanted_status, wanted_media in (
                (jobs, f"{MEDIA},application/json", 200, "application/json"),
                (jobs, MEDIA, 406, MEDIA),
                (jobs, metadata, 200, MEDIA),
                (PODS, f"{table},{MEDIA}", 200, "application/json"),
                (PODS, f"{MEDIA};as=Table;v=v1;g=meta.k8s.io,application/json", 200, "application/json"),
                (PODS, "application/yaml", 200, "application/yaml"),
                (PODS, "text/html", 406, "application/json")):
            status, text, _, media = c.ask("GET", path, accept=accept)
            check((status, media) == (wanted_status, wanted_media), f"{path} as {accept}: {status} {media} {text[:300]!r}")
            if accept == metadata:
                check(opened(text)[1] == "PartialObjectMetadataList", text)
