"""Functions are known by their names, and so is whether they write in place."""

import operator

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.looking import function_kinds


@pytest.mark.parametrize("func, kind, name", [
    (torch.matmul, function_kinds.KIND_PRODUCT, "matmul"),
    (Tensor.__matmul__, function_kinds.KIND_PRODUCT, "matmul"),
    (torch.linalg.matmul, function_kinds.KIND_PRODUCT, "linalg_matmul"),
    (torch.tensordot, function_kinds.KIND_PRODUCT, "tensordot"),
    (Tensor.data.__get__, function_kinds.KIND_PASS, "data"),
    (Tensor.__pow__, function_kinds.KIND_PASS, "pow"),
    (Tensor.mT.__get__, function_kinds.KIND_PASS, "mT"),
    (Tensor.mul_, function_kinds.KIND_PASS, "mul"),
    (F.linear, function_kinds.KIND_PROJECTION, "linear"),
    (torch.special.softmax, function_kinds.KIND_SOFTMAX, "special_softmax"),
    (torch.sum, function_kinds.KIND_OTHER, "sum"),
])  # fmt: skip
def test_a_function_is_of_the_kind_that_its_name_says(func, kind, name):
    assert function_kinds.kind_of(func) == (kind, name)


@pytest.mark.parametrize("func, name, args, expected", [
    (Tensor.mul_, "mul", (1, 2), True),
    (Tensor.__imul__, "imul", (1, 2), True),
    (Tensor.__mul__, "mul", (1, 2), False),
    (F.dropout, "dropout", (1, 0.5, True, True), True),
    (F.dropout, "dropout", (1, 0.5, True), False),
    (operator.setitem, "setitem", (1, 2, 3), True),
])  # fmt: skip
def test_what_writes_into_its_first_argument_is_told(func, name, args, expected):
    assert function_kinds.is_in_place(func, name, args, {}) == expected
    assert function_kinds.is_in_place(func, name, args, {"out": 1})
    assert function_kinds.written_tensors(func, name, args, {}) == ([1] if expected else [])
    assert function_kinds.written_tensors(func, name, args, {"out": 3}) == [3]
