"""Jobs with the frameworks themselves: mpirun, XGBoost, JAX, TensorFlow, Paddle, and torchrun that is scaled while it runs. What
this machine does not have is skipped, and the line says what to install."""

import os
import re
import shutil

from harness import (PORT_OF_PYTORCHJOBS, PORT_OF_TRAINJOBS, Muster, Skip, apart, check, python_of_ranks, python_with,
                     torch_pythons, wait_for)
from kubeflow import KINDS, create, job, pods, status, wait_condition

NODES = ("--cpus-per-node", "64", "--memory-per-node", "64Gi")


def with_commands(body, chief, worker, **env):
    """A job of kubeflow.py with these argv's and the same environment in every pod."""
    _, member, title, _ = KINDS[body["kind"]]
    for role, command in ((title, chief), ("Worker", worker)):
        if role:
            main = body["spec"][member][role]["template"]["spec"]["containers"][0]
            main["command"] = command
            main["env"] = [{"name": name, "value": value} for name, value in env.items()]
    return body


# ---- MPI ----

RANKS = """
from mpi4py import MPI
world = MPI.COMM_WORLD
total = world.allreduce(world.Get_rank())
print(f"rank {world.Get_rank()} of {world.Get_size()} on {MPI.Get_processor_name()}: sum {total}", flush=True)
"""


