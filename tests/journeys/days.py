"""Ordinary days. Written from what people do with torchrun, pip and Slurm; each says what the person must find at the end."""

import os
import re
import signal
import textwrap

from journey import Skip, binary, check, wait_for


def journey(quick=False):
    def mark(function):
        function.journey, function.quick = True, quick
        return function
    return mark


def text(words):
    return textwrap.dedent(words).lstrip("\n")


DDP = text("""
    import os
    import torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    dist.init_process_group("gloo")
    model = DDP(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(5):
        optimizer.zero_grad()
        loss = model(torch.ones(8, 4)).pow(2).mean()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    if dist.get_rank() == 0:
        os.makedirs("out", exist_ok=True)
        torch.save(model.module.state_dict(), "out/model.pt")
    dist.destroy_process_group()
""")


@journey(quick=True)
def the_first_quarter_of_an_hour(day):
    """From torchrun --nproc-per-node 2 train.py: the words of torchrun do, the loss is seen, the model is there."""
    day.write("train.py", DDP)
    said = day.muster("list", ok=False).all
    check("run train.py" in said, f"list before the first job says what to type: {said}")
    done = day.muster("run", "--nproc-per-node", "2", "train.py")
    check("step 4 loss" in done.stdout, done.all)
    check(day.there("out/model.pt"), f"the model is in the folder: {done.all}")
    check("simulated" in done.all and "CPU" in done.all, f"that there is no GPU is said: {done.all}")
    listed = day.muster("ls").stdout
    check("python train.py" in listed, f"list names the command: {listed}")
    check("step 0" in day.muster("logs").stdout, "logs without a name are those of the newest job")
    few = day.muster("log", "-n1").stdout
    check(few.strip() and "step 0" not in few, f"-n1 is one line: {few!r}")
    said = day.fails("logs", "--rank", "5").all
    check("2 ranks" in said, f"there is no rank 5: {said}")


@journey(quick=True)
def a_typo_in_the_program(day):
    """A name that does not exist: tried once more at most, and the traceback is what stands at the end, once."""
    day.write("train.py", "import torch\nmodel = torch.nn.Linear(2, 2)\nprint(modle)\n")
    done = day.fails("run", "--gpus", "2", "train.py")
    tries = done.stdout.count("NameError: name 'modle' is not defined") / 2
    check(1 <= tries <= 2, f"it was tried {tries} times: {done.all}")
    end = done.all[-1500:]
    check("NameError: name 'modle' is not defined" in end.strip().splitlines()[-1], f"the cause is not the last word: {end}")
    check("ChildFailedError" not in done.all and "FAILED" not in end, f"torchrun's own report buries it: {end}")
    check(done.all.count("Root Cause") == 0, f"nor its table: {end}")
    check(day.fails("run", "trian.py").all.count("trian.py") and "trian.py" not in day.muster("list").all,
          "a script that is not there is not queued")


@journey(quick=True)
def images_with_loader_workers(day):
    """A DataLoader with workers hands batches of images over: as much shared memory as there is memory."""
    day.write("data.py", text("""
        import torch
        class Images(torch.utils.data.Dataset):
            def __len__(self):
                return 64
            def __getitem__(self, i):
                return torch.full((3, 512, 512), float(i)), i % 10
    """))
    day.write("train.py", text("""
        import torch
        from data import Images
        if __name__ == "__main__":
            loader = torch.utils.data.DataLoader(Images(), batch_size=16, num_workers=2, prefetch_factor=2)
            seen = sum(len(labels) for _, labels in loader)
            print("images", seen, flush=True)
    """))
    done = day.muster("run", "train.py")
    check("images 64" in done.stdout, done.all)


