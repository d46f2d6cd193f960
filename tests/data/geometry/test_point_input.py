"""Points of persons: read from anything that is clear, and refused by line where it is not."""

import gzip
import re

import numpy as np
import pytest

from regard.data.geometry import point_input, vinyals
from regard.data.geometry.point_input import read_points

POINTS = [[0.1, 0.2], [0.5, 0.9], [0.4, 0.3]]

TABLES = {
    "commas": "0.1,0.2\n0.5,0.9\n0.4,0.3\n",
    "semicolons": "0.1;0.2\n0.5; 0.9\n0.4;0.3",
    "tabs": "0.1\t0.2\n0.5\t0.9\n0.4\t0.3\n",
    "blanks": "  0.1 0.2\r\n0.5   0.9\r\n\r\n# a remark\r\n0.4 0.3\r\n",
    "names": "city,y,X\nBerlin,0.2,0.1\nParis,0.9,0.5\nRome,0.3,0.4\n",
    "other names": 'name;lat;lon\n"a;b";1e-1;0.2\nb;5e-1;.9\nc;+0.4;0.3',
    "no names": "Berlin 0.1 0.2\nParis 0.5 0.9\nRome 0.4 0.3",
}


def put(folder, content, name="points.csv"):
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder / name


@pytest.mark.parametrize(
    "typed",
    [
        *["0.1,0.2 0.5,0.9 0.4,0.3", " 0.1, 0.2  0.5 ,0.9 0.4,0.3 ", "0.1,0.2; 0.5,0.9; 0.4,0.3"],
        *[TABLES["commas"], TABLES["names"]],
    ],
)
def test_points_are_read_as_they_are_typed(typed):
    found = read_points(typed)
    assert found.tolist() == POINTS
    assert found.dtype == np.float64


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
@pytest.mark.parametrize("name", ["points.csv", "points.TXT", "points.tsv.gz", "points"])
def test_points_are_read_from_tables(tmp_path, table, name):
    content = gzip.compress(table.encode()) if name.endswith("gz") else table
    path = put(tmp_path, content, name)
    assert read_points(path).tolist() == read_points(str(path)).tolist() == POINTS


@pytest.mark.parametrize(
    "content",
    ["0.5 0.2 0.9", "0.5, 0.2, 0.9", "0.5\n0.2\n0.9\n", "x\n0.5\n0.2\n0.9", "0.5;0.2;0.9"],
)
def test_numbers_are_read_as_points_of_one_column(tmp_path, content):
    assert read_points(content, columns=1).tolist() == [[0.5], [0.2], [0.9]]
    assert read_points(put(tmp_path, content), columns=1).tolist() == [[0.5], [0.2], [0.9]]


def test_points_are_read_from_one_line_of_vinyals(tmp_path):
    pair = (np.array(POINTS), [0, 2, 1])
    assert read_points(vinyals.write_instances(tmp_path / "a.txt", [pair])).tolist() == POINTS
    path = vinyals.write_instances(tmp_path / "b.txt.gz", [pair, pair])
    message = f"read_points: {path}: expected one line of points, got 2 lines"
    with pytest.raises(ValueError, match=re.escape(message)):
        read_points(path)


def test_points_are_read_from_tsplib(tmp_path):
    head = "NAME : a\nTYPE : TSP\nDIMENSION : 2\nEDGE_WEIGHT_TYPE : EUC_2D\nNODE_COORD_SECTION\n"
    assert read_points(put(tmp_path, f"{head}1 3 4\n2 5 6\nEOF\n", "a.tsp")).tolist() == [
        [3, 4],
        [5, 6],
    ]
    path = put(tmp_path, head.replace("EUC_2D", "EXPLICIT"), "b.tsp")
    with pytest.raises(ValueError, match=re.escape(f"hull: {path}: expected EDGE_WEIGHT_TYPE")):
        read_points(path, where="hull")
    with pytest.raises(
        ValueError, match=r"read_points: expected numbers, got points of the plane in .*a"
    ):
        read_points(tmp_path / "a.tsp", columns=1)


@pytest.mark.parametrize("kind", ["EUC_2D", "CEIL_2D", "EUC_2D (rounded)"])
def test_cities_of_tsplib_that_straight_lines_measure_are_read(tmp_path, kind):
    content = f"TYPE : TSP\nEDGE_WEIGHT_TYPE : {kind}\nNODE_COORD_SECTION\n1 3 4\n"
    assert read_points(put(tmp_path, content, "a.tsp")).tolist() == [[3, 4]]


