#!/usr/bin/env python3
"""conformance.py [PROGRAM]: the public conformance cases of CEL, against src/cel.

They are the files tests/simple/testdata/*.textproto of the Go module cel.dev/expr, which is taken from the module cache, or
downloaded with `go`. Cases about protobuf messages, enums, and extensions that Kubernetes does not have are skipped and
counted; what remains is known by name in tests/expected/cel.txt (tests/result.py compares). PROGRAM is build/tests/cel/cel-cases
unless told. Prints passed, failed and skipped by file; exit 77 when the cases cannot be had.
"""

import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODULE = "cel.dev/expr@v0.19.1"
EXIT_SKIPPED = 77
# Whole files: what they are about is not in Kubernetes' CEL, or needs messages everywhere.
NOT_HERE = {"proto2", "proto2_ext", "proto3", "enums", "wrappers", "encoders_ext", "math_ext", "block_ext", "unknowns", "dynamic"}
MESSAGES = re.compile(r"TestAllTypes|NestedMessage|NestedTestAllTypes|google\.protobuf\.\w*(Value|Any|Struct)\b|GlobalEnum|"
                      r"google\.protobuf\.\w+\s*\{|proto\.|math\.|base64\.|cel\.block|cel\.iterVar")
TOKEN = re.compile(r"""\s+|\#[^\n]*|(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?P<any>\[[\w./]+\])|(?P<word>[-+.\w]+)|
                   (?P<sign>[{}:<>,;\[\]])""", re.VERBOSE)


class Skip(Exception):
    pass