@journey(quick=True)
def a_progress_bar(day):
    """tqdm at a terminal: the bar moves while it runs, and a file of the output has its last state only."""
    day.write("train.py", text("""
        import sys, time, os
        for i in range(1, 31):
            sys.stderr.write(f"\\rEpoch 1: {i * 100 // 30:3d}%|{'#' * (i // 3):10s}| {i}/30")
            sys.stderr.flush()
            time.sleep(0.1)
            if i == 20:
                while not os.path.exists(os.path.join(os.environ["JOURNEY_FLAG"])):
                    time.sleep(0.1)
        sys.stderr.write("\\n")
        print("done", flush=True)
    """))
    flag = os.path.join(day.shared, "flag")
    screen = day.terminal("run", "--write", day.shared, "--env", f"JOURNEY_FLAG={flag}", "train.py")
    screen.until("20/30")  # nothing of it has a newline yet
    open(flag, "w").close()
    check(screen.end() == 0, screen.text)
    check("30/30" in screen.text and "done" in screen.text, screen.text)
    done = day.muster("run", "--write", day.shared, "--env", f"JOURNEY_FLAG={flag}", "train.py")
    check(done.all.count("Epoch 1:") == 1 and "30/30" in done.all, f"a file is not filled with bars: {done.all}")


@journey(quick=True)
def somebodys_slurm_script(day):
    """A batch script with #SBATCH lines runs once, with its torchrun, its name, and what it does not do here is named."""
    day.write("train.py", DDP)
    day.write("train.sh", text("""
        #!/bin/bash
        #SBATCH --job-name=resnet
        #SBATCH --partition=gpu
        #SBATCH --nodes=1
        #SBATCH --gpus-per-node=2
        #SBATCH --cpus-per-task=1
        #SBATCH --time=01:00:00
        #SBATCH --output=%x-%j.out
        set -e
        cd "$SLURM_SUBMIT_DIR"
        mkdir -p "logs/$SLURM_JOB_ID-$SLURM_JOB_NAME-$SLURM_CPUS_PER_TASK"
        date > "logs/$SLURM_JOB_ID-$SLURM_JOB_NAME-$SLURM_CPUS_PER_TASK/began"
        export OMP_NUM_THREADS=1
        python -m torch.distributed.run --nproc_per_node=$SLURM_GPUS_ON_NODE train.py
    """), 0o755)
    done = day.muster("run", "train.sh")
    check(done.stdout.count("step 4 loss") == 1, f"once: {done.all}")
    check("--partition=gpu" in done.stderr, f"what is not read is named: {done.stderr}")
    check("resnet" in day.muster("list").stdout, "its name is that of the script")
    check(day.there("out/model.pt"), done.all)
    check(day.there("logs/resnet-resnet-1/began"), f"its id, name and folder: {done.all}")
    day.write("old.sh", "#!/bin/bash\n#SBATCH --gpus=2\nsrun python train.py\n")
    check("srun" in day.fails("run", "old.sh").all, "srun is said to be missing before anything waits")


@journey(quick=True)
def what_cannot_be_had(day):
    """More memory, GPUs or another GPU than there is: said at once."""
    day.write("train.py", "print('hello')\n")
    for flags, word in ((("--gpus", "16"), "16"), (("--memory", "64000Gi"), "memory"), (("--gpu-type", "B200"), "B200")):
        said = day.fails("run", *flags, "train.py").all
        check(word in said and "no node" in said or "more than" in said, f"{flags}: {said}")
    check("no jobs" in day.muster("list").all, "nothing waits for ever")
    said = day.fails("run", "--nodes", "2", "train.py").all
    check("--gpus" in said, f"--nodes points to the word: {said}")
    done = day.muster("run", "--name", "My Job", "train.py")
    check("my-job" in done.stderr and "hello" in done.stdout, done.all)


@journey()
def a_scratch_folder_with_a_long_name(day):
    """TMPDIR as clusters set it: its name is long, and it need not be there where the job runs."""
    day.write("train.py", "import os, tempfile\nprint('hello from', os.getpid())\n")
    for scratch in ("/scratch/students/of/the/department/of/informatics/2026/winter/" + "x" * 40,
                    os.path.join(day.folder, "y" * 60)):
        done = day.muster("run", "--env", f"TMPDIR={scratch}", "train.py")
        check("hello from" in done.stdout, done.all)


