"""Which picture is drawn: what was asked for, or what fits the trace and the file."""

import sys
from pathlib import Path

import pytest

from regard.cli import picture
from regard.cli.options import DEFAULT_PLACE, Place
from regard.cli.resolve import UsageError
from regard.view import (
    arcs,
    by_words,
    matrix,
    plane,
    ribbons,
    save_figure,
    tape,
    wall,
)
from tests.view.example_traces import copying, pointed, several, translation

PNG = Path("a.png")


@pytest.mark.parametrize(
    ("trace", "out", "place", "kind"),
    [
        (copying(), PNG, DEFAULT_PLACE, "tape"),
        (copying(), Path("a.SVG"), DEFAULT_PLACE, "tape"),
        (copying(), Path("a.html"), DEFAULT_PLACE, "matrix"),
        (copying(), None, DEFAULT_PLACE, "matrix"),
        (copying(), PNG, Place("write"), "matrix"),
        (translation(), PNG, DEFAULT_PLACE, "matrix"),
        (pointed(), PNG, DEFAULT_PLACE, "plane"),
        (pointed(), Path("a.html"), DEFAULT_PLACE, "matrix"),
        (pointed(), None, DEFAULT_PLACE, "matrix"),
        (pointed(), PNG, Place("encoder", 1, 2), "matrix"),
    ],
    ids=["png", "svg", "html", "text", "map", "tokens", "points", "page", "typed", "encoder"],
)
def test_what_is_drawn_is_a_tape_or_a_plane_where_there_can_be_one(trace, out, place, kind):
    assert picture.choose_picture(trace, None, out, place).kind == kind


def test_a_kind_that_is_named_is_drawn():
    for kind in ("matrix", "ribbons", "arcs", "wall", "tape"):
        assert picture.choose_picture(copying(), kind, PNG, DEFAULT_PLACE).kind == kind
    for kind in ("matrix", "ribbons", "wall", "plane"):
        assert picture.choose_picture(pointed(), kind, PNG, DEFAULT_PLACE).kind == kind


def test_the_map_is_the_one_named_or_the_first_and_of_a_wall_one_of_many_heads():
    def map(kind, place):
        return picture.choose_picture(several(3), kind, PNG, place).map.id

    assert map("matrix", DEFAULT_PLACE) == "map0"
    assert map("wall", DEFAULT_PLACE) == "map1"
    assert map("ribbons", Place("map2", 1, 1)) == "map2"


@pytest.mark.parametrize(("asked", "step"), [(None, 4), (2, 2)])
def test_the_step_of_a_tape_is_known_before_it_is_drawn(asked, step):
    shown = picture.choose_picture(copying(heads=2), None, PNG, Place(head=1, step=asked))
    told = shown.to_json()
    assert (told["map"], told["head"], told["step"]) == ("read", 1, step)
    assert told["weights"] == shown.trace.map("read").weights(0, 1).tolist()
    assert "step" not in picture.choose_picture(copying(), "matrix", PNG, DEFAULT_PLACE).to_json()


@pytest.mark.parametrize(("asked", "step"), [(None, 2), (7, 7)])
def test_the_step_of_a_plane_is_known_before_it_is_drawn(asked, step, tmp_path):
    shown = picture.choose_picture(pointed(), None, PNG, Place(step=asked))
    told = shown.to_json()
    assert (told["map"], told["step"]) == ("pointer", step)
    assert told["weights"] == shown.trace.map("pointer").weights().tolist()
    saved = shown.save(tmp_path / "a.png").read_bytes()
    assert saved == save_figure(plane(pointed(), step=step), tmp_path / "b.png").read_bytes()


@pytest.mark.parametrize("kind", ["matrix", "ribbons", "arcs", "wall", "tape"])
def test_what_is_saved_is_what_view_draws(kind, tmp_path):
    trace, place = copying(heads=2), Place(head=0 if kind == "wall" else 1)
    where = {"map": "read", "head": place.head}
    figures = {
        "matrix": lambda: matrix(trace, **where),
        "ribbons": lambda: ribbons(trace, **where),
        "arcs": lambda: arcs(trace, **where),
        "wall": lambda: wall(trace),
        "tape": lambda: tape(trace, head=1),
    }
    saved = picture.choose_picture(trace, kind, PNG, place).save(tmp_path / "a.png")
    drawn = save_figure(figures[kind](), tmp_path / "b.png")
    assert saved.read_bytes() == drawn.read_bytes()


