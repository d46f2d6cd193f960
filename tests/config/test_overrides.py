"""Settings are set by words and by JSON, and what does not fit is refused in words."""

import json
import subprocess
import sys
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Literal, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import fields, from_json, override, to_json


@dataclass(frozen=True)
class Model:
    width: int = 12
    heads: int = 3
    kind: Literal["gru", "lstm"] = "gru"

    def __post_init__(self):
        if self.width % self.heads:
            raise ValueError(f"Model: width {self.width} does not split into {self.heads} heads")


@dataclass(frozen=True)
class Training:
    steps: int = 1000
    rate: float = 1e-3
    betas: tuple[float, float] | None = None


@dataclass(frozen=True)
class Config:
    name: str
    model: Model = Model(width=24)
    training: Training = field(default_factory=Training)
    data: Path | None = None
    sizes: tuple[int, ...] = (1, 2)
    tied: bool = False
    seed: int | float = 0
    level: Literal[1, 2, 3] = 1
    extra: Optional[Training] = None  # noqa: UP045
    title: str | None = None
    total: int = field(init=False, default=7)


DEFAULT = Config("a")


@pytest.mark.parametrize(
    "setting, name, value",
    [
        ("name=b", "name", "b"),
        ("name=none", "name", "none"),
        ("name=x=y", "name", "x=y"),
        ("name=", "name", ""),
        ("title=None", "title", None),
        ("title=3", "title", "3"),
        ("data=corpus/pairs.tsv", "data", Path("corpus/pairs.tsv")),
        ("data=none", "data", None),
        ("sizes=3,5,7", "sizes", (3, 5, 7)),
        ("sizes=3, 5,", "sizes", (3, 5)),
        ("sizes=3", "sizes", (3,)),
        ("sizes=", "sizes", ()),
        ("tied=true", "tied", True),
        ("tied=False", "tied", False),
        ("seed=3", "seed", 3),
        ("seed=0.5", "seed", 0.5),
        ("level=2", "level", 2),
        ("extra=none", "extra", None),
    ],
)
def test_a_value_is_read_as_its_field_says(setting, name, value):
    found = getattr(override(DEFAULT, [setting]), name)
    assert found == value and type(found) is type(value)


@dataclass(frozen=True)
class Inner:
    # of it
    width: int = 3


@dataclass(frozen=True)
class Commented:
    # how long it takes,
    # all told
    steps: int = 1

    rate: float = 0.1
    inner: Inner = field(default_factory=Inner)


def test_a_home_folder_is_found_though_no_shell_looks_behind_an_equals_sign():
    assert override(DEFAULT, ["data=~/pairs.tsv"]).data == Path.home() / "pairs.tsv"


def test_the_home_folder_of_nobody_is_refused():
    with pytest.raises(ValueError, match="expected data as a path or none, got '~no-such-user/a'"):
        override(DEFAULT, ["data=~no-such-user/a"])


def test_dots_lead_into_the_configs_inside():
    settings = ["model.width=32", "model.heads=4", "training.rate=3e-4", "training.steps=1_000"]
    found = override(DEFAULT, [*settings, "training.betas=0.9,0.98"])
    assert found.model == Model(32, 4)
    assert found.training == Training(1000, 3e-4, (0.9, 0.98))
    assert DEFAULT.model.width == 24


def test_no_settings_change_nothing():
    assert override(DEFAULT, []) == DEFAULT


def test_a_config_checks_the_whole_and_no_state_between():
    # width 10 does not split into the 3 heads that there were
    assert override(DEFAULT, ["model.width=10", "model.heads=5"]).model == Model(10, 5)
    with pytest.raises(ValueError, match="Model: width 10 does not split into 3 heads"):
        override(DEFAULT, ["model.width=10"])


