#!/usr/bin/env python3
"""picture.py [--moving FILE] COMMAND...: run a command in a terminal of its own and write what it shows as an SVG to stdout.

    tools/picture.py --moving docs/demo-moving.svg tools/demo.py > docs/demo.svg

With --moving FILE the same run is written there as a picture in which each line appears when it did, over and over; where
nothing happened for more than PAUSE_S, that is how long it takes. Knows what our programs print: bold, dim, green, a line
that is overwritten. The terminal is 110 columns wide; a longer line goes on in the next.
"""

import fcntl
import html
import os
import pty
import re
import struct
import sys
import termios
import time

COLUMNS, LINE, WIDTH, MARGIN = 110, 17, 7.83, 14
CLASSES = {"1": "b", "2": "d", "32": "g"}
PAUSE_S = 1.2  # the longest of the moving picture
LAST_S = 6     # that its last line stays


def watch(argv):
    """What the command writes to its terminal, as (second, text); its exit status must be 0."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.pop("NO_COLOR", None)
        os.environ.update(COLUMNS=str(COLUMNS), TERM="xterm")
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
        os.execvp(argv[0], argv)
    began, pieces, rest = time.monotonic(), [], b""
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # EIO: everybody has closed it
            break
        if not data:
            break
        whole = (rest + data).rpartition(b"\n")
        rest = whole[2]
        pieces.append((time.monotonic() - began, (whole[0] + whole[1]).decode(errors="replace")))
    pieces.append((time.monotonic() - began, rest.decode(errors="replace")))
    if os.waitpid(pid, 0)[1]:
        sys.exit(f"picture: {argv[0]} failed:\n" + "".join(text for _, text in pieces)[-2000:])
    return pieces


def wrapped(line):
    """The line in pieces that fit; what sets a style takes no room."""
    row, count = "", 0
    for part in re.split(r"(\033\[[0-9;]*m)", line.rstrip()):
        if part.startswith("\033"):
            row += part
            continue
        while count + len(part) > COLUMNS:
            yield row + part[:COLUMNS - count]
            row, part, count = "", part[COLUMNS - count:], 0
        row, count = row + part, count + len(part)
    yield row


def shown(pieces):
    """The lines as they stand in the end, each with its second: what was overwritten is gone."""
    rows = []
    for second, text in pieces:
        for line in text.replace("\r\n", "\n").split("\n")[:-1]:
            rows += [(second, row) for row in wrapped(re.split(r"\r\033\[K", line)[-1])]
    while rows and not rows[-1][1].strip():
        rows.pop()
    while rows and not rows[0][1].strip():
        rows.pop(0)
    return rows


def hurried(rows):
    """The same rows, with the second of the moving picture at which each appears."""
    now, before = 0.0, rows[0][0]
    for second, line in rows:
        now, before = now + min(second - before, PAUSE_S), second
        yield now, line


def spans(line):
    """A line as SVG text: each stretch of one style a tspan."""
    style, out = "", []
    for part in re.split(r"(\033\[[0-9;]*m)", line):
        code = re.fullmatch(r"\033\[([0-9;]*)m", part)
        if code:
            style = CLASSES.get(code[1], "")
        elif part:
            out.append(f'<tspan class="{style}">{html.escape(part)}</tspan>' if style else html.escape(part))
    return "".join(out)


def columns(line):
    return len(re.sub(r"\033\[[0-9;]*m", "", line))


def picture(rows, out, moving):
    width, height = COLUMNS * WIDTH + 2 * MARGIN, len(rows) * LINE + 2 * MARGIN
    whole = rows[-1][0] + LAST_S
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" font-size="13"\n'
          'font-family="ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace" xml:space="preserve">\n'
          "<style>text{white-space:pre;fill:#d8dee9}.b{font-weight:bold;fill:#fff}.d{fill:#7b8494}.g{fill:#8fce7a}</style>\n"
          '<rect width="100%" height="100%" rx="8" fill="#1d2129"/>', file=out)
    for number, (second, line) in enumerate(rows):
        if not line.strip():
            continue
        appears = (f'<animate attributeName="opacity" calcMode="discrete" values="0;1" keyTimes="0;{second / whole:.4f}"'
                   f' dur="{whole:.1f}s" repeatCount="indefinite"/>' if moving and second > 0 else "")
        # The length is said: another font than the one that was reckoned with must not leave at the right.
        print(f'<text x="{MARGIN}" y="{MARGIN + LINE * (number + 1) - 5}" textLength="{columns(line) * WIDTH:.1f}"'
              f' lengthAdjust="spacingAndGlyphs">{spans(line)}{appears}</text>', file=out)
    print("</svg>", file=out)


def main():
    argv, moving = sys.argv[1:], None
    if argv[:1] == ["--moving"]:
        moving, argv = argv[1], argv[2:]
    if not argv:
        sys.exit(__doc__.splitlines()[0])
    rows = list(hurried(shown(watch(argv))))
    picture(rows, sys.stdout, False)
    if moving:
        with open(moving, "w") as out:
            picture(rows, out, True)


if __name__ == "__main__":
    main()
