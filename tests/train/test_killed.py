import random

import pytest

from benchmarks.kills import killed
from benchmarks.resume import FITTED, commanded

# What is saved and drawn is that of any size; a small model is only sooner at the moment.
SMALL = ["vocabulary=300", "embedding=32", "width=32", "alignment=32", "readout=32"]
SMALL = ["data.development=20", "data.test=20", *(f"model.{size}" for size in SMALL)]
VICTIMS = {"fit": FITTED, "command": commanded(*SMALL, steps=20)}


@pytest.mark.parametrize(("victim", "kills"), [("fit", 3), ("command", 1)])
def test_a_training_that_is_killed_comes_out_the_same(victim, kills, tmp_path):
    seed = random.Random().randrange(10**6)
    found = killed(VICTIMS[victim], kills, seed=seed, folder=tmp_path)
    assert found.equal, f"seed {seed}: {found}"
    assert found.compared > 6
