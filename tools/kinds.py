#!/usr/bin/env python3
"""kinds.py --write | --check | --header OUTPUT FILE: what deploy/kinds says of our kinds, for all who need it.

deploy/kinds/*.txt has a line a field, much as src/api/types has it for Kubernetes' own kinds. From there come the schemas
in deploy/crds (the head of such a file, names and columns, is its own), the tables of docs/kinds between the marks
`<!-- fields MESSAGE -->` and `<!-- end of fields -->`, and, when the program is built, C: the members of a struct and the
rows of its reader (src/api/decode.h). --check says which file is not as it would be written.

    # a remark
    version torchrun.ai/v1alpha1
    message TorchrunJob kind             # what people are told; with `kind`, the object itself
      spec      TorchrunJobSpec  required # a field: name, type, words, and what people are told
      inline    TorchrunSettings          the fields of another message, here
      ! self.a <= self.b # message        a rule in CEL, of the line above: of the message, or of a field

A type is string, bool, integer, int32, int64, number, time, int-or-string, quantity, object (keeps whatever it is given),
any-kind (of an object of any kind), a type of src/api/types (v1.Affinity), or a message of the same file. Words:

  list, map, items=1..64 (or items=64), entries=16, key=a,b   of a list, a map; how many; what tells items apart
  keys=a,b                                                    of a map: what has to be in it
  required, nullable, default=JSON, idle                      idle: nothing here acts on it
  min=, max=, in=A|B, pattern=                                of numbers; of texts their length
  c=NAME                                                      the member of the struct. Two with the same one are two
                                                              spellings: the first wins. With a dot: of another's struct
  as=json|milli|whole|duration|PREFIX_                        how it is read, if not as its type; PREFIX_: an enum with a
                                                              PREFIX_WORD for each text
  absent=, from=, to=                                         what the reader takes for nothing, and its own range
Behind a message: is=v1.PodTemplateSpec, what stands there in the eyes of `muster` (schema.h); open, more is kept, and who
reads it reads it whole; c=NAME: NAME_MEMBERS and NAME_FIELDS(owner) are made, and struct NAME in lower case, or of=STRUCT, is
what lists of it consist of.
"""

import glob
import itertools
import json
import os
import re
import sys
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCALARS = {"string": ("string", None), "bool": ("boolean", None), "integer": ("integer", None), "int32": ("integer", "int32"),
           "int64": ("integer", "int64"), "number": ("number", None), "time": ("string", "date-time")}
FLAGS = {"list", "map", "required", "nullable", "idle"}
VALUES = {"items", "entries", "key", "keys", "default", "min", "max", "in", "pattern", "c", "as", "absent", "from", "to"}
MEMBERS = {"STR": "struct str", "BOOL": "bool", "I64": "int64_t", "NUMBER": "double", "JSON": "const struct json *",
           "WHOLE": "int64_t", "MILLI": "int64_t", "DURATION": "int64_t", "TIME": "int64_t", "ENUM": "int"}


