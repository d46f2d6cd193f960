"""The command line: what it prints where, what its exit codes say, and how quickly it answers."""

import errno
import io
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from regard import dispatch
from regard.cli import console, main
from regard.view import Map, Tokens, Trace, UnseenError
from regard.zoo import catalogue, model_kinds
from tests.view.example_traces import copying, pointed
from tests.zoo import tiny

ROOT = Path(__file__).parent.parent
APPLE = "She is eating a green apple."

KNOWN = ", ".join(main.RECIPES)


@dataclass(frozen=True)
class Inner:
    width: int = 8


@dataclass(frozen=True)
class Config:
    model: Inner = field(default_factory=Inner)
    rate: float = 0.1
    tied: bool = True
    pairs: Path | None = None


@dataclass(frozen=True)
class Evaluation:
    beam: int = 1


def trace(loaded, text, *, beam=1):
    source, target = Tokens("source", ["a", "b"]), Tokens("target", ["x", "y", "z"])
    weights = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])[None, None]
    return Trace([source, target], [Map("cross", "target", "source", weights)])


def predict(loaded, text, *, beam=1):
    loaded.model(torch.zeros(1, 2, 3))
    return SimpleNamespace(text=text.upper(), candidates=[(text.upper(), -0.5)] * beam)


@pytest.fixture
def recipe(monkeypatch, tmp_path) -> ModuleType:
    """A recipe that answers at once, in the place of `translate`; what it is told is kept."""
    module = ModuleType("fake_translate")
    module.Config, module.Evaluation, module.trace = Config, Evaluation, trace
    module.predict, module.told = predict, []
    module.evaluate = lambda loaded, told: {"bleu": 31.5, "beam": told.beam}
    module.stopped = "finished"

    def run(config, **told):
        module.told.append((config, told))
        examples = [("a b", "x y z", "x z")]
        told = {"folder": tmp_path / "run", "stopped": module.stopped, "seconds": 61.0}
        return SimpleNamespace(
            **told, metrics={"bleu": 31.5, "loss": float("nan")}, examples=examples
        )

    module.run = run
    monkeypatch.setitem(sys.modules, "fake_translate", module)
    monkeypatch.setitem(main.RECIPES, "translate", ("fake_translate", "a fake"))
    return module


@pytest.fixture
def model(recipe, monkeypatch, tmp_path) -> str:
    """The folder of a trained model."""
    monkeypatch.setitem(model_kinds.KINDS, "tiny", tiny.known())
    tiny.saved(tmp_path / "run")
    return str(tmp_path / "run")


@pytest.fixture
def regard(capsys):
    """Run a command: its exit code, what it printed, and what it said on standard error."""

    def run(*words: str) -> tuple[int, str, str]:
        code = main.main(list(words))
        return (code, *capsys.readouterr())

    return run


def test_a_model_answers_a_sentence(regard, model):
    assert regard("predict", model, APPLE) == (0, APPLE.upper() + "\n", "")


def test_a_model_answers_line_by_line(regard, model, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("one\r\ntwo\n"))
    assert regard("predict", model) == (0, "ONE\nTWO\n", "")


def test_an_empty_line_is_answered_by_an_empty_line(regard, model, recipe, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("one\n\ntwo\n"))
    assert regard("predict", model, "-") == (0, "ONE\n\nTWO\n", "")
    recipe.predict = fails(ValueError("expected a sentence, got an empty one"))
    assert regard("predict", model, "")[0] == 1


def test_json_is_one_object_and_nothing_else(regard, model, monkeypatch):
    out = regard("predict", model, "a", "--beam", "2", "--json")[1]
    ranked = [{"text": "A", "score": -0.5}] * 2
    assert json.loads(out) == {"model": model, "input": "a", "text": "A", "candidates": ranked}
    monkeypatch.setattr(sys, "stdin", io.StringIO("one\ntwo\n"))
    told = json.loads(regard("predict", model, "-", "--json")[1])
    assert [each["text"] for each in told["predictions"]] == ["ONE", "TWO"]


