"""The script of a page, run by node: it shows the same numbers and colours as the page itself."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from regard.view import Trace, page
from regard.view.colours import colour
from regard.view.inline import SCRIPT, STYLE
from tests.view.pages import Parsed
from tests.view.traces import odd, several, translation

needs_node = pytest.mark.skipif(not shutil.which("node"), reason="needs node")
BROWSER = Path(__file__).with_name("browser.js")


def ran(trace: Trace, actions: str = "", **given: int) -> dict:
    """What stands on the page after its script and these actions ran."""
    asked = {"tree": Parsed(page(trace, **given)).root, "script": SCRIPT, "actions": actions}
    done = subprocess.run(
        ["node", str(BROWSER)], input=json.dumps(asked), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def press(*keys: str) -> str:
    return "".join(f"section.querySelector('svg').fire('keydown', {{key: '{k}'}});" for k in keys)


def pick(name: str, value: object) -> str:
    found = f"section.querySelector('select.{name}')"
    return f"{found}.value = '{value}'; {found}.fire('change');"


@needs_node
def test_the_script_draws_what_the_page_says_without_it():
    trace = translation(layers=2, heads=3)
    w = trace.map().weights(1, 2)
    drawn = ran(trace, layer=1, head=2)
    assert drawn["fills"] == [colour(x) for x in (w / w.max()).flatten().tolist()]
    assert [float(text) for text in drawn["table"]] == pytest.approx(w.flatten().tolist(), abs=6e-5)
    assert drawn["most"] == [f"{float(w.max()):.4f}"]


@needs_node
def test_another_head_is_drawn_as_if_it_had_been_the_first():
    trace = translation(layers=2, heads=3)
    chosen = ran(trace, pick("layer", 1) + pick("head", 2))
    assert chosen == ran(trace, layer=1, head=2)
    assert chosen == ran(trace, press("}", "]", "]"))
    assert chosen == ran(trace, press("{", "["))


@needs_node
def test_one_map_is_shown_at_a_time_and_another_can_be_chosen():
    trace = several(3)
    begun, chosen = ran(trace), ran(trace, pick("maps", 2).replace("section", "page"))
    assert begun["sections"] == [True, False, False]
    assert chosen["sections"] == [False, False, True]
    assert begun["hidden"] == [False] * 4
    assert ran(translation())["sections"] == [True]


@needs_node
def test_the_keys_move_the_cursor_and_it_stays_inside():
    trace = translation()
    w = trace.map().weights()
    shown = ran(trace, press("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"))
    assert shown["cursor"] == 8 + 2
    assert shown["readout"] == [f"mange → s: {float(w[1, 2]):.4f} (the row sums to 1.0000)"]
    shown = ran(trace, press("Home", *["ArrowUp"] * 3, "End", *["ArrowDown"] * 9))
    assert shown["cursor"] == 7 * 8 - 1
    assert shown["readout"][0].startswith("te → </s>: ")


@needs_node
def test_the_controls_are_shown_where_the_script_runs_and_only_there():
    controls = {"class": "controls", "hidden": None}
    assert len(Parsed(page(translation())).texts("div", **controls)) == 1
    assert ran(translation())["hidden"] == [False]


@needs_node
def test_the_cursor_comes_with_the_focus_and_goes_with_escape():
    focus = "section.querySelector('svg').fire('focus');"
    steps = {
        "": None,
        focus: 0,
        press("End") + focus: 0,
        focus + press("End") + focus: 7,
        focus + press("End", "Escape"): None,
        focus + press("End", "Escape") + focus: 0,
    }
    assert {actions: ran(translation(), actions)["cursor"] for actions in steps} == steps


@needs_node
def test_pointing_at_a_cell_reads_it_out():
    action = "const svg = section.querySelector('svg');"
    action += "svg.fire('pointerover', {target: section.querySelectorAll('rect.cell')[9]});"
    shown = ran(translation(), action)
    assert shown["cursor"] == 9
    assert shown["readout"][0].startswith("mange → eat: ")


@needs_node
@pytest.mark.parametrize(("scale", "power"), [("linear", 1), ("sqrt", 0.5)])
def test_a_scale_changes_colours_but_no_number(scale, power):
    trace = translation()
    w = trace.map().weights()
    drawn = ran(trace, pick("scale", scale))
    assert drawn["table"] == ran(trace)["table"]
    shares = (w / w.max()).double().pow(power).flatten().tolist()
    same = [a == b for a, b in zip(drawn["fills"], map(colour, shares), strict=True)]
    assert sum(same) >= len(same) - 2  # a colour between two may be rounded either way


@needs_node
def test_the_logarithm_keeps_order():
    trace = translation()
    fills = ran(trace, pick("scale", "log"))["fills"]
    order = trace.map().weights().flatten().argsort().tolist()
    light = [int(fills[i][3:5], 16) for i in order]
    assert light == sorted(light)


@needs_node
def test_hostile_labels_are_read_out_as_text():
    (readout,) = ran(odd(["<img onerror=x>", "b"]), press("ArrowDown"))["readout"]
    assert readout.startswith("<img onerror=x> → <img onerror=x>: ")


def test_neither_can_end_the_element_it_stands_in():
    assert "</" not in SCRIPT
    assert "<!--" not in SCRIPT
    assert "</" not in STYLE


def test_labels_reach_the_page_only_as_text():
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert way not in SCRIPT


def test_dark_and_light_are_both_served():
    assert "prefers-color-scheme: dark" in STYLE
    assert "focus-visible" in STYLE
