import random

import pytest

from benchmarks.kills import killed
from benchmarks.resume import FITTED, commanded

VICTIMS = {"fit": FITTED, "command": commanded("data.development=20", "data.test=20", steps=20)}


@pytest.mark.parametrize(("victim", "kills"), [("fit", 3), ("command", 1)])
def test_a_training_that_is_killed_comes_out_the_same(victim, kills, tmp_path):
    seed = random.Random().randrange(10**6)
    found = killed(VICTIMS[victim], kills, seed=seed, folder=tmp_path)
    assert found.equal, f"seed {seed}: {found}"
    assert found.compared > 6
