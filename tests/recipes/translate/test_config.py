"""The settings: what cannot be is refused, and whole settings have names."""

import pytest

from regard.config import from_json, override, to_json
from regard.recipes.translate import PRESETS, Config


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("tokens=0", "translate: expected tokens of at least 1, smoothing"),
        ("smoothing=1", "r_drop_weight of at least 0, got 800, 1.0 and 0.0"),
        ("model.vocabulary=1000000000", "expected model.vocabulary of at most 262144, got 100000"),
        ("model.vocabulary=100", r"expected model.vocabulary of at least 259 \(every byte\), got"),
        ("training.devices=2", "translate: one device for now"),
    ],
)
def test_what_cannot_be_is_refused_before_a_folder_is_opened(setting, message):
    with pytest.raises(ValueError, match=message):
        override(Config(), [setting])


@pytest.mark.parametrize("name", PRESETS)
def test_whole_settings_come_back_from_json(name):
    assert from_json(Config, to_json(PRESETS[name])) == PRESETS[name]


def test_a_word_chooses_the_data_and_the_kind_of_model():
    config = override(Config(), ["data=multi30k-en-de", "model=transformer", "model.layers=2"])
    assert (config.data.name, config.model.kind, config.model.layers) == (
        "multi30k-en-de",
        "transformer",
        2,
    )


def test_settings_of_before_there_were_kinds_are_those_of_a_recurrent_net():
    told = to_json(Config())
    del told["model"]["kind"], told["data"]["name"], told["r_drop_weight"], told["length_multiple"]
    assert from_json(Config, told) == Config()
