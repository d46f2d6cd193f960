import subprocess
import sys

import pytest
import torch

from regard.runtime import mkl
from regard.train import fit
from tests.train import toy

DTYPES = (torch.float32, torch.float64)
NAMES = {function.__name__ for function in mkl.FUNCTIONS}

# What torch is asked to compute, and for how many numbers, while the door is imported.
ASKED = """
import torch
from torch.utils._python_dispatch import TorchDispatchMode

class Asked(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if args and isinstance(args[0], torch.Tensor):
            print(function.overloadpacket.__name__, args[0].dtype, args[0].numel())
        return function(*args, **(kwargs or {}))

with Asked():
    import regard
    regard.attend
"""


def test_the_first_touch_of_regard_calls_every_function_for_one_number_alone():
    said = subprocess.check_output([sys.executable, "-c", ASKED], text=True).splitlines()
    named = {f"{function.__name__} {dtype} 1" for function in mkl.FUNCTIONS for dtype in DTYPES}
    assert named <= set(said)
    # one number is never shared between threads
    assert all(line.endswith(" 1") for line in said if line.split()[0] in NAMES)


def test_a_training_calls_them_before_its_first_step(monkeypatch, tmp_path):
    order = []
    monkeypatch.setattr(mkl, "warm_up", lambda: order.append("ready"))

    def noted(model, batch):
        order.append("step")
        return toy.loss(model, batch)

    fit(toy.model(), noted, toy.Batches(), toy.training(steps=1), run=tmp_path)
    assert order == ["ready", "step"]


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_calling_them_leaves_the_random_state_and_the_default_device_alone(device):
    before = torch.get_rng_state()
    with torch.device(device):
        mkl.warm_up()
        assert torch.empty(1).device.type == device
    assert torch.equal(torch.get_rng_state(), before)