@journey()
def a_signal_to_save_now(day):
    """SIGUSR1 asks a training to save, as sbatch --signal does; it goes on, and nobody starts again."""
    day.write("train.py", text("""
        import signal, time, os
        asked = []
        signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
        print("ready", flush=True)
        while not asked:
            time.sleep(0.05)
        open("saved", "w").write("yes")
        print("saved", flush=True)
    """))
    job = day.begin("run", "--name", "saver", "train.py")
    job.until("ready")
    day.muster("exec", "saver", "--", "kill", "-USR1", "1")
    check(job.end() == 0, job.said())
    check(job.said().count("ready") == 1 and day.read("saved") == "yes", job.said())


@journey()
def a_helper_that_never_ends(day):
    """A monitor in the background that writes for ever keeps nobody's training alive."""
    day.write("train.sh", text("""
        (while true; do echo beat; done) &
        python -c "print('trained')"
    """))
    done = day.muster("run", "--name", "beat", "--", "bash train.sh > out.txt; (yes > /dev/stderr &) ; echo trained")
    check("trained" in done.stdout, done.all[-2000:])


@journey()
def a_package_with_configs(day):
    """A repository: python -m package.train with a config, data behind a link that git does not know, junk that is ignored."""
    data = os.path.join(day.folder, "datasets")
    os.mkdir(data)
    with open(os.path.join(data, "numbers.txt"), "w") as f:
        f.write("1\n2\n3\n")
    day.write("vision/__init__.py", "")
    day.write("vision/models.py", "def total(path):\n    return sum(int(line) for line in open(path))\n")
    day.write("vision/train.py", text("""
        import argparse, json, os
        from .models import total
        if __name__ == "__main__":
            p = argparse.ArgumentParser()
            p.add_argument("--config")
            config = json.load(open(p.parse_args().config))
            print("total", total("data/numbers.txt") * config["scale"], flush=True)
            print("junk", os.path.exists("wandb/huge.bin"), flush=True)
            os.makedirs("runs", exist_ok=True)
            open("runs/metrics.json", "w").write(json.dumps({"total": 1}))
    """))
    day.write("configs/small.json", '{"scale": 2}')
    day.write(".gitignore", "data\nwandb/\nruns/\n__pycache__/\n")
    day.write("wandb/huge.bin", "x" * 100000)
    os.symlink(data, os.path.join(day.project, "data"))
    day.type("git", "init", "-q", ".")
    done = day.muster("run", "-m", "vision.train", "--config", "configs/small.json")
    check("total 12" in done.stdout and "junk False" in done.stdout, done.all)
    check(day.there("runs/metrics.json"), f"what it wrote into an ignored folder is there: {done.all}")


@journey(quick=True)
def what_a_program_caches(day):
    """Libraries keep things below the home folder; keys that are set here and not passed are spoken of."""
    day.write("train.py", text("""
        import os
        for path in ("~/.cache/huggingface/hub", os.environ.get("TRITON_CACHE_DIR", "~/.triton/cache"),
                     os.environ.get("MPLCONFIGDIR", "~/.config/matplotlib")):
            path = os.path.expanduser(path)
            os.makedirs(path, exist_ok=True)
            open(os.path.join(path, "kept"), "w").write("x")
        print("cached", "WANDB_API_KEY" in os.environ, flush=True)
    """))
    done = day.muster("run", "train.py", env={"WANDB_API_KEY": "secret"})
    check("cached False" in done.stdout, done.all)
    check("--env WANDB_API_KEY" in done.stderr and "secret" not in done.all, done.stderr)
    done = day.muster("run", "--env", "WANDB_API_KEY", "train.py", env={"WANDB_API_KEY": "secret"})
    check("cached True" in done.stdout and "note: WANDB" not in done.stderr, done.all)


