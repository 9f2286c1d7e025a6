#!/usr/bin/env python3
"""steps.py STEPS SECONDS [FOLDER]: stands for a training where PyTorch itself does not matter.

Every rank prints each step; rank 0 keeps the step in FOLDER/step (default /checkpoints), and all begin where it
was. MUSTER_TEST_FAIL_AT: the last rank ends with 3 at that step, once.
"""

import os
import sys
import time


def main():
    steps, seconds = int(sys.argv[1]), float(sys.argv[2])
    folder = sys.argv[3] if len(sys.argv) > 3 else "/checkpoints"
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    mark = os.path.join(folder, "step")
    begin = 0
    fail_at = int(os.environ.get("MUSTER_TEST_FAIL_AT", "0"))
    first = os.environ.get("MUSTER_GENERATION", "0") == "0"
    # The one that is to fail must not begin where rank 0 is by now.
    if os.path.exists(mark) and not (fail_at and first):
        with open(mark) as f:
            begin = int(f.read())
        print(f"resumed at step {begin} of {steps}, rank {rank} of {world}", flush=True)
    for step in range(begin + 1, steps + 1):
        time.sleep(seconds)  # the work
        print(f"step {step}/{steps} rank {rank} of {world}", flush=True)
        if rank == 0:
            with open(mark + ".new", "w") as f:
                f.write(str(step))
            os.rename(mark + ".new", mark)
        if step == fail_at and rank == world - 1 and begin == 0:
            print("failing now", flush=True)
            sys.exit(3)
    print(f"done: {steps} steps, rank {rank} of {world}", flush=True)


if __name__ == "__main__":
    main()