# As Kubernetes' own tools write it, for an API server that knows of quantities nothing else.
QUANTITY = (r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
            r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$")


class Field:
    def __init__(self, where, name, kind, words, about):
        self.name, self.type, self.about, self.rules, self.flags = name, kind, about, [], set()
        self.value = {}
        for word in words:
            key, equals, value = word.partition("=")
            if word in FLAGS:
                self.flags.add(word)
            elif equals and key in VALUES:
                self.value[key] = value
            else:
                sys.exit(f"{where}: unknown word behind a field: {word}")

    def one_of(self):
        return self.value["in"].split("|") if "in" in self.value else []


class Message:
    def __init__(self, version, name, words, about):
        self.version, self.name, self.about, self.rules, self.fields = version, name, about, [], []
        self.kind, self.open = "kind" in words, "open" in words
        self.title = next((word[3:] for word in words if word.startswith("is=")), None)
        self.c = next((word[2:] for word in words if word.startswith("c=")), None)
        self.of = next((word[3:] for word in words if word.startswith("of=")), (self.c or "").lower())


class Kinds:
    """The messages of one file."""

    def __init__(self, path):
        self.path, self.messages = path, []
        version = ""
        for number, line in enumerate(open(path, encoding="utf-8"), 1):
            where = f"{os.path.relpath(path, ROOT)}:{number}"
            text, _, about = line.strip().partition(" # ")
            words, about = text.split(), about.strip()
            if not words or words[0].startswith("#"):
                continue
            if words[0] == "!":
                (self.last.rules).append((text[2:].strip(), about))
            elif line.startswith(" ") and len(words) > 1:
                self.last = Field(where, words[0], words[1], words[2:], about)
                self.messages[-1].fields.append(self.last)
            elif words[0] == "version":
                version = words[1]
            elif words[0] == "message":
                self.last = Message(version, words[1], words[2:], about)
                self.messages.append(self.last)
            else:
                sys.exit(f"{where}: neither version, message, field nor rule")

    def find(self, name, version):
        found = [m for m in self.messages if m.name == name]
        return next((m for m in found if m.version == version), found[0] if found else None)

    def type_of(self, message, field):
        found = self.find(field.type, message.version)
        if not found and field.type not in SCALARS and "." not in field.type and \
           field.type not in ("object", "int-or-string", "quantity", "any-kind"):
            sys.exit(f"{self.path}: {message.name}.{field.name}: no such type: {field.type}")
        return found

    # ---- schemas ----
    def value_schema(self, message, field):
        inner = self.type_of(message, field)
        if inner:
            return self.schema(inner)
        if field.type == "any-kind":
            return {"title": "any kind", "type": "object", "x-kubernetes-preserve-unknown-fields": True}
        if field.type == "object" or field.type not in SCALARS and "." in field.type:
            title = {} if field.type == "object" else {"title": field.type}
            return {**title, "type": "object", "x-kubernetes-preserve-unknown-fields": True}
        schema = {}
        if field.type == "quantity":
            schema.update(title="quantity", anyOf=[{"type": "integer"}, {"type": "string"}], pattern=QUANTITY)
        if field.type in ("quantity", "int-or-string"):
            schema["x-kubernetes-int-or-string"] = True
        else:
            schema["type"], form = SCALARS[field.type]
            if form:
                schema["format"] = form
        least, most = ("minLength", "maxLength") if field.type == "string" else ("minimum", "maximum")
        for word, name in (("min", least), ("max", most)):
            if word in field.value:
                schema[name] = int(field.value[word])
        if "pattern" in field.value:
            schema["pattern"] = field.value["pattern"]
        if field.one_of():
            schema["enum"] = field.one_of()
        return schema

    def field_schema(self, message, field):
        value = self.value_schema(message, field)
        if "list" in field.flags:
            least, _, most = field.value.get("items", "").rpartition("..")
            schema = {"type": "array"}
            for name, text in (("minItems", least), ("maxItems", most)):
                if text:
                    schema[name] = int(text)
            if "key" in field.value:
                schema["x-kubernetes-list-type"] = "map"
                schema["x-kubernetes-list-map-keys"] = field.value["key"].split(",")
            schema["items"] = value
        elif "map" in field.flags:
            schema = {"type": "object"}
            if "entries" in field.value:
                schema["maxProperties"] = int(field.value["entries"])
            if "keys" in field.value:
                schema["required"] = field.value["keys"].split(",")
            schema["additionalProperties"] = value
        else:
            schema = value
        head = {}
        if field.about:
            head["description"] = field.about
        if "idle" in field.flags:
            head["title"] = "no effect"
        if field.rules:
            head["x-kubernetes-validations"] = [{"rule": r, "message": m} for r, m in field.rules] + \
                schema.pop("x-kubernetes-validations", [])
        schema = {**head, **{name: v for name, v in schema.items() if name not in head}}
        if "nullable" in field.flags:
            schema["nullable"] = True
        if "default" in field.value:
            schema["default"] = json.loads(field.value["default"])
        return schema

    def fields(self, message):
        """With those of what is inline."""
        for field in message.fields:
            if field.name == "inline":
                yield from self.fields(self.type_of(message, field))
            else:
                yield message, field

    def schema(self, message):
        fields = list(self.fields(message))
        required = [field.name for _, field in fields if "required" in field.flags]
        schema = {}
        if message.about:
            schema["description"] = message.about
        if message.title:
            schema["title"] = message.title
        schema["type"] = "object"
        if required:
            schema["required"] = required
        if message.open:
            schema["x-kubernetes-preserve-unknown-fields"] = True
        rules = message.rules + list(self.spellings(message))
        if rules:
            schema["x-kubernetes-validations"] = [{"rule": r, "message": m} for r, m in rules]
        known = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
        properties = known if message.kind else {}
        properties = {**properties, **{field.name: self.field_schema(owner, field) for owner, field in fields}}
        return {**schema, "properties": properties} if properties else schema

    def spellings(self, message):
        """A rule for each two spellings of one thing: they do not say two things."""
        first = {}
        for name, field, _ in self.rows(message, "", []) if message.c else ():
            one = first.setdefault(field.value["c"], name)
            if one != name:
                parts = [part for path in (one, name) for part in itertools.accumulate(path.split("."), "{}.{}".format)]
                there = [f"has(self.{part})" for part in dict.fromkeys(parts)]
                yield (f"!({' && '.join(there)}) || self.{one} == self.{name}",
                       f"{name}: says something else than {one}, which is the same in another spelling; leave one of them out")

    # ---- C ----
    def rows(self, message, path, ret):
        """The rows of a message that has a reader, with those of what is in it, in the order of the lines."""
        for field in message.fields:
            inner = self.type_of(message, field)
            name = path + field.name
            if field.name != "inline" and "c" in field.value:
                ret.append((name, field, inner))
            if inner and not inner.c and not inner.open and not field.flags & {"list", "map"}:
                self.rows(inner, path if field.name == "inline" else name + ".", ret)
        return ret

    @staticmethod
    def read_as(field):
        how = field.value.get("as", "")
        scalar = {"string": "STR", "bool": "BOOL", "number": "NUMBER", "time": "TIME"}.get(field.type, "I64")
        return "ENUM" if how.endswith("_") else how.upper() or scalar

    def c_row(self, name, alias, field, inner):
        """(members, row) of C."""
        member, how = field.value["c"], self.read_as(field)
        extra = f', .alias = "{alias}"' if alias else ""
        least, most = field.value.get("from", field.value.get("min")), field.value.get("to", field.value.get("max"))
        if "required" in field.flags and "." not in name and how != "JSON":  # which is NULL then
            extra += ", .required = true"
        absent = field.value.get("absent", field.value.get("default", "").strip('"'))
        if absent:
            extra += f', .absent = "{absent}"'
        if how != "JSON" and ("list" in field.flags or inner):
            many = "list" in field.flags
            item = f"struct {inner.of}" if inner else "struct str"
            extra += f", .table = &{inner.c.lower()}_table" if inner else ""
            if not many:
                return f"{item} {member};", f'DECODE_FIELD(owner, {member}, "{name}", OBJECT{extra})'
            count = f"{member.removesuffix('s')}_count"
            if "items" in field.value:
                extra += f", .max = {field.value['items'].rpartition('..')[2]}"
            return (f"const {item} *{member}; size_t {count};",
                    f'DECODE_ITEMS(owner, {member}, {count}, "{name}", {"LIST" if inner else "STRS"}{extra})')
        if how == "ENUM":
            words = [f'[{field.value["as"]}{re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).upper()}] = "{word}"'
                     for word in field.one_of()]
            extra += f", .words = (const char *const[{len(words) + 1}]){{{', '.join(words)}}}"
        if how in ("I64", "WHOLE", "MILLI", "DURATION"):
            extra += f", .min = INT64_C({least})" if least not in (None, "0") else ""
            extra += f", .max = INT64_C({most})" if most else ", .max = INT64_MAX" if least not in (None, "0") else ""
        return f"{MEMBERS[how]} {member};".replace("* ", "*"), f'DECODE_FIELD(owner, {member}, "{name}", {how}{extra})'

    def header(self):
        lines = ["#pragma once", "", f"/* Of {os.path.relpath(self.path, ROOT)}, by tools/kinds.py: members of structs,",
                 " * and the rows that read them. */"]
        for message in self.messages:
            if not message.c:
                continue
            rows, first = self.rows(message, "", []), {}
            for name, field, _ in rows:
                first.setdefault(field.value["c"], []).append(name)
            made = [self.c_row(name, "".join(first[field.value["c"]][1:]), field, inner)
                    for name, field, inner in rows if first[field.value["c"]][0] == name]
            members = [member for member, _ in made if "." not in member]
            lines += ["", f"#define {message.c}_MEMBERS \\"] + [f"    {member} \\" for member in members] + [""]
            lines += [f"#define {message.c}_FIELDS(owner) \\"] + [f"    {row}, \\" for _, row in made]
        return "\n".join(lines) + "\n\n"

    # ---- pages ----
    def table(self, message, path=""):
        for field in message.fields:
            inner = self.type_of(message, field)
            if field.name == "inline":
                continue
            many = "[]" if "list" in field.flags else ".*" if "map" in field.flags else ""
            texts = [f"`{word}`" for word in field.one_of()]
            words = [", ".join(texts[:-1]) + " or " * (len(texts) > 1) + texts[-1]] if texts else []
            least, most = field.value.get("min"), field.value.get("max")
            if field.type in ("integer", "int32", "int64", "number") and (least or most):
                words.append(f"{least} to {most}" if least and most else f"from {least}" if least else f"up to {most}")
            if "required" in field.flags:
                words.append("required")
            if "default" in field.value:
                words.append(f"default `{json.loads(field.value['default'])}`")
            kind = "" if inner else field.type
            about = re.sub(r"\.$", "", field.about).replace("|", "\\|")
            said = "; ".join(word for word in [about] + words if word)
            if said:
                yield f"| `{path}{field.name}{many}` | {kind} | {said} |"
            if inner:
                yield from self.table(inner, f"{path}{field.name}{many}.")


def plain(text):
    """As a scalar of YAML that no reader takes for something else."""
    if isinstance(text, bool):
        return "true" if text else "false"
    if not isinstance(text, str):
        return json.dumps(text)
    if re.fullmatch(r"[A-Za-z/^][^\n]*", text) and not re.search(r": |:$| #|^(true|false|null|yes|no|on|off|y|n)$", text, re.I):
        return text
    return "'" + text.replace("'", "''") + "'"


def yaml_lines(value, indent):
    """A map or a list as lines of YAML, in its order."""
    pad = " " * indent
    for key, inner in (value.items() if isinstance(value, dict) else ((None, item) for item in value)):
        head = pad + (f"{plain(key)}:" if key is not None else "-")
        if isinstance(inner, (dict, list)) and inner:
            below = list(yaml_lines(inner, indent + 2))
            if key is None:
                below[0] = f"{pad}- {below[0].lstrip()}"
            else:
                yield head
            yield from below
        elif key == "description":
            yield from textwrap.wrap(f"{key}: {plain(inner)}", 100, initial_indent=pad, subsequent_indent=pad + "  ",
                                     break_long_words=False, break_on_hyphens=False)
        else:
            yield f"{head} {plain(inner)}"


def crd_text(kinds, text):
    """The file of a CRD with the schemas of its versions; as it is where we have none."""
    kind = re.search(r"^    kind: (\w+)$", text, re.M).group(1)
    group = re.search(r"^  group: (\S+)$", text, re.M).group(1)
    out, version, skipping, ours = [], None, False, False
    for line in text.splitlines():
        if skipping and (not line.strip() or line.startswith(" " * 10)):
            continue
        skipping = False
        found = re.match(r"    - name: (\S+)$", line)
        version = f"{group}/{found.group(1)}" if found else version
        out.append(line)
        if line == "        openAPIV3Schema:":
            for one in kinds:
                message = next((m for m in one.messages if m.kind and (m.version, m.name) == (version, kind)), None)
                if message:
                    out += yaml_lines(one.schema(message), 10)
                    skipping = ours = True
    return "\n".join(out) + "\n" if ours else text


def page_text(kinds, text):
    def table(found):
        for one in kinds:
            message = one.find(found.group(1), None)
            if message:
                return "\n".join([found.group(0).split("\n")[0], "| field | type | meaning |", "|---|---|---|",
                                  *one.table(message), "<!-- end of fields -->"])
        sys.exit(f"docs/kinds: no message {found.group(1)} in deploy/kinds")
    return re.sub(r"<!-- fields (\w+) -->\n(?:.*\n)*?<!-- end of fields -->", table, text)


def main():
    if sys.argv[1:2] == ["--header"] and len(sys.argv) == 4:
        open(sys.argv[2], "w", encoding="utf-8").write(Kinds(sys.argv[3]).header())
        return
    if sys.argv[1:] not in (["--write"], ["--check"]):
        sys.exit(__doc__)
    kinds = [Kinds(path) for path in sorted(glob.glob(os.path.join(ROOT, "deploy/kinds/*.txt")))]
    wrong = False
    for pattern, make in (("deploy/crds/*.yaml", crd_text), ("docs/kinds/*.md", page_text)):
        for path in sorted(glob.glob(os.path.join(ROOT, pattern))):
            text = open(path, encoding="utf-8").read()
            made = make(kinds, text)
            if made == text:
                continue
            if sys.argv[1] == "--write":
                open(path, "w", encoding="utf-8").write(made)
            else:
                print(f"{os.path.relpath(path, ROOT)} is not what deploy/kinds says; run: make reference")
                wrong = True
    sys.exit(wrong)


main()