def test_mpirun_starts_ranks_in_the_workers():
    if not shutil.which("mpirun"):
        raise Skip("no mpirun here: install openmpi-bin")
    python = python_with("mpi4py")
    body = job("MPIJob", "ranks", workers=2, restart="Never", slotsPerWorker=2)
    # Ranks of one machine that look like several: no shared memory between them, and loopback is a way.
    launcher = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "4", "--mca", "btl", "tcp,self", python, "-c", RANKS]
    del body["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["command"]
    body["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["command"] = launcher
    with Muster(nodes=2, flags=NODES) as m:
        create(m, body)
        wait_condition(m, "MPIJob", "ranks", "Succeeded", 120)
        # mpirun may warn that a child was faster than it.
        logs = sorted(line for line in m.said("ranks-launcher").splitlines() if "setpgid" not in line)
        check(logs == [f"rank {i} of 4 on ranks-worker-{i // 2}: sum 6" for i in range(4)], str(logs))


# ---- XGBoost ----

BOOST = """
import os, socket, threading, time
import numpy, xgboost
from xgboost import collective
from xgboost.tracker import RabitTracker
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
port = int(os.environ["MASTER_PORT"])
if rank == 0:
    tracker = RabitTracker(n_workers=world, host_ip=socket.gethostbyname(socket.gethostname()), port=port, sortby="task")
    tracker.start()
    threading.Thread(target=tracker.wait_for, daemon=True).start()
master = socket.gethostbyname(os.environ["MASTER_ADDR"])
for attempt in range(100):  # the tracker may come last
    try: collective.init(dmlc_tracker_uri=master, dmlc_tracker_port=port, dmlc_task_id=str(rank)); break
    except Exception as e: print(e, flush=True); time.sleep(0.2)
generator = numpy.random.default_rng(collective.get_rank())
data = generator.random((200, 4))
booster = xgboost.train({"tree_method": "hist", "nthread": 1}, xgboost.DMatrix(data, data.sum(axis=1)), num_boost_round=3)
print(f"rank {collective.get_rank()} of {collective.get_world_size()}: {booster.num_boosted_rounds()} rounds", flush=True)
collective.finalize()
"""


def test_xgboost_trains_over_a_tracker_in_the_master():
    python = python_with("xgboost.tracker", "numpy", where="int(xgboost.__version__[0]) >= 2")
    body = job("XGBoostJob", "boost", workers=1, restart="Never")
    with Muster(flags=NODES) as m:
        create(m, with_commands(body, [python, "-c", BOOST], [python, "-c", BOOST]))
        wait_condition(m, "XGBoostJob", "boost", "Succeeded", 120)
        logs = "".join(m.said(f"boost-{pod}") for pod in ("master-0", "worker-0"))
        check(len(re.findall(r"rank \d of 2: 3 rounds", logs)) >= 1, logs)


# ---- JAX ----

SHARDS = """
import os
import jax, jax.numpy as jnp
from jax.experimental import multihost_utils
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(coordinator_address=os.environ["COORDINATOR_ADDRESS"] + ":" + os.environ["COORDINATOR_PORT"],
                           num_processes=int(os.environ["NUM_PROCESSES"]), process_id=int(os.environ["PROCESS_ID"]))
total = multihost_utils.process_allgather(jnp.array([jax.process_index()])).sum()
print(f"process {jax.process_index()} of {jax.process_count()}: sum {int(total)}", flush=True)
"""


def test_jax_processes_meet_at_their_coordinator():
    python = python_with("jax")
    body = job("JAXJob", "shards", workers=2, restart="Never")
    with Muster(flags=NODES) as m:
        create(m, with_commands(body, None, [python, "-c", SHARDS], JAX_PLATFORMS="cpu"))
        wait_condition(m, "JAXJob", "shards", "Succeeded", 150)
        logs = [m.said(f"shards-worker-{i}") for i in range(2)]
        for i in range(2):
            check(f"process {i} of 2: sum 1" in logs[i], logs[i])


# ---- TensorFlow, Paddle ----

def own_network():
    """Options for frameworks that listen on every address: each pod needs a network of its own for that."""
    if os.geteuid() != 0:
        raise Skip("pods have networks of their own only when root starts muster")
    return (*NODES, "--pod-network", "bridge")


MIRRORED = """
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    value = strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.constant(1.0)))
print(f"{strategy.num_replicas_in_sync} replicas: sum {float(strategy.experimental_local_results(value)[0]):.0f}", flush=True)
"""


def test_tensorflow_reads_its_place_from_tf_config():
    python = python_with("tensorflow")
    body = job("TFJob", "mirrored", workers=2, restart="Never", successPolicy="AllWorkers")
    del body["spec"]["tfReplicaSpecs"]["Chief"]
    main = body["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    main["command"] = [python, "-c", MIRRORED]
    main["env"] = [{"name": "CUDA_VISIBLE_DEVICES", "value": "-1"}]
    with Muster(flags=own_network()) as m:
        create(m, body)
        wait_condition(m, "TFJob", "mirrored", "Succeeded", 150)
        logs = m.said("mirrored-worker-1")
        check("2 replicas: sum 2" in logs, logs)


PADDLE = """
import paddle
import paddle.distributed as dist
dist.init_parallel_env()
value = paddle.to_tensor([1.0])
dist.all_reduce(value)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: sum {int(value.item())}", flush=True)
"""


def test_paddle_workers_meet_at_their_master():
    python = python_with("paddle")
    body = job("PaddleJob", "paddled", workers=2, restart="Never")
    del body["spec"]["paddleReplicaSpecs"]["Master"]
    main = body["spec"]["paddleReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    main["command"] = ["sh", "-c", f"cat > /tmp/ranks.py <<'END'\n{PADDLE}END\n"
                       f"{python} -m paddle.distributed.launch --log_dir /tmp/paddle --nproc_per_node 1 "
                       "/tmp/ranks.py;"
                       "status=$?; cat /tmp/paddle/workerlog.*; exit $status"]
    main["env"] = [{"name": "PADDLE_DISTRI_BACKEND", "value": "gloo"}]
    with Muster(flags=own_network()) as m:
        create(m, body)
        wait_condition(m, "PaddleJob", "paddled", "Succeeded", 150)
        logs = "".join(m.said(f"paddled-worker-{i}") for i in range(2))
        check("rank 0 of 2: sum 2" in logs, logs)


# ---- torchrun that grows and shrinks ----

STEPS = """
import os, time, datetime
import torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
value = torch.zeros(1)
for step in range(3000):
    value.fill_(1)
    dist.all_reduce(value)
    if dist.get_rank() == 0:
        print(f"step {step} world {int(value.item())}", flush=True)
    time.sleep(0.3)
"""


def torchrun_python():
    new = [p for p, version in torch_pythons() if not version.startswith("1.")]
    if not new:
        raise Skip("no current torch here (MUSTER_TEST_PYTHONS names further Pythons)")
    return new[-1]


def latest(m, name):
    text = m.said(name, tailLines=3, ok=False)
    found = re.findall(r"world (\d+)", text)
    return int(found[-1]) if found else 0


def world_is(m, selector, size):
    """Whether some pod's last lines tell of a world of that size."""
    names = [p["metadata"]["name"] for p in m.get("pods") if p["metadata"]["labels"].get(selector[0]) == selector[1]]
    return any(latest(m, name) == size for name in names)


CONF = [{"key": "last_call_timeout", "value": "2"}]


@apart(PORT_OF_PYTORCHJOBS)
def test_a_pytorchjob_is_scaled_while_it_trains():
    python = torchrun_python()
    body = job("PyTorchJob", "grow", workers=2, nprocPerNode="1",
               elasticPolicy={"minReplicas": 1, "maxReplicas": 3, "maxRestarts": 20, "rdzvConf": CONF})
    del body["spec"]["pytorchReplicaSpecs"]["Master"]
    pod = body["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    pod["terminationGracePeriodSeconds"] = 2
    pod["containers"][0]["command"] = [os.path.join(os.path.dirname(python), "torchrun"), "--no-python", python, "-c", STEPS]
    mine = ("training.kubeflow.org/job-name", "grow")
    with Muster(flags=NODES, nodes=3) as m:
        create(m, body)
        wait_for(lambda: world_is(m, mine, 2), "two ranks to train together", 120)
        m.kubectl("scale", "pytorchjob", "grow", "--replicas=3")
        wait_for(lambda: world_is(m, mine, 3), "a third rank to join", 120)
        m.kubectl("scale", "pytorchjob", "grow", "--replicas=2")
        wait_for(lambda: len(pods(m, "grow")) == 2 and world_is(m, mine, 2), "two ranks to go on", 120)
        seen = status(m, "PyTorchJob", "grow")
        check((seen["generation"], seen["restarts"]) == (0, 0), f"scaling cost a restart of the job: {seen}")


@apart(PORT_OF_TRAINJOBS)
def test_a_pytorchtrainingjob_is_scaled_while_it_trains():
    python = python_of_ranks()
    body = {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "PyTorchTrainingJob", "metadata": {"name": "grow"}, "spec": {
        "elastic": {"enabled": True, "minReplicas": 1, "maxReplicas": 3, "expectedReplicas": 2},
        "torchrunConfig": {"enabled": True, "maxRestarts": 20, "procPerNode": "1", "extraOptions": [
            "--no_python", "--rdzv_conf=last_call_timeout=2"]},
        "replicaSpecs": [{"type": "worker", "restartPolicy": "OnFailure", "template": {"spec": {
            "terminationGracePeriodSeconds": 2,
            "containers": [{"name": "pytorch", "image": "x", "args": [python, "-c", STEPS]}]}}}]}}
    mine = ("tensorstack.dev/owner-name", "grow")
    with Muster(flags=NODES, nodes=3, path_first=os.path.dirname(python)) as m:
        create(m, body)
        wait_for(lambda: world_is(m, mine, 2), "two ranks to train together", 120)
        for size in (3, 1):
            m.kubectl("patch", "pytorchtrainingjob", "grow", "--type=merge", "-p",
                      '{"spec":{"elastic":{"expectedReplicas":%d}}}' % size)
            wait_for(lambda: world_is(m, mine, size), f"{size} ranks to train", 120)
        seen = m.get("pytorchtrainingjob", "grow")["status"]
        check(seen["backoffCount"] == 0 and seen["phase"] == "Running", f"scaling cost a restart: {seen}")


def test_torchrun_meets_in_the_etcd_of_the_job():
    python = python_with("torch", "etcd")
    body = job("PyTorchJob", "store", workers=2, nprocPerNode="1",
               elasticPolicy={"minReplicas": 2, "maxReplicas": 2, "rdzvBackend": "etcd-v2", "maxRestarts": 3})
    del body["spec"]["pytorchReplicaSpecs"]["Master"]
    sums = "import torch, torch.distributed as dist\ndist.init_process_group('gloo')\nx = torch.ones(1)\ndist.all_reduce(x)\n" \
           "print(f'rank {dist.get_rank()} of {dist.get_world_size()}: sum {int(x.item())}', flush=True)\n"
    # The options keep an older torchrun from stumbling over a newer Python.
    body["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["command"] = [
        python, "-m", "torch.distributed.run", "--redirects=1", "--tee=1", "--no_python", python_of_ranks(), "-c", sums]
    with Muster(flags=NODES) as m:
        create(m, body)
        wait_condition(m, "PyTorchJob", "store", "Succeeded", 150)
        env = {e["name"]: e.get("value") for e in m.get("pods", "store-worker-0")["spec"]["containers"][0]["env"]}
        check(env["PET_RDZV_BACKEND"] == "etcd-v2" and env["PET_RDZV_ENDPOINT"] == "store-sync-0.store:7077", str(env))
        logs = "".join(m.said(f"store-worker-{i}", ok=False) for i in range(2))
        check(re.search(r"rank \d of 2: sum 2", logs), logs)