def test_what_a_recipe_prints_does_not_disturb_json(regard, model, recipe):
    recipe.evaluate = lambda loaded, told: {"bleu": float(sys.stdout.write("chatter\n"))}
    _, out, err = regard("evaluate", model, "--json")
    assert json.loads(out)["bleu"] == 8.0
    assert err == "chatter\n"


def test_evaluation_takes_fields(regard, model):
    assert regard("evaluate", model, "beam=5") == (0, "  bleu  31.5\n  beam  5\n", "")


def test_training_is_told_its_config_and_shows_what_came_out(regard, model, recipe, tmp_path):
    code, out, _ = regard("train", "translate", "model.width=4", "rate=3e-4", "--out", "here")
    (config, told), *_ = recipe.told
    assert code == 0
    assert config == Config(Inner(4), 3e-4)
    assert told["out"] == Path("here")
    for words in ("bleu     31.5", "1:01", "a b\n→ x y z\n  (x z)", "target (down)", "Try next:"):
        assert words in out
    assert f"regard look {tmp_path / 'run'}" in out


def test_where_nothing_can_draw_the_alignment_is_a_page(regard, model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    out = regard("train", "translate")[1]
    assert f"as a picture: {tmp_path / 'run' / 'alignment.html'}" in out
    assert (tmp_path / "run" / "alignment.html").stat().st_size > 1000


def test_what_a_training_prints_does_not_disturb_json(regard, model, recipe, monkeypatch):
    run = recipe.run
    recipe.run = lambda config, **told: (sys.stdout.write("chatter\n"), run(config, **told))[1]
    assert json.loads(regard("train", "translate", "--json")[1])["stopped"] == "finished"


def test_a_model_that_looks_at_nothing_has_no_alignment_to_show(regard, model, recipe):
    recipe.trace = fails(UnseenError("a model with attention none looks at nothing"))
    code, out, err = regard("train", "translate")
    assert (code, err) == (0, "")
    assert "target (down)" not in out
    assert "Try next:" in out


def test_the_metrics_of_a_training_are_json_even_where_they_are_no_numbers(regard, model):
    told = json.loads(regard("train", "translate", "--json")[1])
    assert told["metrics"] == {"bleu": 31.5, "loss": None}
    assert told["examples"] == [{"source": "a b", "prediction": "x y z", "reference": "x z"}]
    assert told["stopped"] == "finished"


def test_a_run_goes_on_with_its_own_settings(regard, model, recipe, tmp_path):
    settings = {"model": {"width": 6}, "rate": 0.2}
    told = {"schema": 1, "recipe": "translate", "settings": settings}
    (tmp_path / "run" / "config.json").write_text(json.dumps(told))
    for words in ([], ["rate=0.3"], ["translate", "--step", "50"]):
        assert regard("train", "--resume", model, *words)[0] == 0
    assert [config.rate for config, _ in recipe.told] == [0.2, 0.3, 0.2]
    assert {config.model.width for config, _ in recipe.told} == {6}
    assert [told["resume"] for _, told in recipe.told] == [Path(model)] * 3
    assert recipe.told[2][1]["step"] == 50


def test_an_interrupted_training_says_how_to_go_on(regard, recipe, tmp_path):
    recipe.stopped = "interrupted"
    code, out, _ = regard("train", "translate")
    assert (code, out) == (0, f"saved; to go on: regard train --resume {tmp_path / 'run'}\n")


@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf", ".html"])
def test_a_look_is_drawn(regard, model, tmp_path, ending):
    if ending != ".html":
        pytest.importorskip("matplotlib")
    picture = tmp_path / f"apple{ending}"
    assert regard("look", model, APPLE, "-o", str(picture))[:2] == (0, f"wrote {picture}\n")
    assert picture.stat().st_size > 1000


@pytest.mark.parametrize("kind", ["ribbons", "arcs", "wall"])
def test_a_look_is_drawn_in_other_ways(regard, model, tmp_path, kind):
    pytest.importorskip("matplotlib")
    assert regard("look", model, APPLE, "-o", str(tmp_path / "a.png"), "--kind", kind)[0] == 0
    assert (tmp_path / "a.png").exists()


def test_a_look_without_a_picture_is_text_or_numbers(regard, model):
    assert "target (down) looks at source (across)" in regard("look", model, APPLE)[1]
    told = json.loads(regard("look", model, APPLE, "--json")[1])
    assert told["weights"] == [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]
    assert (told["queries"], told["keys"]) == (["x", "y", "z"], ["a", "b"])


MANY = torch.tensor([[[[1.0, 0.0]] * 3, [[0.0, 1.0]] * 3]] * 4)  # (4 layers, 2 heads, 3, 2)


@pytest.fixture
def headed(recipe, model) -> str:
    """A model that looks at two things, at the second with many heads."""

    def seen(loaded, text, *, beam=1):
        first = trace(loaded, text)
        cross = Map("cross", "target", "source", MANY, 4, 2)
        return Trace(first.axes, [replace(first.map(), id="alignment"), cross])

    recipe.trace = seen
    return model


def test_what_is_drawn_can_be_chosen(regard, headed):
    out = regard("look", headed, APPLE)[1]
    assert out.startswith("alignment: target (down)")
    assert out.endswith("\n\n--map can be alignment, cross\n")
    out = regard("look", headed, APPLE, "--map", "cross", "--layer", "3", "--head", "1")[1]
    assert out.startswith("cross · layer 3 · head 1: target (down)")
    assert "x · ██" in " ".join(out.split("  "))


def test_json_has_the_weights_of_what_is_drawn_and_the_names_of_all(regard, headed):
    told = json.loads(regard("look", headed, APPLE, "--json", "--map", "cross", "--head", "1")[1])
    assert told["maps"] == ["alignment", "cross"]
    assert (told["map"], told["layer"], told["head"]) == ("cross", 0, 1)
    assert told["weights"] == MANY[0, 1].tolist()
    assert json.loads(regard("look", headed, APPLE, "--json")[1])["map"] == "alignment"


def test_a_wall_shows_the_map_of_many_heads(regard, headed, tmp_path):
    pytest.importorskip("matplotlib")
    words = ["look", headed, APPLE, "--kind", "wall", "-o", str(tmp_path / "a.png"), "--json"]
    told = json.loads(regard(*words)[1])
    assert (told["map"], told["layer"], told["weights"]) == ("cross", None, MANY.tolist())
    assert json.loads(regard(*words, "--map", "alignment")[1])["map"] == "alignment"


@pytest.mark.parametrize("ending", [".png", ".html"])
def test_the_chosen_head_is_in_the_picture(regard, headed, tmp_path, ending):
    pytest.importorskip("matplotlib")
    pictures = []
    for head in "01":
        path = tmp_path / f"{head}{ending}"
        assert (
            regard("look", headed, APPLE, "-o", str(path), "--map", "cross", "--head", head)[0] == 0
        )
        pictures.append(path.read_bytes())
    assert pictures[0] != pictures[1]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--map self", "Trace: no map named 'self'; there is alignment, cross"),
        ("--layer 2", "Map 'alignment': expected layer from 0 to 0, got 2; --map can be align"),
        ("--map cross --head 2", "Map 'cross': expected head from 0 to 1, got 2; --map can be"),
        ("--kind wall -o a.png --head 1", "expected --kind wall without --layer and --head: it"),
    ],
)
def test_a_place_that_is_not_there_is_exit_code_2(regard, headed, words, line):
    code, out, err = regard("look", headed, APPLE, *words.split())
    assert (code, out) == (2, "")
    assert err.startswith(f"regard look: {line}")