REFUSED = {
    "training.rate=fast": "Config: expected training.rate as a number, got 'fast'",
    "training.rate=inf": "Config: expected training.rate as a number, got 'inf'",
    "training.rate=nan": "Config: expected training.rate as a number, got 'nan'",
    "training.steps=3.0": "Config: expected training.steps as a whole number, got '3.0'",
    "training.steps=1e3": "Config: expected training.steps as a whole number, got '1e3'",
    "training.steps=none": "Config: expected training.steps as a whole number, got 'none'",
    "training.betas=1": (
        "Config: expected training.betas as 2 values with commas between (a number, a number) "
        "or none, got '1'"
    ),
    "sizes=1,x": (
        "Config: expected sizes as a whole number, or several with commas between, got '1,x'"
    ),
    "tied=1": "Config: expected tied as true or false, got '1'",
    "seed=x": "Config: expected seed as a number, got 'x'",
    "level=4": "Config: expected level as one of 1, 2, 3, got '4'",
    "model.kind=rnn": "Config: expected model.kind as one of gru, lstm, got 'rnn'",
    "model.witdh=4": (
        "Model has no field 'witdh' (model.witdh); it has width, heads, kind; "
        "did you mean model.width?"
    ),
    "tide=true": (
        "Config has no field 'tide'; it has name, model, training, data, sizes, tied, seed, level, "
        "extra, title; did you mean tied?"
    ),
    "model=3": (
        "Config: expected a field of model, such as model.width=…, got model=3; "
        "Model has width, heads, kind"
    ),
    "extra=3": (
        "Config: expected a field of extra, such as extra.steps=…, got extra=3; "
        "Training has steps, rate, betas"
    ),
    "extra.steps=3": (
        "Config: expected extra as Training or none, got extra.steps, but None has no fields"
    ),
    "name.first=x": "Config: expected name as text, got name.first, but 'a' has no fields",
    "name": "Config: expected field=value, got 'name'",
    "=3": "Config: expected field=value, got '=3'",
}


@pytest.mark.parametrize("setting", REFUSED)
def test_what_does_not_fit_is_refused_in_words(setting):
    with pytest.raises(ValueError) as refused:
        override(DEFAULT, [setting])
    assert str(refused.value) == REFUSED[setting]


@pytest.mark.parametrize(
    "settings, words",
    [
        (["name=b", "name=c"], "Config: expected name once, got 'b' and 'c'"),
        (["extra=none", "extra.steps=3"], "Config: expected extra or fields of it, got both"),
    ],
)
def test_a_field_is_given_once(settings, words):
    with pytest.raises(ValueError, match=words):
        override(DEFAULT, settings)


@given(
    st.builds(
        Config,
        name=st.text(),
        model=st.builds(Model, width=st.integers(0, 9).map(lambda n: 3 * n)),
        training=st.builds(
            Training,
            rate=st.floats(allow_nan=False, allow_infinity=False),
            betas=st.none() | st.tuples(st.floats(0, 1), st.floats(0, 1)),
        ),
        data=st.none() | st.just(Path("a/b.tsv")),
        sizes=st.lists(st.integers()).map(tuple),
        tied=st.booleans(),
        extra=st.none() | st.builds(Training),
        title=st.none() | st.text(),
    )
)
def test_what_is_written_as_json_comes_back_the_same(made):
    assert from_json(Config, json.loads(json.dumps(to_json(made)))) == made


def test_plain_by_hand():
    assert to_json(Training(3, 0.5, (0.25, 1.0))) == {
        "steps": 3,
        "rate": 0.5,
        "betas": [0.25, 1.0],
    }


@pytest.mark.parametrize("rate", [float("inf"), float("nan"), {1}])
def test_what_json_cannot_hold_is_refused(rate):
    words = "Config: expected training.rate as something JSON can hold, got "
    with pytest.raises(ValueError, match=words):
        to_json(Config("a", training=Training(rate=rate)))


def test_fields_with_a_default_may_be_left_out_and_whole_numbers_are_numbers():
    found = from_json(Config, {"name": "a", "training": {"rate": 1}})
    assert found == Config("a", training=Training(rate=1.0))
    assert type(found.training.rate) is float


MISFITS = [
    ({}, "Config: expected a value for name, got none at all"),
    (3, "Config: expected the fields of Config, got 3"),
    ({"model": 3}, "Config: expected model as the fields of Model, got 3"),
    ({"model": None}, "Config: expected model as the fields of Model, got None"),
    ({"extra": {"steps": True}}, "Config: expected extra.steps as a whole number, got True"),
    ({"training": {"steps": 3.0}}, "Config: expected training.steps as a whole number, got 3.0"),
    ({"training": {"rate": "1"}}, "Config: expected training.rate as a number, got '1'"),
    ({"training": {"rate": 1e999}}, "Config: expected training.rate as a number, got inf"),
    ({"training": {"rate": 10**400}}, "Config: expected training.rate as a number, got 1000"),
    ({"training": {"betas": [1.0]}}, "Config: expected training.betas as 2 values with commas"),
    ({"sizes": ["1"]}, "Config: expected sizes as a whole number, or several"),
    ({"sizes": 1}, "Config: expected sizes as a whole number, or several"),
    ({"level": True}, "Config: expected level as one of 1, 2, 3, got True"),
    ({"data": 3}, "Config: expected data as a path or none, got 3"),
    ({"tied": None}, "Config: expected tied as true or false, got None"),
    ({"model": {"depth": 3}}, "Model has no field 'depth' (model.depth); it has width, heads"),
]


