"""A tensor that a product became knows its rows and keys, and tensors are found in arguments."""

import torch

from regard.looking.cell_axes import CellAxes
from regard.looking.score_traces import ProductOrigin, ScoreTrace, replace_tensors, tensors_in

Q, K = torch.zeros(2, 3, 5, 4), torch.zeros(2, 3, 7, 4)


def trace(axes, columns=None):
    origin = ProductOrigin([], 3, (2,), has_edit=False, rows=lambda: (Q, K))
    return ScoreTrace(origin, axes=axes, columns=columns)


def test_rows_are_those_of_the_operand_whose_axis_is_last():
    assert trace(CellAxes(2, 3, None, has_rows=True)).rows(4)() == (Q, K)
    assert trace(CellAxes(3, 2, None, has_rows=True)).rows(4)() == (K, Q)
    assert trace(CellAxes(2, 3)).rows(4) is None
    assert trace(CellAxes(1, 2, None, has_rows=True)).rows(4) is None


def test_columns_count_where_they_are_the_last_axis():
    assert trace(CellAxes(columns=3), (1, 8)).columns_at_softmax(4) == (1, 8)
    assert trace(CellAxes(columns=2), (1, 8)).columns_at_softmax(4) is None


def test_queries_that_lie_before_heads_are_put_behind_them():
    found = trace(CellAxes(1, 3)).layout(torch.Size((2, 5, 3, 7)))
    assert found.to_bhqk(torch.zeros(2, 5, 3, 7)).shape == (2, 3, 5, 7)


def test_tensors_are_found_and_replaced_in_lists_and_by_name():
    given = (Q, [K, 1], {"out": Q})
    assert all(a is b for a, b in zip(tensors_in(given), (Q, K, Q), strict=True))
    assert replace_tensors(given, {id(Q): 2}) == (2, [K, 1], {"out": 2})
