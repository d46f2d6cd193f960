"""Inputs: what may be told beside one, and what JSON says of it."""

import json

import pytest

from regard.view.inputs import Input, Option

BEAM = Option("beam", "hypotheses side by side", "whole", 1, 1, 8)
PREFIX = Option("prefix", "how it must begin", "text", "", most=5)
KIND = Option("kind", "of what", "choice", "a", values=("a", "b"))
GIVEN = Input("text", "a sentence", "I see.", 50, {"least": 0.5}, (BEAM, PREFIX, KIND))


def test_options_that_were_given_come_back_and_no_other():
    assert GIVEN.check_options({}) == {}
    assert GIVEN.check_options({"beam": 1}) == {"beam": 1}
    assert GIVEN.check_options({"kind": "b", "prefix": "Ein"}) == {"kind": "b", "prefix": "Ein"}


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"beams": 1}, r"^options: expected beam, prefix, kind, got 'beams'$"),
        ({"beam": 0}, "^option 'beam': expected 1 to 8, got 0$"),
        ({"beam": 9}, "^option 'beam': expected 1 to 8, got 9$"),
        ({"beam": True}, "^option 'beam': expected a whole number, got "),
        ({"beam": 2.0}, "^option 'beam': expected a whole number, got "),
        ({"beam": "2"}, "^option 'beam': expected a whole number, got "),
        ({"prefix": 3}, "^option 'prefix': expected it as a string, got "),
        ({"prefix": "\ud800"}, "^option 'prefix': expected it as valid Unicode, got "),
        ({"prefix": "abcdef"}, "^option 'prefix': expected at most 5 characters, got 6$"),
        ({"kind": "c"}, "^option 'kind': expected one of a, b, got 'c'$"),
        ({"kind": ["a"]}, "^option 'kind': expected one of a, b, got "),
    ],
)
def test_what_may_not_be_told_is_refused_in_a_sentence(given, match):
    with pytest.raises(ValueError, match=match):
        GIVEN.check_options(given)


def test_an_input_without_options_takes_none():
    with pytest.raises(ValueError, match=r"^options: expected none, got 'beam'$"):
        Input("bits", "bits", "01", 9).check_options({"beam": 1})


@pytest.mark.parametrize(
    ("least", "most", "match"),
    [(3, None, "expected at least 3, got 2"), (None, 1, "expected at most 1, got 2")],
)
def test_a_bound_may_stand_alone(least, most, match):
    with pytest.raises(ValueError, match=match):
        Option("n", "", "whole", 2, least, most)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Option("a b", "", "text", ""), "Option: expected a name as in Python, got 'a b'"),
        (lambda: Option("a", "", "choice", "x"), "Option 'a': expected values of a choice"),
        (lambda: Option("a", "", "text", "", values=("x",)), "of a choice, and of no other"),
        (lambda: Input("bits", "", "", 0), "Input: expected most of at least 1, got 0"),
        (lambda: Input("bits", "", "", 1, {"x": {1}}), "Input: expected what JSON can say"),
    ],
)
def test_what_cannot_be_is_refused(make, match):
    with pytest.raises(ValueError, match=match):
        make()


def test_json_says_all_of_it():
    told = json.loads(json.dumps(GIVEN.to_json()))
    assert (told["kind"], told["most"], told["form"]) == ("text", 50, {"least": 0.5})
    assert told["options"][0] == {
        **{"name": "beam", "about": "hypotheses side by side", "kind": "whole"},
        **{"default": 1, "least": 1, "most": 8, "values": []},
    }
    assert told["options"][2]["values"] == ["a", "b"]
