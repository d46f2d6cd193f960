"""An axis says what it holds, and refuses what does not fit."""

import pytest
import torch

from regard.view.traces.axes import (
    MAX_AXIS_LENGTH,
    Grid,
    Points,
    Slots,
    Steps,
    Tokens,
)


def test_every_axis_has_a_label_for_each_place():
    points = torch.zeros(3, 2)
    axes = [Tokens("a", ["x", "y"]), Grid("b", 2, 3), Slots("c", 4), Points("d", points)]
    for axis in [*axes, Steps("e", ["1"])]:
        assert len(axis.labels) == axis.size
    assert Grid("b", 2, 3).labels == ("0,0", "0,1", "0,2", "1,0", "1,1", "1,2")


def test_neighbours_of_one_number_make_a_word():
    assert Tokens("a", list("abcde"), words=[0, 0, None, None, 0]).word_groups() == [
        [0, 1],
        [2],
        [3],
        [4],
    ]
    assert Tokens("a", list("ab")).word_groups() == [[0], [1]]


@pytest.mark.parametrize("id", ["", "../x", "a/b", "a..b", ".hidden", "a b", "a\n", "é", "x" * 101])
def test_an_id_that_could_not_name_a_file_is_refused(id):
    with pytest.raises(ValueError, match=r"^Slots: expected an id of letters, digits"):
        Slots(id, 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"labels": ["a", 3]}, r"Tokens 's': expected label 1 as a string, got 3 of type int"),
        ({"labels": ["\ud800"]}, "expected label 0 as valid Unicode"),
        ({"labels": "ab"}, "expected labels as a list of strings, got one string"),
        ({"labels": []}, "expected number of labels from 1 to"),
        ({"labels": ["a"], "words": [0, 1]}, "a word for each of 1 labels, got 2"),
        ({"labels": ["a"], "words": [-1]}, "expected words as whole numbers from 0 to"),
        ({"labels": ["a"], "special": [1]}, "expected special as whole numbers from 0 to 0, got 1"),
        ({"labels": ["a"], "special": [True]}, "expected special as whole numbers"),
        ({"labels": ["a", "b"], "words": [0, 0], "names": ["a", "b"]}, "each of 1 words, got 2"),
    ],
)
def test_tokens_that_do_not_fit_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        Tokens("s", **given)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (torch.rand(4, 5, 3), r"\(C, Y, X\) with C = 1 or 3, got \(4, 5, 3\). Channels come first"),
        (torch.rand(4, 5), r"expected image of shape \(C, Y, X\), got \(4, 5\)"),
        (torch.full((1, 2, 2), 1.5), "expected image from 0 to 1, got 1.5 to 1.5"),
        (torch.full((1, 2, 2), torch.nan), "expected image of finite numbers"),
        (torch.zeros(1, 2, 2, dtype=torch.int64), "expected image as a float tensor"),
    ],
)
def test_an_image_that_does_not_fit_is_refused(image, message):
    with pytest.raises(ValueError, match=message):
        Grid("g", 2, 2, image)


def test_an_image_of_bytes_is_taken():
    assert Grid("g", 2, 2, torch.full((3, 4, 4), 255, dtype=torch.uint8)).size == 4


@pytest.mark.parametrize("count", [0, -1, MAX_AXIS_LENGTH + 1, True])
def test_sizes_beyond_any_picture_are_refused(count):
    with pytest.raises(ValueError, match=f"expected count from 1 to {MAX_AXIS_LENGTH}"):
        Slots("s", count)
    with pytest.raises(ValueError, match=f"expected rows from 1 to {MAX_AXIS_LENGTH}"):
        Grid("g", count, 1)


def test_a_grid_too_large_as_a_whole_is_refused():
    with pytest.raises(ValueError, match="expected size from 1 to"):
        Grid("g", MAX_AXIS_LENGTH, 2)


def test_points_that_are_nowhere_are_refused():
    with pytest.raises(ValueError, match=r"expected xy of shape \(n, two=2\), got \(2, 3\)"):
        Points("p", torch.zeros(2, 3))
    with pytest.raises(ValueError, match="expected xy of finite numbers"):
        Points("p", torch.full((1, 2), torch.inf))
