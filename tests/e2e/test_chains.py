"""Several jobs by one command: arrays, jobs that start after others, and news of them."""

import http.server
import json
import os
import threading

from harness import check, wait_for
from test_plugin_commands import need_torch
from test_run import Own


class Listener(http.server.BaseHTTPRequestHandler):
    """Somebody's chat: what was posted."""

    def do_POST(self):
        self.server.heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *words):
        pass


def test_an_array_runs_its_jobs_and_the_one_after_it_starts_then():
    need_torch()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listener)
    server.heard = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with Own() as own:
        own.write("part.py", "import os\ni = os.environ['MUSTER_ARRAY_INDEX']\n"
                  "assert i == os.environ['SLURM_ARRAY_TASK_ID']\nprint('part', i)\nopen('out.txt', 'w').write(i)\n")
        own.write("all.py", "print('after')\n")
        done = own.muster("run", "--array", "3,5%1", "--name", "again", "--notify",
                          f"http://127.0.0.1:{server.server_port}/x", "part.py")
        told = done.stdout.split("\n")
        check(told.index("again-3 Succeeded") < told.index("again-5 Succeeded"), done.stdout)
        check("all 2 jobs of the array have succeeded" in done.stderr, done.stderr)
        logs = own.muster("logs", "again").stdout
        check("part 3" in logs and "part 5" in logs, logs)
        own.muster("pull", "again")
        with open(os.path.join(own.project, "again", "again-5", "out.txt")) as f:
            check(f.read() == "5", "what the second wrote")
        check(own.muster("wait", "again").stdout == "again Succeeded\n", "it has ended")
        done = own.muster("run", "--after", "again,afterany:again-3", "all.py")
        check("after" in done.stdout, done.stdout + done.stderr)
        done = own.muster("run", "--after", "nobody", "all.py", ok=False)
        check("--after" in done.stderr and "nobody" in done.stderr, done.stderr)
        wait_for(lambda: len(server.heard) > 1, "both news")
        events = [(body["job"], body["event"]) for body in server.heard]
        check(events == [("again", "Started"), ("again", "Succeeded")], f"{server.heard}")
    server.shutdown()


def test_a_job_ends_after_the_time_it_asked_for():
    need_torch()
    with Own() as own:
        own.write("long.py", "import time\ntime.sleep(600)\n")
        done = own.muster("run", "--time", "1s", "--name", "long", "long.py", ok=False)
        check(done.returncode != 0, f"{done}")
        status = own.muster("status", "long").stdout
        check("TimedOut" in status and "ran for its maxRunTime (1s)" in status, status)
