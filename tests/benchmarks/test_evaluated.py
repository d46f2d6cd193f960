"""What evaluations said is kept once for each command and machine, without a place of either."""

import json

from benchmarks import evaluated


def line(command, hardware="a card", **numbers):
    told = {"model": command.split()[2], "command": command, **numbers}
    return told | {"instances": 3, "seed": 0, "seconds": 1.25, "hardware": hardware}


def test_an_evaluation_takes_the_place_of_the_same_one_before_it(tmp_path):
    command = "regard evaluate hull points=5 --json"
    evaluated.kept([line(command, accuracy=0.25)], tmp_path)
    found = evaluated.kept([line(command, accuracy=0.5), line(command, "two cores")], tmp_path)
    assert [(x["hardware"], x.get("accuracy")) for x in found] == [
        ("a card", 0.5),
        ("two cores", None),
    ]
    assert json.loads((tmp_path / "evaluated.json").read_text()) == found


def test_no_path_of_a_machine_is_kept(tmp_path):
    command = "regard evaluate /home/me/runs/mine file=/data/tsp20.txt.gz --json"
    (found,) = evaluated.kept([line(command)], tmp_path)
    assert found["command"] == "regard evaluate mine file=tsp20.txt.gz --json"
    assert "/home" not in (tmp_path / "evaluated.json").read_text()


def test_evaluations_of_fewer_points_come_first(tmp_path):
    several = [line(f"regard evaluate hull points={n} --json") for n in (50, 5, 500)]
    found = evaluated.kept(several, tmp_path)
    assert ["points=5 " in x["command"] for x in found] == [True, False, False]


def test_a_gap_is_told_or_computed_from_what_is_known_of_the_best():
    told = line("regard evaluate tsp points=20 --json", length=4.04, optimal=4.0, gap=0.01)
    known = line("regard evaluate tsp points=100 --json", length=7.8376, optimal=None, gap=None)
    text = evaluated.page([told, known])
    assert "| length 4.04, optimal 4, gap 1.00 % | a card | 1 |" in text
    assert "| length 7.8376, 1.00 % above 7.76 |" in text
