"""Changes: what JSON says of an edit is what Python makes of it, and the Python told runs."""

import pytest
import torch

import regard
from regard import edits, scores, selects
from regard.recipes import copy, sort, translate
from regard.view.server.page_edits import MAX_EDITS, MAX_HIDDEN_CELLS, parse_edits, python_code

EVERY = [
    ({"do": "ablate", "heads": [0, 3]}, edits.ablate(0, 3)),
    ({"do": "hide", "cells": [[1, 2], [None, 0]]}, edits.hide([(1, 2), (None, 0)])),
    ({"do": "hide", "cells": [[1, 2]], "heads": [1]}, edits.hide([(1, 2)], heads=[1])),
    ({"do": "score", "score": "dot"}, edits.score(scores.dot)),
    ({"do": "score", "score": "scaled_dot"}, edits.score(scores.scaled_dot)),
    ({"do": "select", "select": "softmax"}, edits.select(selects.softmax)),
    ({"do": "select", "select": "sparsemax"}, edits.select(selects.sparsemax)),
    ({"do": "select", "select": "hard"}, edits.select(selects.hard)),
    ({"do": "heat", "temperature": 0.5}, edits.heat(0.5)),
    ({"do": "heat", "temperature": 2}, edits.heat(2.0)),
    (
        {"do": "force", "query": 1, "key": 2, "weight": 0.5, "heads": None},
        edits.force(1, 2, 0.5),
    ),
    (
        {"do": "force", "query": None, "key": 2, "weight": 1, "heads": [0]},
        edits.force(None, 2, 1.0, heads=[0]),
    ),
]


@pytest.mark.parametrize(("edit", "change"), EVERY)
def test_every_edit_is_the_change_of_its_name(edit, change):
    assert parse_edits([{"at": "a.b", **edit}]) == {"a.b": change}


def test_a_cosine_is_one_of_strength_one():
    [change] = parse_edits([{"at": "a", "do": "score", "score": "cosine"}]).values()
    assert change.score.strength == 1


def test_edits_of_one_attention_follow_each_other():
    given = [{"at": at, **edit} for at, (edit, _) in zip("aba", EVERY[:3], strict=True)]
    one, two, three = (change for _, change in EVERY[:3])
    assert parse_edits(given) == {"a": edits.chain(one, three), "b": two}
    assert parse_edits([]) == {}


HIDE = {"at": "a", "do": "hide", "cells": [[0, 0]]}


@pytest.mark.parametrize(
    ("edit", "match"),
    [
        ([], "edit 0: expected an object, got"),
        ({}, "edit 0: expected do of ablate, hide, score, select, heat, force, got None"),
        ({"do": ["hide"]}, "expected do of ablate"),
        ({"do": "explode"}, "got 'explode'"),
        ({"do": "ablate", "heads": [0]}, "edit 0: ablate has no 'at'"),
        ({"at": "a", "do": "ablate"}, "edit 0: ablate has no 'heads'"),
        ({**HIDE, "weight": 1}, "edit 0: hide has an unknown 'weight'"),
        ({**HIDE, "at": 3}, "edit 0: expected at as a string"),
        ({**HIDE, "cells": "ab"}, "expected cells as a list"),
        ({**HIDE, "cells": [[0]]}, r"expected cells as \[query, key\], got \[0\]"),
        (
            {**HIDE, "cells": [[0, None]]},
            "expected keys as whole numbers from 0 to 1048575, got None",
        ),
        (
            {**HIDE, "cells": [[-1, 0]]},
            "expected queries as whole numbers from 0 to 1048575, got -1",
        ),
        ({**HIDE, "cells": [[True, 0]]}, "expected queries as whole numbers"),
        ({**HIDE, "cells": [[10**30, 0]]}, "expected queries as whole numbers"),
        ({**HIDE, "heads": 1}, "expected heads as a list"),
        ({**HIDE, "heads": [0.5]}, "expected heads as whole numbers"),
        (
            {"at": "a", "do": "score", "score": "x"},
            "expected score of dot, scaled_dot, cosine, got 'x'",
        ),
        (
            {"at": "a", "do": "select", "select": None},
            "expected select of softmax, sparsemax, hard",
        ),
        ({"at": "a", "do": "heat", "temperature": "hot"}, "expected temperature as a number"),
        ({"at": "a", "do": "heat", "temperature": 10**400}, "as a number, got one too large"),
        ({"at": "a", "do": "heat", "temperature": 0}, "heat: expected a finite temperature > 0"),
        ({"at": "a", "do": "heat", "temperature": float("nan")}, "expected a finite temperature"),
        (
            {"at": "a", "do": "force", "query": 0, "key": 0, "weight": 2},
            "expected a weight from 0 to 1",
        ),
    ],
)
def test_what_is_no_edit_is_refused_in_a_sentence(edit, match):
    with pytest.raises(ValueError, match=match):
        parse_edits([edit])


