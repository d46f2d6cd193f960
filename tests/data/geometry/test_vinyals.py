"""Files of Vinyals: read as they are written, and refused by file and line where they are wrong."""

import gzip
import re

import numpy as np
import pytest

from regard.data.download import data_folders
from regard.data.geometry.vinyals import parse_line, read_instances, write_instances

PLACE = "pointer_vinyals/convex_hull_5_test.txt.gz"
published = [folder / PLACE for folder in data_folders() if (folder / PLACE).is_file()]
needs_published = pytest.mark.skipif(
    not published, reason=f"needs {PLACE} in the folder of REGARD_DATA, which is not there"
)


def test_a_line_by_hand():
    points, answer = parse_line("line", "0.5 1 2e-1 .25 3 4 output 3 1 2 3 ")
    assert points.tolist() == [[0.5, 1], [0.2, 0.25], [3, 4]]
    assert answer == [2, 0, 1]


def test_triangles_that_begin_and_end_alike_are_not_closed():
    _, answer = parse_line("line", "0 0 1 0 1 1 0 1 output 1 2 3 3 4 1")
    assert answer == [0, 1, 2, 2, 3, 0]


def test_one_file_may_have_lines_of_different_sizes(tmp_path):
    (tmp_path / "a.txt").write_text("0 0 1 0 1 1 output 1 2 3 1\n0 1 output\n")
    (first, one), (second, other) = read_instances(tmp_path / "a.txt")
    assert (first.shape, one) == ((3, 2), [0, 1, 2])
    assert (second.shape, other) == ((1, 2), [])


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize("closed", [True, False])
def test_what_is_written_is_read_again_to_the_last_digit(tmp_path, name, closed):
    random = np.random.default_rng(0)
    pairs = [(random.normal(size=(n, 2)), random.permutation(n).tolist()) for n in (2, 5, 11)]
    found = read_instances(write_instances(tmp_path / name, pairs, closed=closed))
    for (points, answer), (same, again) in zip(pairs, found, strict=True):
        assert np.array_equal(points, same)
        assert answer == again


def test_zipped_files_are_bit_equal_whenever_they_are_written(tmp_path):
    pairs = [(np.array([[0.0, 1.0], [2, 3]]), [1, 0])]
    first = write_instances(tmp_path / "a.gz", pairs).read_bytes()
    assert first == write_instances(tmp_path / "b.gz", pairs).read_bytes()
    assert gzip.decompress(first) == b"0.0 1.0 2.0 3.0 output 2 1 2\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0 1 2 output 1", "expected two numbers a point, got 3 numbers"),
        ("output 1", "expected two numbers a point, got 0 numbers"),
        ("0 1 2 3 1 2 1", "expected the word 'output' once, got it 0 times"),
        ("0 1 output 1 output 1", "expected the word 'output' once, got it 2 times"),
        ("", "expected the word 'output' once, got it 0 times"),
        ("0 nan output 1", "expected a finite number, got 'nan'"),
        ("0 inf output 1", "expected a finite number, got 'inf'"),
        ("0 one output 1", "expected a finite number, got 'one'"),
        ("0 1 output 0", "expected an index from 1 to 1, got '0'"),
        ("0 1 output 2", "expected an index from 1 to 1, got '2'"),
        ("0 1 2 3 output -1", "expected an index from 1 to 2, got '-1'"),
        ("0 1 2 3 output 1.5", "expected an index from 1 to 2, got '1.5'"),
        ("0 1 2 3 output ²", "expected an index from 1 to 2, got '²'"),
    ],
)
def test_wrong_lines_are_refused_by_file_and_number(tmp_path, line, message):
    path = tmp_path / "a.txt"
    path.write_text(f"0 1 output 1\n{line}\n")
    with pytest.raises(ValueError, match=re.escape(f"read_instances: {path}, line 2: {message}")):
        read_instances(path)


def test_files_without_a_line_are_refused(tmp_path):
    (tmp_path / "a.txt").touch()
    with pytest.raises(
        ValueError, match="read_instances: expected a line of points or more, got none in"
    ):
        read_instances(tmp_path / "a.txt")
    with pytest.raises(ValueError, match="read_instances: expected a file, got nothing at"):
        read_instances(tmp_path / "b.txt")


@pytest.mark.parametrize(
    ("answer", "closed", "message"),
    [
        (
            [0, 1, 0],
            True,
            r"different points, or of triangles that are not closed, got \[0, 1, 0\]",
        ),
        ([0, 1, 0], False, r"different points, or of triangles that are not closed, got \[0, 1"),
        ([0, 2], True, "line 1: expected an index from 1 to 2, got '3'"),
        ([-1], True, "line 1: expected an index from 1 to 2, got '0'"),
    ],
)
def test_what_would_not_be_read_again_is_not_written(tmp_path, answer, closed, message):
    with pytest.raises(
        ValueError, match=f"^write_instances: line 1: .*{message}|^write_instances: {message}"
    ):
        write_instances(tmp_path / "a", [(np.zeros((2, 2)), answer)], closed=closed)
    assert not (tmp_path / "a").exists()


@needs_published
def test_the_published_hulls_are_read_and_written_as_they_are(tmp_path):
    found = read_instances(published[0])
    assert len(found) == 10_000
    assert found[0][1] == [0, 1, 2, 4]
    again = read_instances(write_instances(tmp_path / "a.gz", found))
    assert [answer for _, answer in again] == [answer for _, answer in found]
