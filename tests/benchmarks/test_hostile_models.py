"""No damaged folder gets more out of a loader than one line, and the attack would tell."""

import json
import random

import pytest

from benchmarks import hostile_models
from regard import zoo


def test_every_damaged_folder_is_one_line():
    assert hostile_models.attack(100, seed=0, models=("copy", "sort")) == []


def raising(error):
    def load(folder):
        raise error

    return load


@pytest.mark.parametrize(
    ("load", "wrong"),
    [
        (raising(KeyError("a")), "let KeyError out: 'a'"),
        (raising(ValueError("no such thing")), "said 'no such thing'"),
        (raising(ValueError("load: two\nlines")), "said"),
        (raising(ValueError("load: " + "x" * 999)), "1005 characters"),
        (raising(ValueError("load: card.json is damaged")), None),
        (lambda folder: None, None),
    ],
)
def test_what_does_not_keep_its_word_is_found(monkeypatch, tmp_path, load, wrong):
    monkeypatch.setattr(hostile_models, "load", load)
    found = hostile_models.fault(tmp_path)
    assert found is None if wrong is None else wrong in found


def test_an_attack_changes_something_nearly_always_and_the_same_each_time():
    card = zoo.card("sort")
    found = [hostile_models.mutated_json(random.Random(seed), card) for seed in range(50)]
    again = [hostile_models.mutated_json(random.Random(seed), card) for seed in range(50)]
    assert [json.dumps(x) for x in found] == [json.dumps(x) for x in again]
    assert sum(x != card for x in found) > 40
    assert card == zoo.card("sort")
