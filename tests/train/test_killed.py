import random

from benchmarks.resume import killed


def test_a_training_that_is_killed_again_and_again_comes_out_the_same(tmp_path):
    seed = random.Random().randrange(10**6)
    found = killed(3, seed=seed, folder=tmp_path)
    assert found.equal, f"seed {seed}: {found}"
    assert found.compared > 30
