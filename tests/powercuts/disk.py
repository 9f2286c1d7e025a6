"""disk.py: a disk that is given what the recorder wrote down, and says what a power cut could leave of it.

What was synced is there. Of the contents that were not, any part may be, in any order, down to single sectors of 512 bytes. Of
the names that were not, the first so many of each folder are: file systems write these in order. A file's sync does not bring its
name; a folder's does.
"""

import os

SECTOR = 512


class Inode:
    def __init__(self, content=None):
        self.content = content  # None: a folder
        self.pending = []       # ("write", at, bytes) or ("truncate", size)


def applied(content, change):
    if change[0] == "truncate":
        return content[:change[1]].ljust(change[1], b"\0")
    _, at, data = change
    return content[:at].ljust(at, b"\0") + data + content[at + len(data):]


class Disk:
    """Names are paths below the folder; what is there at the start is safe."""

    def __init__(self, folder):
        self.names, self.pending = {}, []  # pending: (folder, what, path, inode or path)
        self.by_number = {os.stat(folder).st_ino: ("", Inode())}
        for where, folders, files in os.walk(folder):
            for name in folders + files:
                path = os.path.join(where, name)
                content = None
                if name in files:
                    if not os.path.isfile(path):
                        continue
                    with open(path, "rb") as f:
                        content = f.read()
                self.names[os.path.relpath(path, folder)] = inode = Inode(content)
                self.by_number[os.stat(path).st_ino] = (os.path.relpath(path, folder), inode)

    def take(self, record):
        what, numbers, data = record
        if what in ("create", "folder"):
            path = data.decode()
            inode = Inode(b"" if what == "create" else None)
            self.by_number[numbers[0]] = (path, inode)
            self.pending.append((os.path.dirname(path), "link", path, inode))
        elif what in ("write", "truncate"):
            inode = self.by_number[numbers[0]][1]
            inode.pending.append(("write", numbers[1], data) if what == "write" else ("truncate", numbers[1]))
        elif what == "rename":
            old, new = data.decode().split("\n")
            self.pending.append((os.path.dirname(new), "rename", old, new))
            for number, (path, inode) in list(self.by_number.items()):
                if path == old or path.startswith(old + "/"):
                    self.by_number[number] = (new + path[len(old):], inode)
        elif what == "remove":
            self.pending.append((os.path.dirname(data.decode()), "remove", data.decode(), None))
        elif what == "sync":
            path, inode = self.by_number[numbers[0]]
            for change in inode.pending:
                inode.content = applied(inode.content, change)
            inode.pending = []
            # Only a folder has names of its own; a file is none's folder.
            mine = [p for p in self.pending if p[0] == path]
            self.pending = [p for p in self.pending if p[0] != path]
            self.names = renamed(self.names, mine)

    def image(self, names, contents):
        """{path: content}; names(pending) says which of the pending names are there, contents(inode) what is in a file."""
        found = renamed(dict(self.names), names(self.pending))
        return {path: contents(inode) if inode.content is not None else None for path, inode in found.items()
                if all(parent in found for parent in parents(path))}


def parents(path):
    while (path := os.path.dirname(path)):
        yield path


def renamed(names, changes):
    for _, what, path, other in changes:
        if what == "link":
            names[path] = other
        elif what == "remove":
            names.pop(path, None)
        elif path in names:
            for name in [n for n in names if n == path or n.startswith(path + "/")]:
                names[other + name[len(path):]] = names.pop(name)
    return names


def all_of(pending):
    return pending


def none_of(pending):
    return []


def first_of(rng):
    """The first so many of each folder."""
    def choose(pending):
        counts = {folder: rng.randint(0, sum(p[0] == folder for p in pending)) for folder in sorted({p[0] for p in pending})}
        taken = []
        for change in pending:
            if counts[change[0]] > 0:
                counts[change[0]] -= 1
                taken.append(change)
        return taken
    return choose


def whole(inode):
    content = inode.content
    for change in inode.pending:
        content = applied(content, change)
    return content


def synced(inode):
    return inode.content


def torn(rng):
    """Any of the writes, and of one of them any of its sectors."""
    def choose(inode):
        content = inode.content
        bad = rng.randrange(len(inode.pending)) if inode.pending else -1
        for index, change in enumerate(inode.pending):
            if change[0] == "write" and index == bad:
                at, data = change[1], change[2]
                first = -at % SECTOR
                for start in [0] + list(range(first or SECTOR, len(data), SECTOR)):
                    end = first if start == 0 and first else start + SECTOR
                    if rng.random() < 0.5:
                        content = applied(content, ("write", at + start, data[start:end]))
            elif rng.random() < 0.5:
                content = applied(content, change)
        return content
    return choose


def read_log(path):
    """(what, numbers, bytes) of each record."""
    with open(path, "rb") as f:
        while line := f.readline():
            what, *numbers = line.split()
            numbers = [int(n) for n in numbers]
            yield what.decode(), numbers[:-1], f.read(numbers[-1])