@journey()
def a_virtual_environment(day):
    """What pip put into the environment that is active here is there in the job."""
    env = os.path.join(day.folder, "env")
    day.type(day.python, "-m", "venv", "--system-site-packages", "--without-pip", env)
    where = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    site = day.type(os.path.join(env, "bin", "python"), "-c", where).stdout.strip()
    with open(os.path.join(site, "ourlayers.py"), "w") as f:
        f.write("name = 'ours'\n")
    day.write("train.py", "import ourlayers, sys\nprint('layers', ourlayers.name, sys.prefix, flush=True)\n")
    torch = day.type(day.python, "-c", "import torch, os; print(os.path.dirname(os.path.dirname(torch.__file__)))").stdout.strip()
    done = day.muster("run", "train.py", env={"VIRTUAL_ENV": env, "PATH": f"{env}/bin:{day.env['PATH']}", "PYTHONPATH": torch})
    check(f"layers ours {env}" in done.stdout, done.all)


@journey()
def a_checkpoint_every_epoch(day):
    """A rank is killed in the middle, as by the kernel: the training starts again and goes on from its checkpoint."""
    day.write("train.py", text("""
        import os, signal, torch
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        folder = os.environ.get("CHECKPOINT_DIR") or "."
        path, first = os.path.join(folder, "last.pt"), 0
        if os.path.exists(path):
            first = torch.load(path)["epoch"] + 1
        print("begins at epoch", first, flush=True)
        for epoch in range(first, 6):
            optimizer.zero_grad()
            model(torch.ones(2)).sum().backward()
            optimizer.step()
            torch.save({"epoch": epoch, "model": model.state_dict()}, path + ".new")
            os.replace(path + ".new", path)
            if epoch == 3 and first == 0 and not os.path.exists(os.environ["ONCE"]):
                open(os.environ["ONCE"], "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
        print("finished", flush=True)
    """))
    done = day.muster("run", "--write", day.shared, "--env", f"ONCE={day.shared}/killed", "train.py")
    check("finished" in done.stdout, done.all)
    check(done.stdout.count("begins at epoch") == 2, done.all)
    check(day.there("last.pt"), done.all)


@journey(quick=True)
def two_runs_from_one_folder(day):
    """Two at once: both run, and both have their results."""
    day.write("train.py", "import sys\nopen(f'result-{sys.argv[1]}.txt', 'w').write(sys.argv[1])\n"
              "print('run', sys.argv[1], flush=True)\n")
    jobs = [day.begin("run", "--name", f"r{i}", "train.py", str(i)) for i in range(2)]
    for i, job in enumerate(jobs):
        check(job.end() == 0 and f"run {i}" in job.said(), job.said())
        check(day.read(f"result-{i}.txt") == str(i), "its result is here")


@journey()
def edits_while_it_runs(day):
    """I go on editing: the job runs what was sent, and my file stays as I have it."""
    flag = os.path.join(day.shared, "flag")
    day.write("train.py", "import os, time\nprint('version 1', flush=True)\nwhile not os.path.exists(%r):\n    time.sleep(0.1)\n"
              "print(open('train.py').read().count('edited'), 'edits', flush=True)\n" % flag)
    job = day.begin("run", "--write", day.shared, "train.py")
    job.until("version 1")
    with open(os.path.join(day.project, "train.py"), "a") as f:
        f.write("# edited\n")
    open(flag, "w").close()
    check(job.end() == 0 and "0 edits" in job.said() or "1 edits" in job.said(), job.said())
    check(day.read("train.py").endswith("# edited\n"), "my edit is there")


@journey()
def a_closed_terminal(day):
    """The laptop is shut: the training goes on, is found again without its name, and its model comes home."""
    flag = os.path.join(day.shared, "flag")
    day.write("train.py", "import os, time\nprint('begun', flush=True)\nwhile not os.path.exists(%r):\n    time.sleep(0.1)\n"
              "open('model.pt', 'w').write('weights')\nprint('ended', flush=True)\n" % flag)
    screen = day.terminal("run", "--write", day.shared, "train.py")
    screen.until("begun")
    screen.close()
    screen.process.wait(60)
    check("Running" in day.muster("ps").stdout, "it runs on")
    open(flag, "w").close()
    check(day.muster("wait").returncode == 0, "wait means the newest")
    check("ended" in day.muster("logs").stdout, "logs too")
    day.muster("pull", "--home")
    check(day.there("model.pt"), "the model is home")