@pytest.fixture
def taped(recipe, model) -> str:
    """A model with a memory, of a recipe that translates nothing and searches with no beams."""
    recipe.trace = lambda loaded, text: copying(slots=128)
    recipe.predict = lambda loaded, text: SimpleNamespace(text=text[::-1], candidates=[])
    return model


def test_a_recipe_without_beams_answers_and_is_looked_at(regard, taped):
    assert regard("predict", taped, "011") == (0, "110\n", "")
    told = json.loads(regard("predict", taped, "011", "--json")[1])
    assert (told["text"], told["candidates"]) == ("110", [])
    out = regard("look", taped, "011")[1]
    assert out.startswith("read: steps (down) looks at slots (across), 6 of 128 shown\n")


@pytest.mark.parametrize("command", ["predict", "look"])
def test_beams_where_there_are_none_are_exit_code_2(regard, taped, command):
    line = f"regard {command}: translate searches with no beams; leave --beam out\n"
    assert regard(command, taped, "011", "--beam", "3") == (2, "", line)


def test_without_beam_a_recipe_searches_as_usual(regard, model, recipe):
    recipe.predict = lambda loaded, text, *, beam=7: SimpleNamespace(text=f"{beam}", candidates=[])
    assert regard("predict", model, "a")[1] == "7\n"
    assert regard("predict", model, "a", "--beam", "2")[1] == "2\n"


