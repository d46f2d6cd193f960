"""A small machine that has learned to copy, for all recipes of machines."""

from dataclasses import replace

import pytest

from regard import load
from regard.data.ntm.copy import Copy
from regard.models.ntm import NTMConfig
from regard.recipes import copy
from regard.recipes.copy import Config
from regard.recipes.ntm import train
from regard.recipes.ntm.config import Batches
from regard.recipes.ntm.recipe import Recipe
from regard.train.settings import Optimizer, Schedule, Training

LEARNING = Training(
    steps=200,
    optimizer=Optimizer("adam", rate=2e-2),
    schedule=Schedule("cosine", warmup=10),
    monitor="bits",
    validate_every=50,
    report_every=10,
    save_every=50,
)


@pytest.fixture(scope="package")
def toy() -> Config:
    machine = NTMConfig(width=16, slots=8, slot_width=6, gate_bias=-2.0, sharpness_bias=2.0)
    return Config("toy", Copy(bits=2, longest=3), machine, LEARNING, Batches(16))


@pytest.fixture(scope="package")
def recipe() -> Recipe:
    """Copying, measured at the longest length that was learned."""
    return replace(
        copy.RECIPE, about="says it again", card_evaluations={"3": copy.Evaluation(length=3)}
    )


@pytest.fixture(scope="package")
def copied(recipe, toy, tmp_path_factory):
    return train.train_recipe(recipe, toy, out=tmp_path_factory.mktemp("copied"))


@pytest.fixture(scope="package")
def copier(copied):
    return load(copied.folder)
