"""Stands for PyTorch where a test is about jobs and not about training: torchrun is the real one, torch/distributed/run.py and
elastic/ of the PyTorch 1.13 on this machine, but it finds this package as `torch`, which takes a tenth of a second to import and
not one to three (../torchrun_alone.py).

What torchrun takes of the compiled part, its stores, is in distributed/__init__.py and speaks the same protocol. Real torchrun on
real PyTorch is in test_skeleton (every version here), test_torchrun_examples, test_warm, test_trainjob, test_pytorchjob,
test_frameworks, test_tensorstack, test_place, and make failures, faults, calm and journeys; ranks of other tests that train have
PyTorch and a torchrun that is alone (Muster(pytorch="ranks"))."""

import pkgutil
import types

__path__ = pkgutil.extend_path(__path__, __name__)
cuda = types.SimpleNamespace(is_available=lambda: False, device_count=lambda: 0)


def __getattr__(name):
    raise AttributeError(f"torch.{name}: this is torchrun alone (tests/e2e/standin_torch); a test that needs PyTorch says "
                         'Muster(..., pytorch="ranks")')