@pytest.fixture
def pointing(recipe, model) -> str:
    """A model that points at points, of a recipe that can prove which answer is best."""

    def told(loaded, text, *, prove=False):
        best = {"optimal": 2.5} if prove else {}
        words = ["0 2 1", *(f"{name} {value}" for name, value in best.items())]
        details = {"indices": [0, 2, 1]} | best
        return SimpleNamespace(text="\n".join(words), candidates=[], details=details)

    recipe.predict, recipe.trace = told, lambda loaded, text: pointed()
    return model


def test_a_proof_is_asked_for_only_where_it_was_typed(regard, pointing):
    assert regard("predict", pointing, "points.csv") == (0, "0 2 1\n", "")
    assert regard("predict", pointing, "points.csv", "--prove") == (0, "0 2 1\noptimal 2.5\n", "")
    told = json.loads(regard("predict", pointing, "points.csv", "--prove", "--json")[1])
    assert told["details"] == {"indices": [0, 2, 1], "optimal": 2.5}


def test_an_answer_of_several_lines_is_one_line_for_each_that_was_read(
    regard, pointing, monkeypatch
):
    monkeypatch.setattr(sys, "stdin", io.StringIO("0 0 1 1\n1 0 0 1\n"))
    assert regard("predict", pointing, "--prove")[1] == "0 2 1\\noptimal 2.5\n" * 2


def test_a_proof_where_there_is_none_is_exit_code_2(regard, model):
    line = "regard predict: translate can prove no answer; leave --prove out\n"
    assert regard("predict", model, "a", "--prove") == (2, "", line)
    assert "details" not in json.loads(regard("predict", model, "a", "--json")[1])


