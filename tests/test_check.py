"""Errors say where, what was expected and what came."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from regard import check


def test_a_shape_is_written_with_its_letters():
    assert check.format_shape({"B": 2, "K": None, "D": 11}) == "(B=2, K, D=11)"


def test_a_tensor_of_the_right_shape_passes():
    check.shape("here", "x", torch.ones(2, 3), B=2, K=None)


@pytest.mark.parametrize("given", [(2,), (3, 5), (2, 5, 1)], ids=str)
def test_a_tensor_of_another_shape_is_refused(given):
    with pytest.raises(ValueError, match=r"here: expected x of shape \(B=2, K\), got \("):
        check.shape("here", "x", torch.ones(given), B=2, K=None)


def test_what_is_no_tensor_has_no_shape():
    with pytest.raises(ValueError, match=r"here: expected x as a tensor, got 3 of type int"):
        check.shape("here", "x", 3, B=2)


@pytest.mark.parametrize("given", [(), (7,), (1, 7), (5, 1), (5, 7)], ids=str)
def test_what_broadcasts_without_growing_passes(given):
    check.broadcastable("here", "x", torch.ones(given), Q=5, K=7)


@pytest.mark.parametrize("given", [(5,), (7, 5), (1, 5, 7), (2, 7)], ids=str)
def test_what_does_not_broadcast_is_refused(given):
    with pytest.raises(ValueError, match=r"here: expected x that broadcasts to \(Q=5, K=7\), got"):
        check.broadcastable("here", "x", torch.ones(given), Q=5, K=7)


@pytest.mark.parametrize("given", [torch.ones(2), torch.ones(2).bool(), [1, 2]], ids=type)
def test_only_whole_numbers_are_integers(given):
    with pytest.raises(ValueError, match="here: expected x as a tensor of integers, got"):
        check.integers("here", "x", given)


@pytest.mark.parametrize("given", [torch.ones(2).long(), 1.0], ids=type)
def test_only_a_float_tensor_is_one(given):
    with pytest.raises(ValueError, match="here: expected x as a float tensor, got"):
        check.floats("here", "x", given)


def test_a_kind_is_said_in_words():
    assert check.describe_kind(torch.ones(1).half()) == "a tensor of float16"
    assert check.describe_kind("x") == "'x' of type str"


def test_values_on_the_cpu_can_be_read():
    assert check.can_read_values(torch.ones(1))
    assert not check.can_read_values(torch.ones(1, device="meta"))


def test_a_source_is_tokens_and_how_many_of_each_row_count():
    tokens = torch.ones(2, 3, dtype=torch.long)
    check.token_batch("here", (tokens, torch.tensor([3, 1])))
    with pytest.raises(ValueError, match=r"here: expected source of shape \(B, S\), got \(2,\)"):
        check.token_batch("here", (tokens[:, 0], torch.tensor([3, 1])))
    with pytest.raises(ValueError, match=r"here: expected lengths of shape \(B=2\), got \(1,\)"):
        check.token_batch("here", (tokens, torch.tensor([3])))
    for wrong in ([0, 1], [4, 1]):
        with pytest.raises(ValueError, match="here: expected lengths from 1 to S=3, got"):
            check.token_batch("here", (tokens, torch.tensor(wrong)))


def test_memory_counts_all_that_is_inside():
    inner = ["a" * 1000] * 3
    assert check.memory_bytes({"a": inner}) > 3000
    assert check.memory_bytes((1, 2.0, None)) < 500


def test_what_came_is_told_in_one_bounded_line():
    assert check.describe_kind(np.zeros((500, 64))) == "ndarray of float64 and shape (500, 64)"
    assert check.describe_kind(list(range(10_000))) == "[0, 1, 2, 3, 4, 5, ...] of type list"
    assert len(check.describe_kind("long " * 1000)) < 130 and "\n" not in check.describe_kind(
        "a\nb"
    )
    assert check.describe_kind(10**5000) == "an integer of 16610 bits of type int"
    assert check.brief_text([1, 2]) == "[1, 2]"


def test_a_float_for_storing_alone_is_refused_with_a_way_out():
    eighth = torch.zeros(2).to(torch.float8_e5m2)
    with pytest.raises(ValueError, match=r"a: expected x in float16, .* got a tensor of float8_e5"):
        check.floats("a", "x", eighth)


@pytest.mark.parametrize("given", [2**62, 10**5000, -1, True, 1.0], ids=type)
def test_a_whole_number_is_no_more_than_positions_can_be(given):
    with pytest.raises(ValueError, match=r"a: expected (a whole n >= 0|n below 2\^62), got "):
        check.whole_number("a", "n", given)
    check.whole_number("a", "n", 2**62 - 1)


def test_fields_of_a_config_are_refused_by_their_names():
    config = SimpleNamespace(width=1, layers=0, dropout=0.0, share=1.0, nothing=float("nan"))
    check.positive_fields("Net", config, "width")
    with pytest.raises(ValueError, match=r"^Net: expected layers of at least 1, got 0$"):
        check.positive_fields("Net", config, "width", "layers")
    check.dropout_fields("Net", config, "dropout")
    with pytest.raises(ValueError, match=r"^Net: expected share in \[0, 1\), got 1.0$"):
        check.dropout_fields("Net", config, "dropout", "share")
    with pytest.raises(ValueError, match=r"^Net: expected nothing in \[0, 1\), got nan$"):
        check.dropout_fields("Net", config, "nothing")


def test_what_is_not_below_a_limit_is_refused():
    check.below("a", "x", 4, 5, "K")
    with pytest.raises(ValueError, match="a: expected x below K=5, got 5"):
        check.below("a", "x", 5, 5, "K")


def test_nothing_can_be_read_of_fake_tensors_or_under_a_transform():
    x = torch.ones(3)
    assert check.can_read_values(x)
    assert not torch.func.vmap(lambda row: row * check.can_read_values(row))(x).any()
    with FakeTensorMode():
        assert not check.can_read_values(torch.ones(3))


@pytest.mark.parametrize("given", [torch.ones(3), "x", None, True, 1j])
def test_only_a_real_number_is_one(given):
    with pytest.raises(ValueError, match="window: expected reach as a number, got "):
        check.number("window", "reach", given)
    check.number("window", "reach", np.float32(1.5))


def test_a_complex_tensor_cannot_be_computed_with():
    with pytest.raises(ValueError, match="got a tensor of complex64"):
        check.supported_dtype("Cosine", "strength", torch.ones(3) + 0j)
