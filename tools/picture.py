#!/usr/bin/env python3
"""picture.py COMMAND...: run a command in a terminal of its own and write what it shows as an SVG to stdout.

    tools/picture.py tools/demo.py > docs/demo.svg

Knows what our programs print: bold, dim, green, a line that is overwritten. The terminal is 110 columns wide.
"""

import html
import os
import pty
import re
import sys

COLUMNS, LINE, WIDTH, MARGIN = 110, 17, 7.83, 14
CLASSES = {"1": "b", "2": "d", "32": "g"}


def watch(argv):
    """What the command writes to its terminal; its exit status must be 0."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.pop("NO_COLOR", None)
        os.environ.update(COLUMNS=str(COLUMNS), TERM="xterm")
        os.execvp(argv[0], argv)
    output = bytearray()
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # EIO: everybody has closed it
            break
        if not data:
            break
        output.extend(data)
    if os.waitpid(pid, 0)[1]:
        sys.exit(f"picture: {argv[0]} failed:\n{output.decode(errors='replace')[-2000:]}")
    return output.decode(errors="replace")


def shown(text):
    """The lines as they stand in the end: what was overwritten is gone."""
    for line in text.replace("\r\n", "\n").split("\n"):
        yield re.split(r"\r\033\[K", line)[-1]


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


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__.splitlines()[0])
    lines = list(shown(watch(sys.argv[1:])))
    while lines and not lines[-1].strip():
        lines.pop()
    while lines and not lines[0].strip():
        lines.pop(0)
    lines = [line[: COLUMNS + 40] for line in lines]
    width, height = COLUMNS * WIDTH + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" font-size="13"\n'
          'font-family="ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace" xml:space="preserve">\n'
          "<style>text{fill:#d8dee9}.b{font-weight:bold;fill:#fff}.d{fill:#7b8494}.g{fill:#8fce7a}</style>\n"
          '<rect width="100%" height="100%" rx="8" fill="#1d2129"/>')
    for number, line in enumerate(lines):
        if line.strip():
            print(f'<text x="{MARGIN}" y="{MARGIN + LINE * (number + 1) - 5}">{spans(line)}</text>')
    print("</svg>")


if __name__ == "__main__":
    main()
