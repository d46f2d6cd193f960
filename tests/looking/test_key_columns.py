"""The columns of keys where sinks are joined, padded or written beside them."""

from types import SimpleNamespace

import pytest
import torch

from regard.looking.key_columns import key_columns

X, SINK, BUFFER = torch.zeros(2, 5, 7), torch.zeros(2, 5, 1), torch.zeros(2, 5, 9)


@pytest.mark.parametrize("name, args, expected", [
    ("cat", ([X, SINK], -1), (0, 7)),
    ("cat", ([SINK, X, SINK], 2), (1, 8)),
    ("cat", ([X, X], -1), None),
    ("cat", ([X, X], 1), None),
    ("pad", (X, (2, 1)), (2, 9)),
    ("pad", (X, (0, 0, 0, 1)), None),
    ("pad", (X, (-1, 0)), None),
    ("setitem", (BUFFER, (..., slice(2, None)), X), (2, 9)),
    ("setitem", (BUFFER, (slice(None), slice(None), slice(7)), X), (0, 7)),
    ("setitem", (BUFFER, (slice(None), slice(7)), X), None),
    ("setitem", (BUFFER, (..., slice(1), slice(7)), X), None),
    ("mul", (X, 2), None),
])  # fmt: skip
def test_columns_of_keys_are_those_that_are_followed(name, args, expected):
    trace = SimpleNamespace(columns=None)
    assert key_columns(name, args, {}, lambda x: trace if x is X else None) == expected
