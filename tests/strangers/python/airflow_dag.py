"""Airflow: a DAG of two pods by its KubernetesPodOperator, the second after the first, run as DAG.test() does in one process.
This file is the DAG where Airflow reads it, in its folder, and the test where it is run."""

import importlib
import os
import shutil
import subprocess
import sys


def main():
    home = os.path.join(os.environ["HOME"], "airflow")
    dags = os.path.join(home, "dags")
    os.makedirs(dags)
    shutil.copyfile(__file__, os.path.join(dags, "pods.py"))
    os.environ.update(AIRFLOW_HOME=home, AIRFLOW__CORE__LOAD_EXAMPLES="False", AIRFLOW__CORE__DAGS_FOLDER=dags,
                      AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT="600")
    importlib.import_module("airflow.utils.db").initdb()
    sys.path.insert(0, dags)
    run = importlib.import_module("pods").dag.test()
    assert run.state == "success", run
    left = subprocess.run(["kubectl", "get", "pods", "-o", "name"], check=True, text=True, stdout=subprocess.PIPE).stdout
    assert not left, left


if __name__ == "__main__":
    main()
else:
    from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
    from airflow.sdk import DAG

    OPTIONS = {"namespace": "default", "image": "any", "config_file": os.environ["KUBECONFIG"], "kubernetes_conn_id": None,
               "get_logs": True, "on_finish_action": "delete_pod", "startup_timeout_seconds": 300}
    with DAG("pods") as dag:
        first = KubernetesPodOperator(task_id="first", cmds=["sh", "-c", "test $OF = these"], env_vars={"OF": "these"}, **OPTIONS)
        first >> KubernetesPodOperator(task_id="second", cmds=["sh", "-c", "echo and nothing else"], **OPTIONS)
