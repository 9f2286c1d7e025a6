#!/usr/bin/env python3
"""steps.py STEPS SECONDS [FOLDER]: stands for a training where PyTorch itself does not matter.

Every rank prints each step; rank 0 keeps the step in FOLDER/step (default /checkpoints), and all begin where it
was. MUSTER_TEST_FAIL_AT: the last rank ends with 3 at that step, once. MUSTER_TEST_MEET: after each step they wait for each
other, and end when one has gone, as those of a real training do.
"""

import os
import socket
import sys
import time


class Peers:
    """All ranks, by way of rank 0."""

    def __init__(self, rank, world):
        self.rank, address = rank, (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        if rank == 0:
            server = socket.create_server(("", address[1]))
            self.connections = [server.accept()[0] for _ in range(world - 1)]
            return
        while True:
            try:
                self.connections = [socket.create_connection(address)]
                return
            except OSError:
                time.sleep(0.05)  # it does not listen yet; torchrun ends whoever waits for nobody

    def meet(self):
        turns = (self.hear, self.tell) if self.rank == 0 else (self.tell, self.hear)
        for turn in turns:
            for connection in self.connections:
                turn(connection)

    @staticmethod
    def tell(connection):
        connection.sendall(b".")

    @staticmethod
    def hear(connection):
        if not connection.recv(1):
            raise ConnectionError("a peer has gone")


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
    peers = Peers(rank, world) if os.environ.get("MUSTER_TEST_MEET") else None
    for step in range(begin + 1, steps + 1):
        time.sleep(seconds)  # the work
        if peers:
            peers.meet()
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
