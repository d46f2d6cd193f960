"""A kind of model is one of a closed table; a file cannot name anything else."""

import pytest
from torch import nn

from regard.zoo import model_kinds
from tests.zoo.tiny import Tiny, TinyConfig


def test_a_kind_gives_its_config_and_its_model():
    assert model_kinds.classes("tiny") == (TinyConfig, Tiny)
    assert model_kinds.kind_of(Tiny(TinyConfig())) == "tiny"


@pytest.mark.parametrize("kind", list(model_kinds.KINDS))
def test_every_kind_is_a_model_made_of_its_config(kind):
    config, model = model_kinds.classes(kind)
    assert issubclass(model, nn.Module)
    assert config.__dataclass_params__.frozen


@pytest.mark.parametrize("kind", ["transformer", "decoder-only", "ntm", "lstm"])
def test_a_config_that_says_its_kind_says_that_of_the_table(kind):
    config, _ = model_kinds.classes(kind)
    assert config().kind == kind
    assert next(iter(config.__dataclass_fields__)) == "kind"


def test_a_name_that_is_almost_a_kind_gets_a_hint():
    with pytest.raises(ValueError, match=r"no kind of model 'seq2sec'.* did you mean seq2seq\?"):
        model_kinds.classes("seq2sec")


def test_a_model_of_no_kind_is_refused():
    with pytest.raises(ValueError, match=r"save: expected a model of a kind .*, got Linear"):
        model_kinds.kind_of(nn.Linear(1, 1))