def test_text_names_the_other_maps():
    text = picture.choose_picture(copying(slots=128), None, None, Place("write")).to_text()
    assert text.startswith("write: steps (down) looks at slots (across), 7 of 128 shown\n")
    assert text.endswith("\n\n--map can be " + ", ".join(m.id for m in copying().maps))
    assert "--map" not in picture.choose_picture(translation(), None, None, DEFAULT_PLACE).to_text()


@pytest.mark.parametrize(
    ("kind", "out", "place", "words"),
    [
        ("tape", None, DEFAULT_PLACE, "expected -o for tape: only the matrix can be drawn as text"),
        (
            None,
            Path("a.gif"),
            DEFAULT_PLACE,
            "expected -o for matrix to end in .png, .svg, .pdf, .html,",
        ),
        ("arcs", None, DEFAULT_PLACE, "expected -o for arcs: only the matrix can be drawn as text"),
        (
            "tape",
            Path("a.html"),
            DEFAULT_PLACE,
            "expected -o for tape to end in .png, .svg, .pdf, got a",
        ),
        ("wall", PNG, Place(layer=1), "expected --kind wall without --layer and --head: it shows"),
        ("tape", PNG, Place("read"), "expected --kind tape without --map and --layer: it shows"),
        (
            "plane",
            None,
            DEFAULT_PLACE,
            "expected -o for plane: only the matrix can be drawn as text",
        ),
        (
            "plane",
            Path("a.html"),
            DEFAULT_PLACE,
            "expected -o for plane to end in .png, .svg, .pdf, got",
        ),
        ("plane", PNG, Place(head=1), "expected --kind plane without --map, --layer and --head: "),
        ("matrix", PNG, Place(step=1), "expected --step for a tape or a plane, got --kind matrix"),
    ],
)
def test_what_no_trace_can_be_drawn_as_is_refused_at_once(kind, out, place, words):
    with pytest.raises(UsageError) as refused:
        picture.check_options(kind, out, place)
    assert refused.value.format_message().startswith(words)


@pytest.mark.parametrize(
    ("trace", "kind", "place", "words"),
    [
        (copying(), None, Place("write", step=1), "expected --step for a tape or a plane, and th"),
        (pointed(), None, Place(step=12), "plane: expected step from 0 to 11, got 12"),
        (pointed(), None, Place(head=1), "Map 'pointer': expected head from 0 to 0, got 1; --map"),
        (
            translation(),
            "plane",
            DEFAULT_PLACE,
            "plane: expected a trace with points, got tokens, tokens",
        ),
        (copying(), None, Place(step=8), "tape: expected step from 0 to 7, got 8"),
        (copying(), None, Place(head=1), "Map 'read': expected head from 0 to 0, got 1"),
        (copying(), None, Place(layer=1), "Map 'read': expected layer from 0 to 0, got 1; --map"),
        (
            translation(),
            "tape",
            DEFAULT_PLACE,
            "tape: expected a trace with slots of a memory, got tokens",
        ),
        (translation(), None, Place("self"), "Trace: no map named 'self'; there is cross"),
    ],
)
def test_what_this_trace_cannot_be_drawn_as_was_typed_wrongly(trace, kind, place, words):
    with pytest.raises(UsageError) as refused:
        picture.choose_picture(trace, kind, PNG, place)
    assert refused.value.format_message().startswith(words)


def test_the_usual_picture_is_named_after_its_kind(tmp_path, monkeypatch):
    assert picture.save_default_picture(by_words(copying()), tmp_path) == tmp_path / "tape.png"
    assert picture.save_default_picture(by_words(pointed()), tmp_path) == tmp_path / "plane.png"
    assert picture.save_default_picture(translation(), tmp_path) == tmp_path / "alignment.png"
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for trace in (copying(), pointed(), translation()):
        assert picture.save_default_picture(trace, tmp_path) == tmp_path / "alignment.html"
    names = ["alignment.html", "alignment.png", "plane.png", "tape.png"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