def test_points_are_drawn_as_a_plane(regard, pointing, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "tour.png"
    words = ["look", pointing, "points.csv", "-o", str(path)]
    told = json.loads(regard(*words, "--json")[1])
    assert (told["map"], told["step"], len(told["weights"])) == ("pointer", 2, 12)
    usual = path.read_bytes()
    assert regard(*words, "--step", "3")[:2] == (0, f"wrote {path}\n")
    assert path.read_bytes() != usual
    line = "regard look: plane: expected step from 0 to 11, got 12\n"
    assert regard(*words, "--step", "12")[::2] == (2, line)


def test_points_without_a_picture_are_text_or_a_page(regard, pointing, tmp_path):
    assert regard("look", pointing, "points.csv")[1].startswith("pointer: steps (down) looks at po")
    path = tmp_path / "tour.html"
    assert regard("look", pointing, "points.csv", "-o", str(path))[0] == 0
    assert '"id":"pointer","query":"steps","key":"points"' in path.read_text()


def test_a_memory_is_drawn_as_a_tape(regard, taped, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "tape.png"
    # what stands on standard error hangs on how long it takes
    assert regard("look", taped, "011", "-o", str(path))[:2] == (0, f"wrote {path}\n")
    usual = path.read_bytes()
    told = json.loads(regard("look", taped, "011", "-o", str(path), "--json")[1])
    assert (told["map"], told["step"], len(told["weights"])) == ("read", 4, 8)
    assert regard("look", taped, "011", "-o", str(path), "--step", "2")[0] == 0
    assert path.read_bytes() != usual
    assert regard("look", taped, "011", "-o", str(path), "--step", "8")[::2] == (
        2,
        "regard look: tape: expected step from 0 to 7, got 8\n",
    )


def test_a_training_with_a_memory_ends_with_a_tape(regard, taped, tmp_path):
    pytest.importorskip("matplotlib")
    out = regard("train", "translate")[1]
    assert "read: steps (down) looks at slots (across), 6 of 128 shown" in out
    assert f"as a picture: {tmp_path / 'run' / 'tape.png'}" in out
    assert (tmp_path / "run" / "tape.png").exists()


def test_why_names_a_backend_for_every_score(regard):
    _, out, _ = regard("why")
    rows = dict(line.split() for line in out.splitlines())
    assert rows["scaled_dot"] == "sdpa"
    assert {"dot", "Cosine", "General", "Additive", "Location"} < rows.keys()
    assert json.loads(regard("why", "--json")[1])["dot"]["backend"] == "sdpa"


def test_why_names_the_backend_of_each_attention_in_a_model(regard, model, monkeypatch):
    assert regard("why", model, APPLE) == (0, "none was seen\n", "")
    monkeypatch.setattr(
        tiny.Tiny, "forward", lambda self, x: dispatch.attend(x[None], x[None], x[None])
    )
    assert regard("why", model, APPLE)[1].startswith(
        "Tiny: sdpa runs this call\n  reference: could"
    )
    assert json.loads(regard("why", model, APPLE, "--json")[1])["Tiny"]["backend"] == "sdpa"


def test_why_asks_what_the_recipe_offers_if_nothing_was_typed(regard, model, recipe):
    asked = []
    recipe.predict = lambda loaded, text: asked.append(text)
    regard("why", model)
    recipe.EXAMPLE = "0110"
    regard("why", model)
    regard("why", model, APPLE)
    assert asked == ["I see a cat.", "0110", APPLE]


def test_the_list_has_recipes_and_models(regard, recipe, monkeypatch, tmp_path):
    (tmp_path / "small").mkdir()
    weights = {"name": "research, non-commercial"}
    card = {"schema": 1, "name": "small", "recipe": "translate", "model": "tiny", "config": {}}
    card |= {"about": "English to \x1b[31mFrench", "numbers": {"bleu": 31.5}}
    card["licence"] = {"weights": weights}
    (tmp_path / "small" / "card.json").write_text(json.dumps(card))
    monkeypatch.setattr(catalogue, "HERE", tmp_path)
    code, out, err = regard("list")
    assert (code, err) == (0, "")
    assert re.search(r"^  translate +a fake$", out, re.MULTILINE)
    assert "  small  English to \\x1b[31mFrench, bleu 31.5  research, non-commercial\n" in out
    assert json.loads(regard("list", "--json")[1])["models"] == {"small": card}


def test_help_lists_the_fields_of_a_recipe(regard, recipe):
    _, out, _ = regard("train", "translate", "--help")
    assert "regard train --resume runs/wide" in out
    assert "  model.width  8     a whole number\n" in out
    assert "  tied         true  true or false\n" in out
    assert "  pairs        none  a path or none\n" in out
    assert "  beam  1  a whole number\n" in out


def test_help_shows_how_tours_are_measured(regard):
    _, out, _ = regard("evaluate", "--help")
    assert "regard evaluate tsp points=50 augment=8 --json\n" in out


@pytest.mark.parametrize("words", [(), ("--help",), ("predict", "--help"), ("why", "--help")])
def test_help_is_no_error(regard, words):
    code, out, err = regard(*words)
    assert (code, err) == (0, "")
    assert out.startswith("Usage: regard")


def test_the_version_is_the_packages(regard):
    assert regard("--version") == (0, sys.modules["regard"].__version__ + "\n", "")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("trian", "regard: No such command 'trian'. Did you mean 'train'?"),
        ("train", f"regard train: expected a recipe ({KNOWN}), got none"),
        ("train transalte", f"regard train: expected a recipe ({KNOWN}), got transalte; did you"),
        (
            "train translate model.depth=4",
            "regard train: Inner has no field 'depth' (model.depth);",
        ),
        (
            "train translate rate=fast",
            "regard train: Config: expected rate as a number, got 'fast'",
        ),
        ("train --resume gone", "regard train: no folder gone, so there is no run to go on with"),
        ("train translate --step 3", "regard train: expected --out or --resume, and --step only"),
        ("train --resume a --out b", "regard train: expected --out or --resume, and --step only"),
        ("predict", "regard predict: Missing argument 'NAME_OR_RUN'"),
        ("predict translate-en-dk a", "regard predict: no trained model named 'translate-en-dk'; "),
        ("predict runs/gone a", "regard predict: no folder runs/gone; expected a run's folder or"),
        ("predict MODEL a --beam 0", "regard predict: Invalid value for '--beam'"),
        ("predict MODEL a --bean 1", "regard predict: No such option: --bean"),
        ("evaluate MODEL depth=1", "regard evaluate: Evaluation has no field 'depth'; it has beam"),
        ("look MODEL a -o a.gif", "regard look: expected -o for matrix to end in .png, .svg, "),
        (
            "look MODEL a -o a.html --kind wall",
            "regard look: expected -o for wall to end in .p",
        ),
        ("look MODEL a --kind wall", "regard look: expected -o for wall: only the matrix can be"),
        ("look MODEL a --kind cube", "regard look: Invalid value for '--kind'"),
        ("look MODEL a --kind tape", "regard look: expected -o for tape: only the matrix can be"),
        (
            "look MODEL a --kind tape -o a.html",
            "regard look: expected -o for tape to end in .png, ",
        ),
        (
            "look MODEL a --kind tape -o a.png",
            "regard look: tape: expected a trace with slots of",
        ),
        ("look MODEL a --step 1 -o a.png", "regard look: expected --step for a tape or a pl"),
        ("look MODEL a --kind plane -o a.png", "regard look: plane: expected a trace with points"),
    ],
)
def test_what_is_asked_wrongly_is_one_line_and_exit_code_2(regard, model, words, line):
    code, out, err = regard(*(model if word == "MODEL" else word for word in words.split()))
    assert (code, out) == (2, "")
    assert err.startswith(line)
    assert err.count("\n") == 1


