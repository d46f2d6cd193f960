"""Every lesson: what it takes and refuses; the code it shows gives the numbers it shows."""

import json
import subprocess
import sys

import pytest
import torch

from regard.view.lessons import LESSONS
from regard.view.lessons.fields import Choice, Integer, Real, Row, Rows

EVERY = pytest.mark.parametrize("lesson", LESSONS.values(), ids=LESSONS)


def flat(given) -> list[float]:
    """All numbers in tensors, tuples and lists, however deep; NaN as JSON has it."""
    if isinstance(given, list | tuple):
        return [x for part in given for x in flat(part)]
    if isinstance(given, torch.Tensor):
        return flat(given.double().tolist())
    return [None if given is None or given != given else float(given)]


def agrees(answer) -> list[str]:
    """The names that stand in the answer and come out of its code, all with the same numbers."""
    found = {}
    exec(answer["code"], found)
    names = [name for name in answer if name in found]
    for name in names:
        assert flat(found[name]) == pytest.approx(flat(answer[name]), rel=1e-4, abs=1e-3), name
    return names


@EVERY
def test_the_code_that_is_shown_gives_the_numbers_that_are_shown(lesson):
    assert agrees(lesson.answer({}))


@EVERY
def test_each_choice_shows_its_own_code(lesson):
    for name, field in lesson.fields.items():
        for value in field.values if isinstance(field, Choice) else ():
            assert agrees(lesson.answer({name: value}))


@EVERY
def test_either_end_of_each_number_can_be_had(lesson):
    for name, field in lesson.fields.items():
        if isinstance(field, Integer | Real) and name != "focus":
            for value in (field.minimum, field.maximum):
                assert json.dumps(lesson.answer({name: value}), allow_nan=False)


@EVERY
def test_an_answer_is_plain_json_with_what_was_given(lesson):
    answer = lesson.answer({})
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    assert lesson.check_inputs(answer["given"]) == answer["given"]
    assert answer["given"].keys() == lesson.fields.keys()


@EVERY
def test_what_a_lesson_does_not_know_is_refused(lesson):
    with pytest.raises(ValueError, match=f"lesson {lesson.name}: there is no '__class__'; there"):
        lesson.answer({"__class__": 1})
    with pytest.raises(ValueError, match=f"lesson {lesson.name}: expected numbers by name, got a"):
        lesson.answer([1, 2])


@EVERY
def test_numbers_that_are_none_are_refused(lesson):
    for name, field in lesson.fields.items():
        for given in (float("nan"), None, {"a": []}, [[[1.0]]], 10**30):
            with pytest.raises(ValueError, match=f"lesson {lesson.name}: {name}"):
                lesson.answer({name: given})
        if isinstance(field, Row | Rows):
            with pytest.raises(ValueError, match="expected a list of"):
                lesson.answer({name: [0.0] * 1000})


def test_every_answer_comes_within_thirty_milliseconds():
    # in an interpreter of its own, without the checks of shapes that tests run with, and on one
    # thread, which does not wait for a core that others hold
    code = (
        "import json, timeit, torch\n"
        "torch.set_num_threads(1)\n"
        "from regard.view.lessons import LESSONS\n"
        "took = {n: min(timeit.repeat(lambda: x.answer({}), number=1, repeat=12))"
        " for n, x in LESSONS.items()}\n"
        "print(json.dumps(took))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    took = json.loads(done.stdout)
    assert took.keys() == LESSONS.keys() and max(took.values()) < 0.03


@EVERY
def test_a_lesson_asks_first_and_one_of_its_answers_holds(lesson):
    told = lesson.to_json()
    assert told["question"].endswith("?") and told["aha"].endswith(".")
    assert 0 <= told["right"] < len(told["guesses"])
    assert json.loads(json.dumps(told)) == told


def test_lessons_stand_in_their_order_under_their_names():
    first, *_, last = LESSONS
    assert (first, last, len(LESSONS)) == ("dictionary", "costs", 12)
    assert all(name == lesson.name for name, lesson in LESSONS.items())
