"""Whether the GPUs of this container compute what they should: selftest.py GPUS MIB [RANK FOLDER].

Without a rank it starts one process a card and waits for all of them; the last line that it prints is
the answer. 0: all is right. 1: something is not. 3: it cannot be found out here."""

import os
import subprocess
import sys
import tempfile
import time

CANNOT = 3
SIDE = 2048  # sums of so many ones are exact in half precision
CHUNK = 1 << 25  # words of eight bytes that are checked at a time


def end(status, text):
    print(text, flush=True)
    sys.exit(status)


def memory(torch, device, mib):
    free, _ = torch.cuda.mem_get_info(device)
    left = free * 4 // 5
    if mib:
        left = min(left, mib << 20)
    # What is compared with needs room, too.
    count = max(1, left // (CHUNK * 8) - 3)
    base = torch.arange(CHUNK, dtype=torch.int64, device=device) * -7046029254386353131
    chunks = [base + i for i in range(count)]
    for flip in (False, True):
        for i, chunk in enumerate(chunks):
            if flip:
                chunk.bitwise_not_()
            want = (base + i).bitwise_not_() if flip else base + i
            if not torch.equal(chunk, want):
                return "memory did not keep what was written to it"
    return None


def products(torch, device):
    make = torch.Generator().manual_seed(26)
    small = torch.randint(0, 2, (SIDE, SIDE), generator=make)
    large = torch.randint(0, 4, (SIDE, SIDE), generator=make)
    x = torch.randint(1, 100, (SIDE, 1), generator=make).to(device, torch.float64)
    for dtype in (torch.float32, torch.float16):
        a = (large if dtype == torch.float32 else small).to(device, dtype)
        b = small.to(device, dtype)
        want = a.double() @ (b.double() @ x)
        for _ in range(20):
            if not torch.equal((a @ b).double() @ x, want):
                return "a product of matrices is wrong (%s)" % str(dtype)[6:]
    return None


def reduced(torch, device, gpus, rank, folder):
    import datetime
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_nccl_available():
        return None
    dist.init_process_group("nccl", init_method="file://%s/store" % folder, rank=rank, world_size=gpus,
                            timeout=datetime.timedelta(seconds=90))
    numbers = torch.full((1 << 20,), rank + 1, dtype=torch.int64, device=device)
    for _ in range(5):
        mine = numbers.clone()
        dist.all_reduce(mine)
        if not bool((mine == gpus * (gpus + 1) // 2).all()):
            return "the sum of an all-reduce is wrong"
    dist.destroy_process_group()
    return None


def rank_main(gpus, mib, rank, folder):
    try:
        import torch
    except Exception as e:  # a broken torch is not the card's fault
        end(CANNOT, "GPUs were not tested: %s" % e)
    seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if seen == 0:
        end(CANNOT, "GPUs were not tested: this torch sees none")
    if seen <= rank:
        # Before a gang the number is what its pod asked for: shares and slices of time may be one card.
        end(CANNOT if mib else 1, "GPU %d of %d is not there" % (rank, gpus))
    try:
        device = torch.device("cuda", rank)
        torch.cuda.set_device(device)
        wrong = (memory(torch, device, mib) or products(torch, device)
                 or reduced(torch, device, gpus, rank, folder))
        torch.cuda.synchronize(device)
    except Exception as e:
        wrong = str(e).strip().split("\n")[0]
        if "out of memory" in wrong:
            end(CANNOT, "GPU %d was not tested: %s" % (rank, wrong[:200]))
    end(1 if wrong else 0, "GPU %d: %s" % (rank, (wrong or "all is right")[:300]))


def main(gpus, mib):
    with tempfile.TemporaryDirectory(prefix="muster-test-") as folder:
        command = [sys.executable, os.path.abspath(__file__), str(gpus), str(mib)]
        ranks = [subprocess.Popen(command + [str(rank), folder], stdout=open("%s/%d" % (folder, rank), "w"))
                 for rank in range(gpus)]
        worst = 0
        while worst == 0 and any(rank.poll() is None for rank in ranks):
            worst = next((rank.poll() for rank in ranks if rank.poll()), 0)
            time.sleep(0.05)
        worst = worst or next((rank.returncode for rank in ranks if rank.returncode), 0)
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()
            rank.wait()
        if worst == 0:
            return 0, "%d GPU%s: memory, products of matrices and an all-reduce are right" % (gpus, "s"[:gpus != 1])
        culprit = next(i for i, rank in enumerate(ranks) if rank.returncode == worst)
        with open("%s/%d" % (folder, culprit)) as f:
            said = f.read().strip().split("\n")[-1]
        # Whoever is killed by a signal (NCCL and CUDA abort) says nothing on stdout.
        return (CANNOT if worst == CANNOT else 1), said or "GPU %d: its test ended with status %d" % (culprit, worst)


if __name__ == "__main__":
    if len(sys.argv) > 3:
        rank_main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    try:
        answer = main(int(sys.argv[1]), int(sys.argv[2]))
    except OSError as error:  # no folder for it, no process
        answer = (CANNOT, "GPUs were not tested: %s" % error)
    end(*answer)