@pytest.mark.parametrize("recipe_name", ["sort", "copy", "translate"])
@pytest.mark.parametrize(
    ("setting", "line"),
    [
        (f"training.seed={'9' * 20}", "Training: expected seed from 0 to 2^64 - 1, got 999"),
        ("name=../../../esc", "expected name of at most 100 bytes that can be printed"),
    ],
    ids=["seed", "name"],
)
def test_a_seed_or_a_name_that_cannot_be_is_exit_code_2_and_makes_no_folder(
    regard, monkeypatch, tmp_path, recipe_name, setting, line
):
    monkeypatch.chdir(tmp_path)
    code, out, err = regard("train", recipe_name, setting)
    assert (code, out, list(tmp_path.iterdir())) == (2, "", [])
    assert line in err and err.count("\n") == 1


def fails(error):
    def run(loaded, text, *, beam=1):
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("two\nlines \x1b[31m"), "two lines \\x1b[31m"),
        (OSError(errno.ENOENT, "No such file", "a.tsv"), "No such file: a.tsv"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (ModuleNotFoundError("plots need matplotlib"), "plots need matplotlib"),
        (KeyboardInterrupt(), "interrupted"),
        (IndexError("3"), "IndexError: 3; run again with --debug to see where"),
    ],
    ids=["value", "file", "disk", "extra", "interrupt", "fault"],
)
def test_what_fails_is_one_line_and_exit_code_1(regard, model, recipe, error, line):
    recipe.predict = fails(error)
    assert regard("predict", model, "a") == (1, "", f"regard predict: {line}\n")


