"""What the pages for newcomers say can be typed."""

import os
import re

from harness import ROOT, BUILD, check, run
from test_plugin_commands import need_torch
from test_run import Own


def rows(page, header):
    """Second column of the table under the header that begins so: what stands in backquotes."""
    with open(os.path.join(ROOT, "docs", page)) as f:
        text = f.read()
    table = text[text.index(header):].split("\n\n")[0].splitlines()[2:]
    return [re.fullmatch(r"`(.*)`", line.split("|")[2].strip())[1] for line in table]


def test_every_line_of_the_slurm_page():
    need_torch()
    with Own() as own:
        own.write("train.py", "open('model', 'w').write('x')\n")
        own.write("eval.py", "open('model').read()\n")
        own.write("long.py", "import time\ntime.sleep(600)\n")
        env = dict(own.env, PATH=f"{BUILD}:{own.env['PATH']}")
        lines = rows("from-slurm.md", "| Slurm | Muster |")
        check(len(lines) >= 12, f"{lines}")
        said = {line: run(["sh", "-c", line], env=env, cwd=own.project, limit=180).stdout for line in lines}
        listed = said["muster history"]
        check(re.search(r"exp +default +1 +Succeeded +0 ", listed), listed)
        check(re.search(r"long +default +1 +Cancelled", listed), listed)
        check(all(len(line) <= 80 for line in listed.splitlines()), f"it fits a terminal: {listed}")
        for flags in rows("from-slurm.md", "| `#SBATCH` |"):
            size = "" if "--gpus" in flags else "--gpus 1"
            flags = flags.replace("NVIDIA-H100", "Pretend-GPU")  # the type that is here; others are refused
            run(["sh", "-c", f"muster submit --dry-run {size} {flags} 'python train.py'"], env=env, cwd=own.project)
