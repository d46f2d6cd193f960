"""TSPLIB: ways measured by hand, and the published lengths of published tours."""

import re
import tarfile

import numpy as np
import pytest

from regard.data.download import data_folders
from regard.data.geometry.tsplib import (
    EDGE_WEIGHT_TYPES,
    Problem,
    edge_weights,
    read_problem,
    read_tour,
)

PLACE = "tsplib/tsplib95_tsp_and_tours.tar.xz"

SMALL = """NAME : small
TYPE: TSP (someone)
COMMENT : three cities, not in order
DIMENSION : 3
EDGE_WEIGHT_TYPE : EUC_2D
FIXED_EDGES_SECTION
1 3
-1
NODE_COORD_SECTION
 2 3 0
 1 0 0.0
 3 3.0e0 4
"""
TOUR = "NAME : small.tour\nTYPE : TOUR\nDIMENSION : 3\nTOUR_SECTION\n 3 1\n2\n-1\nEOF\n"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The folder of the unpacked library, where it is at hand."""
    packed = [folder / PLACE for folder in data_folders() if (folder / PLACE).is_file()]
    if not packed:
        pytest.skip(f"needs {PLACE} in the folder of REGARD_DATA, which is not there")
    unpacked = tmp_path_factory.mktemp("tsplib")
    with tarfile.open(packed[0]) as archive:
        archive.extractall(unpacked, filter="data")
    return unpacked


def write(folder, content, name="small.tsp"):
    (folder / name).write_text(content)
    return folder / name


@pytest.mark.parametrize("end", ["", "EOF\n", "EOF\nwhat stands behind does not count\n"])
def test_cities_come_in_the_order_of_their_numbers(tmp_path, end):
    problem = read_problem(write(tmp_path, SMALL + end))
    assert (problem.name, problem.edge_weight_type) == ("small", "EUC_2D")
    assert problem.points.tolist() == [[0, 0], [3, 0], [3, 4]]
    assert problem.distances().tolist() == [[0, 3, 5], [3, 0, 4], [5, 4, 0]]
    assert problem.length([2, 0, 1]) == 12


@pytest.mark.parametrize("kind", EDGE_WEIGHT_TYPES)
def test_a_remark_behind_the_kind_does_not_count(tmp_path, kind):
    problem = read_problem(write(tmp_path, SMALL.replace("EUC_2D", f"{kind} (rounded)")))
    assert problem.edge_weight_type == kind
    assert problem.length([0, 1, 2]) > 0


def test_a_tour_is_counted_from_zero(tmp_path):
    for content in (TOUR, TOUR.replace("DIMENSION : 3\n", ""), TOUR.replace("-1\nEOF\n", "")):
        assert read_tour(write(tmp_path, content, "small.tour")) == [2, 0, 1]


@pytest.mark.parametrize(
    ("kind", "x", "expected"),
    [
        *[("EUC_2D", x, way) for x, way in ((1.49, 1), (1.5, 2), (2.5, 3))],
        *[("CEIL_2D", x, way) for x, way in ((1.0, 1), (1.01, 2))],
        # the root of a tenth of the square
        *[("ATT", x, way) for x, way in ((3.0, 1), (3.2, 2), (31.0, 10))],
        # one degree, then half a degree and a whole one, of a circle of 40,076 kilometres
        *[("GEO", x, way) for x, way in ((0.0, 1), (1.0, 112), (0.3, 56), (-1.0, 112))],
    ],
)
def test_ways_are_rounded_by_hand(kind, x, expected):
    assert edge_weights(kind, np.zeros((1, 2)), np.array([[x, 0.0]])) == [expected]


@pytest.mark.parametrize("kind", EDGE_WEIGHT_TYPES)
def test_distances_are_the_same_both_ways_and_make_up_a_length(kind):
    points = np.random.default_rng(0).uniform(-90, 90, (7, 2))
    problem = Problem("any", kind, points)
    apart = problem.distances()
    assert (apart == apart.T).all() and not apart.diagonal().any()
    assert problem.length([*range(7)]) == sum(apart[k - 1, k] for k in range(7))


@pytest.mark.parametrize(
    ("name", "published"),
    [
        *[("berlin52", 7542), ("a280", 2579), ("pr1002", 259045), ("rd100", 7910)],
        *[("att48", 10628), ("ulysses16", 6859), ("ulysses22", 7013), ("gr96", 55209)],
        *[("gr202", 40160), ("gr666", 294358)],
    ],
)
def test_published_tours_have_their_published_lengths(library, name, published):
    tour = read_tour(library / "tour" / f"{name}.opt.tour")
    assert read_problem(library / "tsp" / f"{name}.tsp").length(tour) == published


def test_every_file_is_read_or_refused_for_its_kind(library):
    kinds = []
    for path in sorted((library / "tsp").glob("*.tsp")):
        try:
            kinds.append(read_problem(path).edge_weight_type)
        except ValueError as error:
            assert re.search(r"EUC_2D, CEIL_2D, ATT or GEO, got (EXPLICIT|XRAY[12])$", str(error))
    assert [kinds.count(kind) for kind in EDGE_WEIGHT_TYPES] == [78, 4, 2, 10]
    assert len([read_tour(path) for path in (library / "tour").glob("*.tour")]) == 41


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("TYPE: TSP", "TYPE: ATSP", ": expected TYPE TSP, got ATSP (someone)"),
        ("TYPE: TSP (someone)\n", "", ": expected TYPE TSP, got nothing"),
        ("EUC_2D", "EXPLICIT", "_TYPE EUC_2D, CEIL_2D, ATT or GEO, got EXPLICIT"),
        ("EDGE_WEIGHT_TYPE : EUC_2D\n", "", "EUC_2D, CEIL_2D, ATT or GEO, got nothing"),
        ("DIMENSION : 3", "DIMENSION : 5", "as many cities as DIMENSION, 5, got 3"),
        ("DIMENSION : 3", "DIMENSION : many", "as many cities as DIMENSION, many, got 3"),
        (" 2 3 0\n 1 0 0.0\n 3 3.0e0 4\n", "", ": expected a city or more, got none"),
        (" 2 3 0", " 2 3 nan", ", line 10: expected the number of a city and two coordinates"),
        (" 2 3 0", " 2 3 inf", "a city and two coordinates, got '2 3 inf'"),
        (" 2 3 0", " 2 3", "a city and two coordinates, got '2 3'"),
        (" 2 3 0", " 2 3 0 0", "a city and two coordinates, got '2 3 0 0'"),
        (" 2 3 0", " 2 x 0", "a city and two coordinates, got '2 x 0'"),
        (" 2 3 0", " 2.5 3 0", "a city and two coordinates, got '2.5 3 0'"),
        (" 2 3 0", " 1 3 0", ", line 11: expected another city, got 1 again"),
        (" 2 3 0", " 7 3 0", ": expected cities from 1 to 3, got 7"),
        ("NAME : small", "small", ", line 1: expected a keyword, got 'small'"),
    ],
)
def test_wrong_problems_are_refused(tmp_path, old, new, message):
    assert old in SMALL
    path = write(tmp_path, SMALL.replace(old, new))
    said = f"^read_problem: {re.escape(str(path))}.*{re.escape(message)}"
    with pytest.raises(ValueError, match=said):
        read_problem(path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("TYPE : TOUR", "TYPE : TSP", ": expected TYPE TOUR, got TSP"),
        ("DIMENSION : 3", "DIMENSION : 5", "as many cities as DIMENSION, 5, got 3"),
        (" 3 1", " 3 3", ": expected each city from 1 to 3 once, got another tour"),
        (" 3 1", " 4 1", ": expected each city from 1 to 3 once, got another tour"),
        (" 3 1", " 3 x", ", line 5: expected the number of a city, got 'x'"),
        (" 3 1", " -1", ": expected a city or more, got none"),
    ],
)
def test_wrong_tours_are_refused(tmp_path, old, new, message):
    path = write(tmp_path, TOUR.replace(old, new), "small.tour")
    with pytest.raises(ValueError, match=f"^read_tour: .*{re.escape(message)}"):
        read_tour(path)


def test_a_tour_that_leaves_out_a_city_has_no_length(tmp_path):
    problem = read_problem(write(tmp_path, SMALL))
    message = "^length: expected each of the 3 cities of small once, got 3 of which 2 are different"
    with pytest.raises(ValueError, match=message):
        problem.length([0, 1, 1])


def test_files_that_are_not_there_are_refused(tmp_path):
    for reads in (read_problem, read_tour):
        with pytest.raises(
            ValueError, match=rf"^{reads.__name__}: expected a file, got nothing at"
        ):
            reads(tmp_path / "absent")