@pytest.mark.parametrize("words", [("--debug", "predict"), ("predict", "--debug")])
def test_debug_shows_where_before_or_behind_the_command(regard, model, recipe, words):
    recipe.predict = fails(ValueError("no"))
    code, out, err = regard(*words, model, "a")
    assert (code, out) == (1, "")
    assert err.startswith("Traceback (most recent call last)")
    assert err.endswith("\nregard predict: no\n")


def test_a_damaged_model_is_exit_code_1(regard, model):
    (Path(model) / "model.safetensors").write_bytes(b"x" * 100)
    code, out, err = regard("predict", model, "a")
    assert (code, out) == (1, "")
    assert "is no whole safetensors file" in err


def test_bytes_that_are_no_text_are_named(regard, model, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(b"good\n\xff\n"), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", stream)
    code, _, err = regard("predict", model)
    assert code == 1
    assert err.startswith("regard predict: expected UTF-8 on standard input: 'utf-8' codec")


def test_what_a_model_says_cannot_steer_the_terminal(regard, model, recipe):
    said = "\x1b]0;owned\x07 \u202edesrever\u2028 \x9b31m\ud800 d\u2019accord\u202f! 🤷\u200d♀️\nx"
    recipe.predict = lambda *_: SimpleNamespace(text=said, candidates=[])
    _, out, _ = regard("predict", model, "a")
    steering = "\\x1b]0;owned\\x07 \\u202edesrever\\u2028 \\x9b31m\\ud800 "
    assert out == steering + "d\u2019accord\u202f! 🤷\u200d♀️\nx\n"


def test_what_takes_more_than_two_seconds_says_so(regard, model, recipe, monkeypatch):
    assert console.SECONDS_BETWEEN_NOTES == 2
    monkeypatch.setattr(console, "SECONDS_BETWEEN_NOTES", 0.1)
    recipe.evaluate = lambda loaded, told: time.sleep(0.4) or {"bleu": 1.0}
    code, out, err = regard("evaluate", model)
    assert (code, out) == (0, "  bleu  1\n")
    assert set(err.splitlines()) == {"evaluating … 0 s"}


def started(*words: str, **kwargs) -> subprocess.Popen:
    command = [sys.executable, "-m", "regard", *words]
    buffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    return subprocess.Popen(
        command, cwd=ROOT, env=buffered, stderr=subprocess.PIPE, text=True, **kwargs
    )


def test_a_closed_pipe_is_quiet():
    read, write = os.pipe()
    os.close(read)
    process = started("--help", stdout=write)
    os.close(write)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line():
    with Path("/dev/full").open("w") as full:
        process = started("list", stdout=full)
        assert process.communicate(timeout=60)[1] == "regard list: No space left on device\n"
    assert process.returncode == 1


def test_a_full_disk_is_one_line_also_where_standard_output_is_closed(regard, recipe, monkeypatch):
    def run(*_, **__):
        raise OSError(errno.ENOSPC, "runs/a could not be written")

    recipe.run = run
    monkeypatch.setattr(sys, "stdout", None)
    assert regard("train", "translate")[::2] == (1, "regard train: runs/a could not be written\n")


@pytest.mark.parametrize("words", [["--help"], ["train", "--help"], ["list"]], ids=" ".join)
def test_help_answers_in_half_a_second_and_without_torch(words):
    code = (
        "import sys, time; start = time.perf_counter()\n"
        "from regard.cli.main import main; main(sys.argv[1:])\n"
        "print(time.perf_counter() - start, 'torch' in sys.modules, file=sys.stderr)"
    )
    taken = []
    while len(taken) < 9 and min(taken, default=9) > 0.5:
        command = [sys.executable, "-c", code, *words]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        seconds, loaded = done.stderr.split()
        assert loaded == "False"
        taken.append(float(seconds))
    assert min(taken) <= 0.5
