#!/usr/bin/env python3
"""curves.py TABLE...: the samples of make soak (build/results/soak-DATE.tsv) as curves, an SVG on stdout.

One picture for each measure, side by side with the same of the other tables, each from 0 to the largest value that any has.
"""

import csv
import sys

WIDTH, HEIGHT, GAP = 300, 70, 34
UNITS = {"rss_mib": "resident memory, MiB", "fds": "descriptors", "threads": "threads", "files": "files",
         "store_mib": "store, MiB", "wal_mib": "write-ahead log, MiB",
         "objects": "objects in the store", "log_rows": "rows of its log"}
POINTS_MAX = 300


def read(path):
    """{measure: [(seconds, value)]}, thinned out."""
    with open(path) as f:
        rows = list(csv.DictReader(f, delimiter="\t"))
    rows = rows[::max(1, len(rows) // POINTS_MAX)]
    return {name: [(float(row["seconds"]), float(row[name])) for row in rows if row[name]] for name in UNITS}


def panel(x, y, points, most, title):
    end = points[-1][0] or 1
    most_seen = max(value for _, value in points)
    line = " ".join(f"{x + WIDTH * s / end:.1f},{y + HEIGHT - HEIGHT * value / most:.1f}" for s, value in points)
    return [f'<text x="{x}" y="{y - 6}">{title}: at most {most_seen:,.0f}, at the end {points[-1][1]:,.0f}</text>',
            f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#bbb"/>',
            f'<polyline points="{line}" fill="none" stroke="#06c" stroke-width="1.2"/>']


def main():
    tables = [read(path) for path in sys.argv[1:]]
    if not tables:
        sys.exit(__doc__)
    out = []
    for row, (name, title) in enumerate(UNITS.items()):
        most = max(value for table in tables for _, value in table[name]) or 1
        for column, table in enumerate(tables):
            out += panel(10 + column * (WIDTH + 20), 40 + row * (HEIGHT + GAP), table[name], most, title)
    heads = [f'<text x="{10 + i * (WIDTH + 20)}" y="16" font-weight="bold">{table["fds"][-1][0]:,.0f} seconds</text>'
             for i, table in enumerate(tables)]
    width, height = 10 + len(tables) * (WIDTH + 20), 40 + len(UNITS) * (HEIGHT + GAP)
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">')
    print(f'<rect width="{width}" height="{height}" fill="#fff"/>')
    print("\n".join(heads + out + ["</svg>"]))


if __name__ == "__main__":
    main()