def unquote(text):
    """The bytes of a quoted text of the format."""
    out = bytearray()
    simple = {"n": 10, "t": 9, "r": 13, "a": 7, "b": 8, "f": 12, "v": 11, "\\": 92, "'": 39, '"': 34, "?": 63}
    rest = text[1:-1]
    while rest:
        match = re.match(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", rest, re.DOTALL)
        if not match:
            out += rest[0].encode()
            rest = rest[1:]
            continue
        if match.group(1):
            out.append(int(match.group(1), 16))
        elif match.group(2):
            out.append(int(match.group(2), 8))
        elif match.group(3) or match.group(4):
            out += chr(int(match.group(3) or match.group(4), 16)).encode()
        else:
            out.append(simple[match.group(5)])
        rest = rest[match.end():]
    return bytes(out)


def tokens(text):
    at = 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if not match:
            raise ValueError(f"cannot read: {text[at:at + 40]!r}")
        at = match.end()
        if match.lastgroup:
            yield match.lastgroup, match.group(match.lastgroup)


class Reader:
    """Text of a protobuf message as {field: [values]}."""

    def __init__(self, text):
        self.all = list(tokens(text))
        self.at = 0

    def peek(self):
        return self.all[self.at] if self.at < len(self.all) else (None, None)

    def next(self):
        self.at += 1
        return self.all[self.at - 1]

    def message(self, close=None):
        fields = {}
        while self.peek()[1] != close and self.peek()[0]:
            _, name = self.next()
            if self.peek()[1] == ":":
                self.next()
            fields.setdefault(name, []).extend(self.value())
            if self.peek()[1] in (",", ";"):
                self.next()
        if close:
            self.next()
        return fields

    def value(self):
        kind, text = self.next()
        if text in ("{", "<") and kind == "sign":
            return [self.message("}" if text == "{" else ">")]
        if text == "[" and kind == "sign":
            found = []
            while self.peek()[1] != "]":
                found += self.value()
                if self.peek()[1] == ",":
                    self.next()
            self.next()
            return found
        if kind == "text":
            out = unquote(text)
            while self.peek()[0] == "text":
                out += unquote(self.next()[1])
            return [out]
        return [text]


def literal_bytes(raw):
    return "b'" + "".join(f"\\x{byte:02x}" for byte in raw) + "'"


def literal_text(raw):
    return "'" + "".join(c if c.isalnum() and ord(c) < 128 else f"\\U{ord(c):08x}" for c in raw.decode()) + "'"


def literal_double(text):
    text = str(text)
    if text.lower().lstrip("-+") in ("inf", "infinity", "nan"):
        return f"double('{text.replace('infinity', 'inf')}')"
    return f"double('{text}')"


def literal_object(value):
    name, message = next(iter(value.items()))
    fields = {key: values[0] for key, values in message[0].items()}
    seconds, nanos = int(fields.get("seconds", 0)), int(fields.get("nanos", 0))
    if name.endswith("google.protobuf.Timestamp]"):
        return f"(timestamp({seconds}) + duration('{nanos}ns'))"
    if name.endswith("google.protobuf.Duration]"):
        return f"(duration('{seconds}s') + duration('{nanos}ns'))"
    raise Skip("a message")


def literal(value):
    """A value of the cases as an expression."""
    (kind, held), = value.items()
    held = held[0]
    if kind == "int64_value":
        return str(int(held, 0))
    if kind == "uint64_value":
        return f"{int(held, 0)}u"
    if kind == "double_value":
        return literal_double(held)
    if kind == "string_value":
        return literal_text(held)
    if kind == "bytes_value":
        return literal_bytes(held)
    if kind == "bool_value":
        return held
    if kind == "null_value":
        return "null"
    if kind == "type_value":
        return held.decode()
    if kind == "list_value":
        return "[" + ", ".join(literal(item) for item in held.get("values", [])) + "]"
    if kind == "map_value":
        return "{" + ", ".join(f"{literal(e['key'][0])}: {literal(e['value'][0])}" for e in held.get("entries", [])) + "}"
    if kind == "object_value":
        return literal_object(held)
    raise Skip(kind)


def case(test):
    """A case as a line for the program; Skip says why there is none."""
    expr = test["expr"][0].decode()
    if MESSAGES.search(expr):
        raise Skip("messages, or an extension that is not here")
    if "check_only" in test or "container" in test or "disable_macros" in test:
        raise Skip("a container, or a check alone")
    line = {"expr": expr, "loose": True, "variables": []}
    for binding in test.get("bindings", []):
        value = binding["value"][0]
        if "value" not in value:
            raise Skip("a variable without a value")
        line["variables"].append({"name": binding["key"][0].decode(), "value": literal(value["value"][0])})
    if "eval_error" in test or "any_eval_errors" in test:
        line["error"] = True
    elif "typed_result" in test:
        line["want"] = literal(test["typed_result"][0]["result"][0])
    else:
        line["want"] = literal(test["value"][0]) if "value" in test else "true"
    return line


def folder():
    def go(*command):
        path = os.environ["PATH"] + ":/usr/local/go/bin"
        return subprocess.run(["go", *command], cwd="/", text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              check=False, env={**os.environ, "PATH": path, "GOFLAGS": "-mod=mod", "GO111MODULE": "on"}).stdout
    try:
        found = json.loads(go("mod", "download", "-json", MODULE) or "{}").get("Dir")
    except FileNotFoundError:
        found = None
    return found and os.path.join(found, "tests/simple/testdata")


def cases_of(path, name):
    """(lines, skipped)"""
    lines, skipped = [], 0
    with open(path, encoding="utf-8") as f:
        file = Reader(f.read()).message()
    for section in file.get("section", []):
        for test in section.get("test", []):
            try:
                if name in NOT_HERE:
                    raise Skip("not here")
                line = case(test)
                line["name"] = f"{name}/{section['name'][0].decode()}/{test['name'][0].decode()}".replace(" ", "_")
                lines.append(line)
            except Skip:
                skipped += 1
    return lines, skipped


def main(argv):
    program = argv[0] if argv else os.path.join(ROOT, "build/tests/cel/cel-cases")
    data = folder()
    if not data:
        print(f"cel: the cases cannot be had: no Go module {MODULE}")
        return EXIT_SKIPPED
    total = [0, 0, 0]
    for file in sorted(os.listdir(data)):
        name, kind = os.path.splitext(file)
        if kind != ".textproto" or name == "unknowns":
            continue
        lines, skipped = cases_of(os.path.join(data, file), name)
        done = subprocess.run([program], input="".join(json.dumps(line) + "\n" for line in lines), text=True,
                              stdout=subprocess.PIPE, check=True)
        said = done.stdout.splitlines()
        failed = [line for line in said if line.startswith("failed: ")]
        if len(said) != len(lines):
            failed.append(f"failed: {name} {len(lines) - len(said)} cases have no answer")
        print(f"{name}: {len(said) - len(failed)} passed, {len(failed)} failed, {skipped} skipped")
        for line in failed:
            print(line)
        for i, count in enumerate((len(said) - len(failed), len(failed), skipped)):
            total[i] += count
    print(f"{total[0]} passed, {total[1]} failed, {total[2]} skipped")
    return 1 if total[1] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
