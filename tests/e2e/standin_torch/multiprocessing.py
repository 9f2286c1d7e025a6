"""What torchrun takes of torch.multiprocessing."""

from multiprocessing import *  # noqa: F401, F403