@pytest.mark.parametrize("given, words", MISFITS)
def test_json_that_does_not_fit_is_refused_in_words(given, words):
    named = {"name": "a", **given} if isinstance(given, dict) and given else given
    with pytest.raises(ValueError) as refused:
        from_json(Config, named)
    assert str(refused.value).startswith(words)


def test_a_config_checks_what_was_restored():
    with pytest.raises(ValueError, match="Model: width 10 does not split into 3 heads"):
        from_json(Config, {"name": "a", "model": {"width": 10}})


def test_fields_are_listed_with_the_defaults_that_hold_inside():
    found = {name: (words, default) for name, words, default, _ in fields(Config)}
    assert found["name"] == ("text", MISSING)
    assert found["model.width"] == ("a whole number", 24)
    assert found["model.kind"] == ("one of gru, lstm", "gru")
    assert found["training.rate"] == ("a number", 1e-3)
    assert found["extra"] == ("Training or none", None)
    assert "model" not in found and "total" not in found


def test_every_default_that_is_listed_can_be_said():
    found = [f for f in fields(Config) if f.default is not MISSING]
    said = [f"{f.name}={','.join(map(str, f.default))}" for f in found if f.name == "sizes"]
    said += [f"{f.name}={f.default}" for f in found if f.name != "sizes"]
    assert override(DEFAULT, said) == DEFAULT


def test_what_a_config_works_out_for_itself_is_not_set():
    with pytest.raises(ValueError, match="Config has no field 'total'; it has name, model"):
        override(DEFAULT, ["total=3"])
    assert "total" not in to_json(DEFAULT)


def test_settings_need_no_torch():
    code = "import sys, regard.config; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_comment_above_a_field_is_its_help():
    about = {field.name: field.about for field in fields(Commented)}
    assert about == {"steps": "how long it takes, all told", "rate": "", "inner.width": "of it"}


@dataclass(frozen=True)
class Recurrent:
    # how it remembers
    kind: Literal["gru", "lstm"] = "gru"
    width: int = 8
    gates: int = 3


@dataclass(frozen=True)
class Transformer:
    kind: Literal["transformer"] = "transformer"
    layers: int = 6
    width: int = 16


@dataclass(frozen=True)
class Corpus:
    name: Literal["sample", "multi30k-en-de", "file"] = "sample"
    pairs: Path | None = None

    def __post_init__(self):
        if (self.name == "file") != (self.pairs is not None):
            raise ValueError("Corpus: expected pairs for file, and for nothing else")


@dataclass(frozen=True)
class Learned:
    # what learns
    model: Recurrent | Transformer = Recurrent(width=24)
    data: Corpus = Corpus()
    second: Corpus | None = None


@dataclass(frozen=True)
class Study:
    learned: Learned = Learned()


BEGUN = Learned()


def test_a_word_sets_the_first_field_of_a_config_and_keeps_the_others():
    assert override(BEGUN, ["model=lstm"]).model == Recurrent("lstm", 24)
    assert override(BEGUN, ["data=multi30k-en-de"]).data == Corpus("multi30k-en-de")
    assert override(BEGUN, ["data.name=multi30k-en-de"]).data == Corpus("multi30k-en-de")


@pytest.mark.parametrize("word", ["model=transformer", "model.kind=transformer"])
def test_a_word_of_another_config_makes_that_one_and_keeps_one_that_is_there(word):
    chosen = override(BEGUN, [word])
    assert chosen.model == Transformer()
    assert override(chosen, ["model.layers=2"]).model == Transformer(layers=2)
    assert override(override(chosen, ["model.layers=2"]), [word]).model == Transformer(layers=2)
    assert override(chosen, ["model=gru"]).model == Recurrent()


def test_the_word_comes_first_whatever_is_said_first():
    said = ["model.layers=2", "model=transformer", "model.width=4"]
    assert override(BEGUN, said).model == Transformer(layers=2, width=4)


def test_a_config_that_needs_a_word_and_a_field_gets_both_at_once():
    assert override(BEGUN, ["data=file", "data.pairs=a"]).data == Corpus("file", Path("a"))
    assert override(BEGUN, ["second=file", "second.pairs=a"]).second == Corpus("file", Path("a"))
    with pytest.raises(ValueError, match="Corpus: expected pairs for file, and for nothing else"):
        override(BEGUN, ["data=file"])


