"""Bad input by the command line: one line that says what is wrong, or the right answer."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from regard.cli import console, main
from regard.data.geometry import hulls, vinyals
from regard.recipes import delaunay, hull, sort, tsp
from regard.recipes.pointer import search
from tests.recipes.pointer.untrained import LSTM, NET, TOURING, WORDS, saved

MODELS = {
    "hull": (hull, LSTM),
    "words": (hull, WORDS),
    "delaunay": (delaunay, NET),
    "tsp": (tsp, TOURING),
    "lstm": (tsp, LSTM),
    "sort": (sort, NET),
}
PLANE = ("hull", "delaunay", "tsp")
SQUARE = "0,0 1,0 1,1 0,1"
# Who is asked, and how: whoever reads points reads them alike.
ASKED = [*(("predict", name) for name in ("hull", "delaunay", "tsp", "sort")), ("look", "hull")]
asked = pytest.mark.parametrize(("command", "model"), ASKED)

NO_POINTS = [
    "",
    "  ",
    ",",
    ";",
    " ; ,; ",
    "hello",
    "x" * 5000,
    "nan,1 0,0 1,1",
    "inf,0 0,0 1,1",
    "1e400,0 0,0 1,1",
    "(0,0) (1,0) (1,1)",
    "1_0,2 3,4 5,6",
    # numbers, but their squares are none
    "1e308,0 -1e308,0 0,1e308",
    "1e151,0 0,1 1,1",
    "1e-200,0 0,0 0,1e-200",
]

TSP = "NAME : a\nTYPE : TSP\nDIMENSION : 3\nEDGE_WEIGHT_TYPE : {}\n"
FILES = {
    "empty.csv": b"",
    "comment.csv": b"# nothing\n\n",
    "text.csv": b"0.1,0.2\n0.3,hello\n0.5,0.1\n",
    "words.csv": b"hello\nworld\nthere\n",
    "nan.csv": b"nan,0\n1,0\n1,1\n",
    "infinite.csv": b"inf,0\n1,0\n1,1\n",
    "ragged.csv": b"0,0\n\n,1\n1,1\n",
    "decimal.csv": b"0,5;0,5\n1,5;0,5\n1,0;2,5\n",
    "bytes.csv": bytes(range(256)),
    "nul.csv": b"\0\0\n\0\0\n",
    "bytes.csv.gz": bytes(range(256)),
    "utf16.csv": "0,0\n1,0\n1,1\n".encode("utf-16"),
    "bytes.tsp": bytes(range(256)),
    "empty.tsp": b"",
    "explicit.tsp": (TSP.format("EXPLICIT") + "EDGE_WEIGHT_SECTION\n0 1 2\n").encode(),
    "globe.tsp": (TSP.format("GEO") + "NODE_COORD_SECTION\n1 0 0\n2 1 1\n3 0 1\n").encode(),
    "att.tsp": (TSP.format("ATT") + "NODE_COORD_SECTION\n1 0 0\n2 1 1\n3 0 1\n").encode(),
    "space.tsp": (TSP.format("EUC_3D") + "NODE_COORD_SECTION\n1 0 0 0\n").encode(),
    "cvrp.tsp": b"NAME : a\nTYPE : CVRP\n",
    "short.tsp": (TSP.format("EUC_2D") + "NODE_COORD_SECTION\n1 0 0\n2 1 1\n").encode(),
    "nan.tsp": (TSP.format("EUC_2D") + "NODE_COORD_SECTION\n1 0 0\n2 1 nan\n3 1 1\n").encode(),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("models")
    tasks = {"words": {"min_points": 3, "max_points": 7}}
    return {
        name: saved(folder / name, *made, **tasks.get(name, {})) for name, made in MODELS.items()
    }


@pytest.fixture
def regard(folders, capsys, monkeypatch, tmp_path):
    """Run a command with a model, beside files; its exit code, output and standard error."""
    monkeypatch.setattr(console, "SECONDS_BETWEEN_NOTES", 600)
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        Path(name).write_bytes(content)
    Path("folder.csv").mkdir()

    def run(command: str, model: str, *words: str) -> tuple[int, str, str]:
        code = main.main([command, folders[model], *words])
        return (code, *capsys.readouterr())

    return run


def refused(found: tuple[int, str, str]) -> str:
    """The one line that was said, after nothing was answered."""
    code, out, err = found
    assert (code in (1, 2), out, err.count("\n")) == (True, "", 1), found
    assert "Traceback" not in err and "--debug" not in err and len(err) < 400
    return err.removesuffix("\n")


def answered(found: tuple[int, str, str]) -> dict:
    """What was answered, with nothing on standard error."""
    code, out, err = found
    assert (code, err) == (0, "")
    return json.loads(out)["details"]


@asked
@pytest.mark.parametrize("name", [*FILES, "folder.csv", "gone.csv", "../gone"])
def test_a_file_without_points_is_refused_by_its_name(regard, command, model, name):
    # the first column of some has numbers to sort
    if (model, name) not in (("sort", "text.csv"), ("sort", "ragged.csv")):
        assert name in refused(regard(command, model, name))


@asked
@pytest.mark.parametrize("text", NO_POINTS)
def test_what_is_no_point_that_can_be_told_is_refused(regard, command, model, text):
    assert "expected" in refused(regard(command, model, text))


@pytest.mark.parametrize("model", PLANE)
@pytest.mark.parametrize("text", ["0.5", "0.1 0.2 0.3", "0,0,0 1,1,1 2,0,1", "0,0", "0,0 1,1"])
def test_numbers_and_fewer_than_three_points_are_refused(regard, model, text):
    assert "expected" in refused(regard("predict", model, text))


@pytest.mark.parametrize("model", PLANE)
def test_a_table_of_one_column_has_no_points_of_the_plane(regard, model):
    Path("one.csv").write_text("0.5\n0.25\n0.75\n")
    line = refused(regard("predict", model, "one.csv"))
    assert "one.csv, line 1: expected 2 with numbers among its columns, got '0.5'" in line


@pytest.mark.parametrize("model", ["hull", "words", "delaunay"])
@pytest.mark.parametrize("text", ["2,3 2,3 2,3 2,3", "0,0 1,1 2,2 3,3", "0.1,0.1 0.2,0.2 0.3,0.3"])
def test_points_that_span_no_area_are_refused(regard, model, text):
    assert "expected" in refused(regard("predict", model, text))


@pytest.mark.parametrize("model", ["tsp", "lstm"])
@pytest.mark.parametrize(
    ("text", "best"), [("2,3 2,3 2,3", 0), ("0,0 1,1 2,2 3,3", 6 * 2**0.5), (f"{SQUARE} 0,0", 4)]
)
def test_cities_at_one_place_or_on_one_line_have_a_tour(regard, model, text, best):
    found = answered(regard("predict", model, text, "--prove", "--json"))
    assert sorted(found["indices"]) == [*range(len(text.split()))]
    assert found["optimal"] == pytest.approx(best)
    assert found["length"] >= best - 1e-9


def test_points_that_come_again_are_no_other_vertices(regard):
    found = answered(regard("predict", "hull", f"{SQUARE} 0,0 1,1 0.5,0 0.5,0.5", "--json"))
    assert (found["hull"], found["hull_area"]) == ([0, 1, 2, 3], 1)
    line = refused(regard("predict", "delaunay", f"{SQUARE} 1,0"))
    assert line.endswith("expected different points, got [1.0, 0.0] at 1 and again at 4")


@pytest.mark.parametrize("model", ["hull", "words"])
@pytest.mark.parametrize("text", [SQUARE, f"{SQUARE} 0.5,0.5", f"{SQUARE} 0.5,0 1,0.5 0,0"])
def test_no_wrong_polygon_comes_without_a_word(regard, model, text):
    _, out, err = regard("predict", model, text)
    polygon, words = out.rstrip("\n").split("\n")
    right = hulls.is_same_polygon([*map(int, polygon.split())], [0, 1, 2, 3])
    assert ("which is the hull" in words, "the hull is 0 1 2 3" in words) == (right, not right)
    assert err == ""


def written(points, name="points.csv", head=""):
    Path(name).write_text(head + "".join(f"{x!r},{y!r}\n" for x, y in points.tolist()))
    return name


def test_ten_thousand_points_have_a_hull_and_more_are_refused(regard, monkeypatch):
    points = np.random.default_rng(0).random((10_001, 2))
    greedy = search.decode.greedy
    # one that has learned nothing would point at all of them, one after the other
    monkeypatch.setattr(
        search.decode, "greedy", lambda *a, **how: greedy(*a, **how | {"longest": 7})
    )
    found = answered(regard("predict", "hull", written(points[1:]), "--json"))
    assert found["hull"] == hulls.hull(points[1:])
    line = refused(regard("predict", "hull", written(points)))
    assert line.endswith("hull: expected at most 10,000 points, got 10,001")


@pytest.mark.parametrize(
    ("model", "line"),
    [
        ("tsp", "tsp: expected 3 to 1000 cities, got 10000"),
        ("lstm", "tsp: expected 3 to 1000 cities, got 10000"),
        ("delaunay", "delaunay: expected at most 50 points, got 10000"),
        ("words", "hull: a vocabulary of 7 places cannot say 10000 points"),
        ("sort", "sort: expected 1 to 2000 numbers, got 10000"),
    ],
)
@pytest.mark.parametrize("command", ["predict", "look"])
def test_ten_thousand_points_are_too_many_for_the_others(regard, model, line, command):
    path = written(np.random.default_rng(0).random((10_000, 2)))
    assert refused(regard(command, model, path)) == f"regard {command}: {line}"


@pytest.mark.parametrize("model", ["hull", "delaunay", "tsp", "lstm"])
@pytest.mark.parametrize("head", ["x,y\n", "# a\nname,x,y\n", "\ufeffx,y\n"])
def test_a_table_with_a_head_is_read_as_one_without(regard, model, head):
    points = np.random.default_rng(0).random((5, 2))
    plain = regard("predict", model, written(points))
    columns = "a," * head.count(",y") if "name" in head else ""
    rows = "".join(f"{columns}{x!r},{y!r}\n" for x, y in points.tolist())
    Path("head.csv").write_text(head + rows)
    assert regard("predict", model, "head.csv") == plain
    assert plain[0] == 0


@pytest.mark.parametrize("model", ["hull", "delaunay", "tsp", "lstm"])
@pytest.mark.parametrize("far", [1e6, -1e6, 1e9])
def test_points_far_away_are_answered_as_those_that_are_near(regard, model, far):
    # 1e6 ± 1e-3, in steps that a double has there
    near = np.random.default_rng(0).integers(-1000, 1000, (7, 2)) * 2.0**-20
    one, other = (
        answered(regard("predict", model, written(p), "--json")) for p in (near, near + far)
    )
    assert {
        name: pytest.approx(x) if isinstance(x, float) else x for name, x in one.items()
    } == other


@pytest.mark.parametrize("model", ["hull", "tsp", "sort", "lstm"])
@pytest.mark.parametrize("scale", [1e-99, 1e9, 1e149])
@pytest.mark.parametrize("command", ["predict", "look"])
def test_large_and_small_numbers_are_told(regard, model, scale, command):
    points = np.random.default_rng(0).random((5, 2))
    code, out, err = regard(command, model, written(points * scale), "--json")
    assert (code, err) == (0, "")
    assert "Infinity" not in out and "NaN" not in out
    found = json.loads(out).get("details", {})
    assert all(math.isfinite(x) for x in found.values() if isinstance(x, float))


@pytest.mark.parametrize("model", ["hull", "delaunay", "tsp", "lstm"])
def test_a_line_of_vinyals_and_a_file_of_tsplib_are_read_as_points(regard, model):
    points = np.array([[0, 0], [3, 0], [3, 4]], float)
    plain = regard("predict", model, written(points))
    cities = "".join(f"{i} {x} {y}\n" for i, (x, y) in enumerate(points, 1))
    Path("a.tsp").write_text(f"{TSP.format('EUC_2D')}NODE_COORD_SECTION\n{cities}EOF\n")
    vinyals.write_instances("a.txt", [(points, [0, 1, 2])])
    assert plain == regard("predict", model, "a.tsp") == regard("predict", model, "a.txt")


@pytest.mark.parametrize("model", [*PLANE, "sort"])
@pytest.mark.parametrize(
    ("setting", "code"),
    [
        ("points=0", 2),
        ("points=many", 2),
        ("points=1000000", 2),
        ("beam=101", 2),
        ("beam=99999999999999999999", 2),
        ("instances=0", 2),
        ("seed=-1", 2),
        ("beams=3", 2),
        ("file=gone.txt", 1),
        ("file=folder.csv", 1),
        ("file=empty.csv", 1),
        ("file=bytes.csv", 1),
        ("file=text.csv", 1),
        ("file=explicit.tsp", 1),
    ],
)
def test_what_cannot_be_evaluated_is_refused(regard, model, setting, code):
    found = regard("evaluate", model, setting)
    assert refused(found)
    # no file holds numbers to be sorted
    assert found[0] == (2 if model == "sort" else code)


@pytest.mark.parametrize(
    ("model", "line"),
    [
        ("hull", "three points or more, none twice, got 0 1 for 4 points"),
        ("delaunay", "three points a triangle, got 0 1 for 4 points"),
        ("tsp", "each point once, got 0 1 for 4 points"),
    ],
)
def test_a_file_with_answers_of_another_task_is_refused(regard, model, line):
    Path("other.txt").write_text("0 0 1 0 1 1 0 1 output 1 2\n")
    assert refused(regard("evaluate", model, "file=other.txt")).endswith(f"an answer of {line}")
