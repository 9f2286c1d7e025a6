"""Requests made of the tables of types (src/api/types): of each field of an object one that is absent, null, empty, of another
type, misspelt, at and beyond its bounds. Read are a field's name and type, and whether it is a list or a map; what the tables say
is allowed is not: that is what is judged.
"""

import glob
import json
import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GONE = object()  # the field is left out
TEXTS = ["", "x", "No Such_Word", "a" * 300, 7, None, {}]
NUMBERS = [0, 1, -1, 70000, 2147483648, "x", 1.5, None]
OF_FORM = {
    "string": TEXTS, "bytes": ["", "Yg==", "no base64!", 7, None],
    "int32": NUMBERS, "int64": NUMBERS, "double": NUMBERS, "bool": [True, False, "x", 0, None],
    "time": ["2026-01-02T03:04:05Z", "", "x", 5, None], "microtime": ["2026-01-02T03:04:05.000006Z", "x", None],
    "quantity": ["0", "1000m", "1024Mi", 0.5, "1e3", "-1", "x", "", None, {}],
    "int-or-string": [0, 1, -1, 70000, "10%", "110%", "x", "", "al1", None, {}], "json": [{"a": 1}, "x", None],
}
DEEP = 12  # fields of fields


class Field:
    def __init__(self, name, kind, words):
        self.name, self.kind = name, kind
        self.many = "list" if "list" in words else "map" if "map" in words else ""
        self.inline = "inline" in words


def tables():
    """{"version.Message": [Field]}"""
    found = {}
    for path in sorted(glob.glob(os.path.join(ROOT, "src/api/types/*.txt"))):
        version = message = None
        with open(path) as f:
            for line in f:
                words = line.split(" # ")[0].split()
                if not words or words[0] == "#":
                    continue
                if words[0] == "version":
                    version = words[1]
                elif words[0] == "message":
                    message = f"{version}.{words[1]}"
                    found[message] = []
                elif line.startswith(" ") and "elsewhere" not in words:
                    kind = words[1]
                    if kind not in OF_FORM and "." not in kind:
                        kind = f"{version}.{kind}"
                    found[message].append(Field(words[0], kind, words[3:]))
    return found


def fields(types, message):
    for field in types.get(message, []):
        if field.inline:
            yield from fields(types, field.kind)
        else:
            yield field


def whole(field, there):
    """Values in the place of all of a list or map, or of a message."""
    if field.many == "list":
        out = [[], [None], {}, "x", None, GONE]
        return out + ([there + there[:1]] if there else [[{}], ["x"]])
    if field.many == "map":
        return [{}, {"a": None}, {"-no key-": "1"}, {"": "x"}, {"a/b/c": "1"}, [], "x", None, GONE]
    if field.kind in OF_FORM:
        return OF_FORM[field.kind] + [GONE]
    return [{}, [], "x", None, GONE]


def below(types, message, value, path, depth=0):
    """(path, value) of every change to `value`, a message."""
    if depth > DEEP:
        return
    yield path + ("noSuchField",), 1
    for field in fields(types, message):
        here, there = path + (field.name,), value.get(field.name)
        for each in whole(field, there):
            yield here, each
        if field.many == "map" and there and field.kind in OF_FORM:
            key = next(iter(there))
            for each in OF_FORM[field.kind]:
                yield here + (key,), each
        elif field.many == "list" and there:
            if field.kind in OF_FORM:
                for each in OF_FORM[field.kind]:
                    yield here + (0,), each
            else:
                for i, item in enumerate(there):
                    yield from below(types, field.kind, item, here + (i,), depth + 1)
        elif field.kind not in OF_FORM and isinstance(there, dict):
            yield from below(types, field.kind, there, here, depth + 1)


def changed(document, path, value):
    """`document` with `value` at `path`, which is put into it."""
    at = document
    for step in path[:-1]:
        if isinstance(at, dict):
            at = at.setdefault(step, {})
        else:
            at = at[step]
    if value is not GONE:
        at[path[-1]] = value
    elif isinstance(at, dict):
        at.pop(path[-1], None)
    return document


def text(path):
    """containers[].name"""
    out = ""
    for step in path:
        out += "[]" if isinstance(step, int) else ("." if out else "") + step
    return out


def shown(value):
    return "absent" if value is GONE else json.dumps(value)[:40]
