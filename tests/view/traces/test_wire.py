"""What goes over the wire is near what is there, and what one reads is exact."""

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.view import Map
from regard.view.traces import wire

SIZES = st.tuples(st.integers(1, 200), st.integers(1, 200))


def placed(weights):
    """A map of one head, or of several, with its sizes."""
    weights = weights if weights.dim() == 4 else weights[None, None]
    sizes = tuple(weights.shape[2:])
    return Map("m", "q", "k", weights, *weights.shape[:2], sizes=sizes)


def decoded(data, *shape):
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).reshape(shape).float() / 255


def test_a_weight_by_hand():
    given = torch.tensor([0, 0.25, 1.0, 1.0005, 1e-5])
    assert wire.to_sqrt_bytes(given).tolist() == [0, 128, 255, 255, 1]


def test_every_weight_is_off_by_less_than_four_thousandths():
    p = torch.linspace(0, 1, 1_000_001, dtype=torch.float64)
    read = (wire.to_sqrt_bytes(p).double() / 255) ** 2
    assert float((read - p).abs().max()) < 0.0040
    assert bool((wire.to_sqrt_bytes(p).diff() >= 0).all())


@given(SIZES)
def test_rows_read_back_sum_to_nearly_what_they_did_and_nothing_appears(sizes):
    weights = torch.randn(sizes).mul(4).softmax(-1)
    weights[:, 0] = 0
    read = decoded(wire.tile_bytes(placed(weights), 0, 0, level=0, row=0, column=0), *sizes) ** 2
    assert bool((read[:, 0] == 0).all())
    assert float((read - weights).abs().max()) < 0.0040


@given(SIZES, st.integers(1, 70), st.integers(1, 70))
def test_a_pooled_cell_is_the_greatest_of_its_bin_and_every_weight_is_in_one(sizes, rows, columns):
    (Q, K), weights = sizes, torch.rand(sizes)
    rows, columns = min(rows, Q), min(columns, K)
    expected = torch.zeros(rows, columns)
    bins = (torch.arange(Q) * rows // Q)[:, None] * columns + torch.arange(K) * columns // K
    expected.view(-1).scatter_reduce_(0, bins.flatten(), weights.flatten(), "amax")
    assert torch.equal(wire.max_pool(weights, rows, columns), expected)


@pytest.mark.parametrize(("Q", "K"), [(512, 512), (67, 130), (3, 65), (64, 1)])
def test_thumbs_are_every_head_made_small(Q, K):
    weights = torch.randn(2, 3, Q, K).softmax(-1)
    h, w = wire.thumbnail_size(Q, K)
    assert (h, w) == (min(Q, 64), min(K, 64))
    found = decoded(wire.thumbnail_bytes(placed(weights)), 2, 3, h, w)
    assert torch.equal(found.amax((2, 3)) * 255, wire.to_sqrt_bytes(weights.amax((2, 3))).float())
    assert torch.equal(
        found[1, 2] * 255, wire.to_sqrt_bytes(wire.max_pool(weights[1, 2], h, w)).float()
    )


@pytest.mark.parametrize(
    ("sizes", "count"),
    [((1, 1), 1), ((512, 512), 1), ((513, 2), 2), ((4096, 7), 4), ((4097, 7), 5)],
)
def test_a_head_is_halved_until_one_tile_holds_it(sizes, count):
    assert wire.level_count(*sizes) == count


@given(st.integers(1, 1300), st.integers(1, 1300), st.integers(0, 2))
def test_the_tiles_of_a_level_are_the_pooled_head(Q, K, level):
    weights = torch.rand(Q, K) / K
    level = min(level, wire.level_count(Q, K) - 1)
    by, shape = 2**level, (-(-Q // 2**level), -(-K // 2**level))
    starts = [numpy.arange(0, size, by) for size in (Q, K)]
    cells = numpy.maximum.reduceat(weights.numpy(), starts[0], axis=0)
    whole = wire.to_sqrt_bytes(torch.from_numpy(numpy.maximum.reduceat(cells, starts[1], axis=1)))
    for r in range(-(-shape[0] // 512)):
        for c in range(-(-shape[1] // 512)):
            part = whole[512 * r : 512 * (r + 1), 512 * c : 512 * (c + 1)]
            found = wire.tile_bytes(placed(weights), 0, 0, level=level, row=r, column=c)
            assert found == part.numpy().tobytes()


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ({"level": 2}, "level: expected 0 to 1, got 2"),
        ({"row": 2}, "row: expected 0 to 1, got 2"),
        ({"column": 1}, "column: expected 0 to 0, got 1"),
        ({"level": 1, "row": 1}, "row: expected 0 to 0, got 1"),
    ],
)
def test_a_tile_that_is_not_there_is_refused(where, words):
    weights = torch.full((513, 3), 0.25)
    with pytest.raises(ValueError, match=words):
        wire.tile_bytes(placed(weights), 0, 0, **{"level": 0, "row": 0, "column": 0} | where)


def test_a_row_is_exact_and_little_endian():
    weights = torch.randn(2, 3, 5, 7).softmax(-1)
    found = numpy.frombuffer(wire.row_bytes(placed(weights), 1, 2, 4), "<f4")
    assert found.tolist() == weights[1, 2, 4].tolist()
    with pytest.raises(ValueError, match="query: expected 0 to 4, got 5"):
        wire.row_bytes(placed(weights), 1, 2, 5)


def test_a_picture_goes_as_bytes_whichever_way_it_was_kept():
    floats = torch.tensor([[[0.0, 0.5, 1.0]]])
    assert wire.image_bytes(floats) == bytes([0, 128, 255])
    assert wire.image_bytes(torch.tensor([[[1, 2, 3]]], dtype=torch.uint8)) == bytes([1, 2, 3])
    assert wire.float32_bytes(torch.tensor([[1.0], [2.0]]).T) == b"\0\0\x80?\0\0\0@"


@pytest.mark.parametrize(("rows", "columns"), [(7, 5), (64, 64), (100, 3)])
def test_a_large_head_is_pooled_as_a_small_one(rows, columns, monkeypatch):
    weights = torch.rand(301, 257).half()
    small = wire.max_pool(weights, rows, columns)
    monkeypatch.setattr(wire, "MAX_COPIED_WEIGHTS", 100)
    assert torch.equal(wire.max_pool(weights, rows, columns), small)