def test_too_many_are_refused():
    with pytest.raises(ValueError, match="edits: expected at most 200, got 201"):
        parse_edits([HIDE] * (MAX_EDITS + 1))
    cells = [[0, i] for i in range(MAX_HIDDEN_CELLS // 2 + 1)]
    with pytest.raises(ValueError, match="edits: expected at most 10,000 cells, got 10,002"):
        parse_edits([{**HIDE, "cells": cells}] * 2)
    with pytest.raises(ValueError, match="edits: expected a list, got"):
        parse_edits("hide")


def test_the_python_of_no_edit_opens_none():
    said = python_code("copy", "01101001", {}, [], "copy")
    assert said.splitlines() == [
        "import regard",
        "from regard.recipes import copy",
        "",
        "loaded = regard.load('copy')",
        "given = copy.parse_input(loaded.card, '01101001')",
        "trace = copy.trace(loaded, given)",
    ]


def test_every_edit_is_said_as_python_makes_it():
    for edit, change in EVERY:
        told = python_code("m", "x", {}, [{"at": "a", **edit}], "copy").splitlines()
        said = told[told.index("changes = {") + 1].partition(": ")[2].removesuffix(",")
        names = {"edits": edits, "scores": scores, "selects": selects}
        assert eval(said, names) == change


RUNS = [
    (
        translate,
        "translate-en-fr-small",
        'He said: "I\'m here" \\n',
        {"beam": 1, "prefix": "Il"},
        [
            {"at": "decoder.attention", "do": "hide", "cells": [[None, 0], [3, 2]], "heads": None},
            {"at": "decoder.attention", "do": "heat", "temperature": 0.7},
        ],
    ),
    (copy, "copy", "01101001 11110000", {}, []),
    (copy, "copy", "01101001 11110000", {}, [{"at": "heads", "do": "select", "select": "hard"}]),
    (
        sort,
        "sort",
        "3 1 2 9",
        {"prefix": "2"},
        [
            {"at": "encoder.blocks.0.self_attention", "do": "ablate", "heads": [0, 1]},
            {"at": "pointer", "do": "force", "query": 1, "key": 3, "weight": 0.9, "heads": None},
            {"at": "pointer", "do": "score", "score": "dot"},
        ],
    ),
]


@pytest.mark.parametrize(
    ("recipe", "model", "text", "options", "given"), RUNS, ids=["translate", "bits", "copy", "sort"]
)
def test_the_python_that_is_told_runs_and_makes_the_same_trace(recipe, model, text, options, given):
    loaded, made = regard.load(model), {}
    typed = recipe.parse_input(loaded.card, text)
    with regard.edit(loaded.model, parse_edits(given)):
        ours = recipe.trace(loaded, typed, **options)
    exec(python_code(model, text, options, given, recipe.__name__.rpartition(".")[2]), made)
    assert made["trace"].outputs == ours.outputs
    for map, other in zip(ours.maps, made["trace"].maps, strict=True):
        assert torch.equal(map.all_weights(), other.all_weights())
