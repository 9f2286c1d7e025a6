from muster_train import _muster

_muster()
