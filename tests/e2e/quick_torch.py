"""Imported at the start of a Python that torchrun_alone.py made for ranks. torchrun itself is alone there, as it trains nothing.
The ranks have the PyTorch 1.13 of this machine, without what no training of a test calls and what is a third of its import:
OpenCV and FFmpeg, with the 200 libraries that these are made of, and the modules of NOT_CALLED, which are there and empty."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
NOT_CALLED = ("_meta_registrations", "onnx", "quantization")

if "torch.distributed.run" in getattr(sys, "orig_argv", ()):
    sys.path.insert(0, os.path.join(HERE, "alone"))
else:
    for name in NOT_CALLED:
        sys.modules[f"torch.{name}"] = type(sys)(f"torch.{name}")
    if os.path.exists(os.path.join(HERE, "quick.so")):
        import ctypes
        ctypes.CDLL(os.path.join(HERE, "quick.so"))
