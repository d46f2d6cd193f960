"""The axes of cells are followed through other orders and shapes, and unknown after moves."""

import pytest
import torch
from torch import Tensor

from regard.looking.cell_axes import UNKNOWN_AXES, CellAxes

B, H, Q, K = 2, 3, 5, 7
CELLS = CellAxes(2, 3, None, has_rows=True)


@pytest.mark.parametrize("name, args, function, expected", [
    ("mul", (2,), Tensor.mul, CELLS),
    ("transpose", (-1, -2), Tensor.transpose, CellAxes(3, 2, None, True)),
    ("permute", (0, 2, 3, 1), Tensor.permute, CellAxes(1, 2, None, True)),
    ("permute", (1, 0, 2, 3), Tensor.permute, CellAxes(2, 3, None, False)),
    ("view", (B * H, Q, K), Tensor.view, CellAxes(1, 2, None, True)),
    ("unsqueeze", (0,), Tensor.unsqueeze, CellAxes(3, 4, None, True)),
    ("view", (B, H, K, Q), Tensor.view, UNKNOWN_AXES),
    ("flip", (-1,), Tensor.flip, UNKNOWN_AXES),
    ("pad", ((0, 1),), torch.nn.functional.pad, CellAxes(2, 3, 3, True)),
    ("pad", ((0, 0, 0, 1),), torch.nn.functional.pad, UNKNOWN_AXES),
])  # fmt: skip
def test_axes_are_where_a_function_puts_them(name, args, function, expected):
    x = torch.randn(B, H, Q, K)
    found = CELLS.output_axes(
        name, (x, *args), x, function(x, *args), lambda other: function(other, *args)
    )
    assert found == expected


def test_columns_stay_where_rows_are_split_and_are_lost_where_they_are_cut():
    axes, x = CellAxes(2, 3, 3, has_rows=True), torch.randn(B, H, Q, K)
    for shape, columns in (((B, H * Q, K), 2), ((B, H, K, Q), None)):
        found = axes.output_axes(
            "view", (x, *shape), x, x.view(shape), lambda other, shape=shape: other.view(shape)
        )
        assert found.columns == columns


def test_the_queries_are_the_axis_of_the_other_operand_than_the_last():
    assert CELLS.query_axis(4) == 2 and CellAxes(3, 1).query_axis(4) == 1
    assert CellAxes(1, 2).query_axis(4) is None
