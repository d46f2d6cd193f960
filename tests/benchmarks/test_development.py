"""Development numbers of the zoo: the recipe's own validator measures the stored weights."""

import json
import shutil

import pytest

from benchmarks.development import with_development
from benchmarks.publish import ZOO

COPY = ZOO / "copy"  # of seed 1


@pytest.fixture
def other_seed(tmp_path):
    """A run of the same settings with another seed, and what its development numbers are set to."""

    def with_bits(bits):
        shutil.copytree(COPY, tmp_path / "run")
        card = json.loads((COPY / "card.json").read_text()) | {"seed": 7}
        card["development"] = {"bits": bits}
        (tmp_path / "run" / "card.json").write_text(json.dumps(card))
        return tmp_path / "run"

    return with_bits


def test_stored_weights_are_measured_as_in_training():
    card = with_development(COPY)
    kept = json.loads((COPY / "card.json").read_text())["seed_choice"]["development"]["numbers"][
        "1"
    ]
    assert card["development"]["bits"] == pytest.approx(kept, rel=0.05)
    assert card["development"]["perfect"] == 1.0
    assert "no other is on record" in card["seed_choice"]["how"]


def test_numbers_of_other_seeds_come_from_their_runs(other_seed):
    choice = with_development(COPY, [other_seed(0.5)])["seed_choice"]
    assert choice["seeds"] == [1, 7]
    assert choice["development"]["numbers"]["7"] == 0.5
    assert choice["how"].startswith("the best of 2 seeds by bits of development data")


def test_a_member_that_is_not_the_best_of_its_seeds_is_refused(other_seed):
    with pytest.raises(SystemExit, match="expected the seed that is best by bits"):
        with_development(COPY, [other_seed(0.0)])


def test_a_member_that_was_not_chosen_says_so(other_seed):
    choice = with_development(COPY, [other_seed(0.0)], is_default=True)["seed_choice"]
    assert choice["development"]["numbers"]["7"] == 0.0
    assert choice["how"].startswith("seed 1 is the default of the recipe, and was not chosen")