@journey()
def no_space_is_left(day):
    """A checkpoint that the disk does not take: the reason is the last that I read."""
    day.write("train.py", "import torch\nwith open('/dev/full', 'wb', buffering=0) as f:\n    f.write(b'x' * 4096)\n")
    done = day.fails("run", "--max-restarts", "0", "train.py")
    check("No space left on device" in done.all[-1500:], done.all)


@journey()
def too_little_memory(day):
    """A job that takes more than its memory is told so, and not four times in other words."""
    day.write("train.py", "x = bytearray(3 << 30)\nprint(len(x), flush=True)\n")
    done = day.fails("run", "--gpus", "8", "--max-restarts", "0", "--memory", "4Gi", "train.py")
    if "control groups" in done.all:
        raise Skip("there are no control groups here")
    check("memory" in done.all.lower() or "OOM" in done.all, done.all)


@journey()
def a_notebook_server(day):
    """A server in a job: its address answers from the browser of this machine, and kill ends it."""
    day.write("serve.sh", "exec python -m http.server 8899 --bind 0.0.0.0\n")
    day.write("index.html", "a notebook\n")
    day.muster("run", "--detach", "--name", "nb", "--", "python -m http.server 8899 --bind 0.0.0.0")
    wait_for(lambda: "http://" in day.muster("open", "nb", "8899", ok=False).stdout, "the address", 120)
    url = day.muster("open", "nb", "8899").stdout.strip()
    import urllib.request
    check(b"a notebook" in urllib.request.urlopen(url + "/index.html", timeout=20).read(), url)
    said = day.muster("kill", "nb").all
    check("nb" in said, said)


@journey()
def changed_my_mind(day):
    """A job that waits in line is taken back: nothing was lost, and nobody asks about it."""
    day.write("long.py", "import time\nprint('holds', flush=True)\ntime.sleep(600)\n")
    first = day.begin("run", "--gpus", "8", "--name", "holder", "long.py")
    first.until("holds")
    day.muster("run", "--gpus", "8", "--detach", "--name", "waiter", "long.py")
    said = day.muster("explain", "default/waiter").all
    check("GPU" in said, said)
    done = day.muster("cancel")
    check("waiter" in done.all and "destroy" not in done.all and "wrote" not in done.all, done.all)
    check("waiter" not in day.muster("list").stdout and "holder" in day.muster("list").stdout, "only that one is gone")


@journey()
def a_setup_line_and_a_module(day):
    """--setup exports what the training needs, as lines in a batch script do."""
    day.write("train.py", "import os\nprint('flag', os.environ['FLAG'], flush=True)\n")
    done = day.muster("run", "--setup", "export FLAG=up", "train.py")
    check("flag up" in done.stdout, done.all)


@journey()
def help_in_a_narrow_window(day):
    """Every --help fits 80 columns, also in a file."""
    words = re.findall(r"^  ([a-z-]+)  ", day.muster("--help").stdout, re.MULTILINE)
    check(len(words) > 20, f"{words}")
    for word in words:
        if word in ("version", "completion"):
            continue
        wide = [line for line in day.muster(word, "--help").stdout.splitlines() if len(line) > 80 and len(line.split()) > 3]
        check(not wide, f"{word}: {wide[:2]}")


@journey()
def an_array_of_seeds(day):
    """sbatch --array: each has its index, and each result is in its own place."""
    day.write("train.py", "import os\ni = os.environ['SLURM_ARRAY_TASK_ID']\nopen('seed.txt', 'w').write(i)\n"
              "print('seed', i, flush=True)\n")
    day.muster("run", "--array", "0-1", "--name", "sweep", "train.py")
    for i in range(2):
        check(day.read(f"sweep-{i}/seed.txt") == str(i), f"{os.listdir(day.project)}")


@journey()
def the_page(day):
    """The link of the web page is printed, and signs in at the muster of `run`."""
    day.write("train.py", "print('hello')\n")
    screen = day.terminal("run", "train.py")
    screen.until("/ui/enter#")
    check(screen.end() == 0, screen.text)
    check("/ui/enter#" in day.muster("open", "--print").stdout, "open finds it")
