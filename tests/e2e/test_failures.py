"""What status, events and logs say of failures that were planted: two of tests/failures, which has twenty.

FAILURES_OF="killed deadline": others of them, with all that is said in a table.
"""

import importlib.util
import os

from harness import ROOT, Skip, check, needs, torch_pythons

USUAL = "exit-code torchrun-killed"  # the first is not told for five minutes where torchrun waits for other pods


def failures():
    spec = importlib.util.spec_from_file_location("failures", os.path.join(ROOT, "tests", "failures", "run.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@needs("the logs of former generations, which the nodes of muster up keep")
def test_what_is_said_of_planted_failures_is_true():
    if not torch_pythons():
        raise Skip("no Python here can import torch")
    module = failures()
    results = module.play_all(module.chosen(os.environ.get("FAILURES_OF", USUAL).split()))
    module.print_table(results)
    wrong = [f"{name}: {'; '.join(why)}" for name, why, _ in results if why]
    check(not wrong, "\n".join(wrong))
