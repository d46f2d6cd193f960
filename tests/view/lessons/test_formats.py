"""Numbers for pictures and code: by hand."""

import torch

from regard.view.lessons.formats import script_code, tensor_code, to_numbers, to_rounded_numbers


def test_exact_keeps_seven_digits_and_says_none_for_what_is_not_finite():
    given = torch.tensor([[0.1, torch.inf], [-torch.inf, torch.nan]])
    assert to_numbers(given) == [[0.1, None], [None, None]]
    assert to_numbers(torch.tensor(1 / 3)) == 0.3333333


def test_coarse_keeps_three_decimals():
    assert to_rounded_numbers(torch.tensor([1 / 3, 2.0])) == [0.333, 2.0]


def test_a_tensor_is_written_as_code_that_makes_it():
    assert tensor_code("v", [1.0, 2.5], "") == "v = torch.tensor([1.0, 2.5])"
    assert tensor_code("q", [[1.0, 2.0]]) == "q = torch.tensor([[1.0, 2.0]])[None, None]"


def test_a_long_table_is_wrapped():
    found = {}
    code = script_code(tensor_code("k", [[float(i), 0.5] for i in range(7)], ""))
    exec(code, found)
    assert found["k"].shape == (7, 2) and max(map(len, code.splitlines())) < 70