@pytest.mark.parametrize("kind", ["GEO", "ATT"])
@pytest.mark.parametrize("columns", [1, 2])
def test_cities_of_tsplib_that_are_measured_otherwise_are_refused(tmp_path, kind, columns):
    content = f"TYPE : TSP\nEDGE_WEIGHT_TYPE : {kind}\nNODE_COORD_SECTION\n1 3 4\n"
    path = put(tmp_path, content, "a.tsp")
    message = (
        f"tsp: {path}: expected EDGE_WEIGHT_TYPE EUC_2D or CEIL_2D, because points of the plane "
        f"are measured by straight lines, got {kind}"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        read_points(path, columns=columns, where="tsp")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x,y\n0.1,0.2\n0.5,high\n", ", line 3: expected a finite number in column 2, got 'high'"),
        ("x,y\n0.1,0.2\n\n0.5,nan\n", ", line 4: expected a finite number in column 2, got 'nan'"),
        ("nan,0.2\n0.1,0.2\n", ", line 1: expected a finite number in column 1, got 'nan'"),
        ("0.1 0.2\n-inf 0.5\n", ", line 2: expected a finite number in column 1, got '-inf'"),
        ("0.1,0.2\n0.5\n", ", line 2: expected a finite number in column 2, got nothing"),
        ("0.1,0.2\n0.5,\n", ", line 2: expected a finite number in column 2, got ''"),
        ("0.1,0.2\n1_000,3\n", ", line 2: expected a finite number in column 1, got '1_000'"),
        ("y,z,x\n0.1,0.2\n", ", line 2: expected a finite number in column 3, got nothing"),
        ("a,b\nc,0.1\n", ", line 2: expected 2 with numbers among its columns, got 'c, 0.1'"),
        ("0.1\n0.2\n", ", line 1: expected 2 with numbers among its columns, got '0.1'"),
        ("", ": expected points, as in 0.1,0.2 0.5,0.9 0.4,0.3, got none"),
        (" \n# nothing\n", ": expected points, as in 0.1,0.2 0.5,0.9 0.4,0.3, got none"),
        ("x,y\n", ": expected points, as in 0.1,0.2 0.5,0.9 0.4,0.3, got 'x,y'"),
        ("0 1 2 output 1\n", ", line 1: expected two numbers a point, got 3 numbers"),
        (f"1,2\n{'3' * 200_000},4\n", ", line 2: expected a line of a table, got one with field"),
    ],
)
def test_wrong_tables_are_refused_by_line(tmp_path, content, message):
    path = put(tmp_path, content)
    with pytest.raises(ValueError, match=f"^who: {re.escape(str(path))}{re.escape(message)}"):
        read_points(path, where="who")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("", "expected points, as in 0.1,0.2 0.5,0.9 0.4,0.3, got none"),
        ("hello", "expected points, as in 0.1,0.2 0.5,0.9 0.4,0.3, got 'hello'"),
        ("0.1,0.2 0.5", "expected points, as in 0.1,0.2 0.5,0.9 0.4,0.3, got '0.5'"),
        ("0.1,0.2,0.3", "expected points, as in 0.1,0.2 0.5,0.9 0.4,0.3, got '0.1,0.2,0.3'"),
        ("0.1,x 0.5,0.9", "expected points, as in 0.1,0.2 0.5,0.9 0.4,0.3, got '0.1,x'"),
        ("0.1,nan", "expected points, as in 0.1,0.2 0.5,0.9 0.4,0.3, got '0.1,nan'"),
        ("0.1,0.2\n0.5,x", "line 2: expected a finite number in column 2, got 'x'"),
        ("absent.csv", "expected a file, got nothing at absent.csv"),
        ("some/where", "expected a file, got nothing at some/where"),
    ],
)
def test_wrong_points_are_refused(typed, message):
    with pytest.raises(ValueError, match=f"^read_points[:,] {re.escape(message)}$"):
        read_points(typed)


def test_wrong_numbers_are_refused():
    with pytest.raises(ValueError, match=r"expected points, as in 0\.4 0\.1 0\.3, got 'x'"):
        read_points("0.5 x", columns=1)


def test_long_texts_are_not_taken_for_files():
    assert len(read_points("0.25,0.5 " * 2000)) == 2000


def test_bytes_and_folders_are_refused(tmp_path):
    with pytest.raises(
        ValueError, match="read_points: expected text, got other bytes in line 2 of"
    ):
        read_points(put(tmp_path, b"1,2\n\xff\xfe,3\n"))
    with pytest.raises(ValueError, match="read_points: expected a file, got the folder"):
        read_points(str(tmp_path))


def test_too_many_points_are_refused(tmp_path, monkeypatch):
    assert point_input.MAX_POINTS == 100_000
    monkeypatch.setattr(point_input, "MAX_POINTS", 1000)
    assert len(read_points("1,2 " * 1000)) == 1000
    with pytest.raises(ValueError, match=r"read_points: expected at most 1,000 points, got 1,001"):
        read_points(put(tmp_path, "1,2\n" * 1001))


@pytest.mark.parametrize("name", ["points.csv", "0.1,0.2", "./points.csv", "/etc/passwd"])
def test_a_text_that_is_parsed_is_never_opened(name, tmp_path, monkeypatch):
    put(tmp_path, "7,8\n9,9\n")
    put(tmp_path, "7,8\n9,9\n", name="0.1,0.2")
    monkeypatch.chdir(tmp_path)
    if name == "0.1,0.2":
        assert point_input.parse_points(name).tolist() == [[0.1, 0.2]]
        assert read_points(name).tolist() == [[7, 8], [9, 9]], "a file of this name is there"
    else:
        with pytest.raises(ValueError, match=r"^parse_points: expected points, as in"):
            point_input.parse_points(name)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_text_that_is_parsed_may_have_every_form_of_a_file(table):
    assert point_input.parse_points(table).tolist() == POINTS


def test_the_home_folder_of_nobody_is_refused():
    with pytest.raises(ValueError, match=r"got '~no-such-user/x\.csv', which stands for none"):
        read_points("~no-such-user/x.csv")