def test_a_word_makes_the_config_that_was_none_and_none_takes_it_away():
    chosen = override(BEGUN, ["second=multi30k-en-de"])
    assert chosen.second == Corpus("multi30k-en-de")
    assert override(chosen, ["second=none"]).second is None


def test_words_choose_deeper_down_too():
    found = override(Study(), ["learned.model=transformer", "learned.model.layers=3"])
    assert found == Study(Learned(Transformer(layers=3)))
    assert from_json(Study, to_json(found)) == found


WORDS_REFUSED = {
    "model=transfromer": (
        "Learned: expected model as one of gru, lstm, transformer, got 'transfromer'; "
        "did you mean transformer?"
    ),
    "model.kind=rnn": ("Learned: expected model.kind as one of gru, lstm, transformer, got 'rnn'"),
    "data=multi30k": (
        "Learned: expected data as one of sample, multi30k-en-de, file, got 'multi30k'; "
        "did you mean multi30k-en-de?"
    ),
    "data.name=simple": (
        "Learned: expected data.name as one of sample, multi30k-en-de, file, got 'simple'; "
        "did you mean sample?"
    ),
    "second=x": (
        "Learned: expected second as one of sample, multi30k-en-de, file or none, got 'x'"
    ),
    "second.pairs=x": (
        "Learned: expected second as one of sample, multi30k-en-de, file or none, "
        "got second.pairs, but None has no fields"
    ),
    "model.bias=2": "Recurrent has no field 'bias' (model.bias); it has kind, width, gates",
    "model=gru model.kind=lstm": "Learned: expected model or model.kind, got both",
    "second=none second.pairs=x": "Learned: expected second or fields of it, got both",
}


@pytest.mark.parametrize("settings", WORDS_REFUSED)
def test_a_word_that_chooses_nothing_is_refused_with_those_that_do(settings):
    with pytest.raises(ValueError) as refused:
        override(BEGUN, settings.split())
    assert str(refused.value) == WORDS_REFUSED[settings]


def test_json_names_the_config_and_the_first_one_needs_no_name():
    assert from_json(Learned, {"model": {"kind": "transformer", "layers": 2}}).model == Transformer(
        layers=2
    )
    assert from_json(Learned, {"model": {"gates": 4}}).model == Recurrent(gates=4)
    assert from_json(Learned, {"model": {"kind": "lstm"}}).model == Recurrent("lstm")


@pytest.mark.parametrize(
    "model, words",
    [
        ({"kind": "rnn"}, "Learned: expected model.kind as one of gru, lstm, transformer, got 'r"),
        ({"kind": [1]}, "Learned: expected model.kind as one of gru, lstm, transformer, got [1]"),
        ({"layers": 2}, "Recurrent has no field 'layers' (model.layers); it has kind, width, ga"),
        (3, "Learned: expected model as one of gru, lstm, transformer, got 3"),
        (None, "Learned: expected model as one of gru, lstm, transformer, got None"),
    ],
)
def test_json_that_names_no_config_is_refused_in_words(model, words):
    with pytest.raises(ValueError) as refused:
        from_json(Learned, {"model": model})
    assert str(refused.value).startswith(words)


def test_help_lists_the_words_first_then_the_fields_of_what_is_chosen():
    found = {field.name: field for field in fields(Learned)}
    assert list(found) == ["model", "model.width", "model.gates", "data", "data.pairs", "second"]
    assert found["model"].type_description == "one of gru, lstm, transformer"
    assert found["model"].default == "gru"
    assert found["model.width"].default == 24
    told = "what learns; how it remembers; model=transformer has layers, width"
    assert found["model"].about == told
    assert found["second"].type_description == "one of sample, multi30k-en-de, file or none"


def test_help_lists_the_fields_of_a_config_as_it_is():
    found = {f.name: f.default for f in fields(override(BEGUN, ["model=transformer"]))}
    assert list(found)[:3] == ["model", "model.layers", "model.width"]
    assert (found["model"], found["model.layers"]) == ("transformer", 6)
    said = [f"{name}={default}" for name, default in found.items()]
    assert override(BEGUN, said).model == Transformer()


def test_a_choice_that_has_no_default_is_listed_without_one():
    @dataclass(frozen=True)
    class Needed:
        data: Corpus

    assert fields(Needed)[0].default is MISSING
