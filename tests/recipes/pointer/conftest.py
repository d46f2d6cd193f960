"""Two small models that have learned: one puts numbers in order, one goes round cities."""

from dataclasses import replace

import pytest

from regard import load
from regard.data.geometry.numbers import Numbers
from regard.data.geometry.tours import Tour
from regard.models.attention_pointer import AttentionPointerConfig
from regard.models.pointer_network import PointerNetworkConfig
from regard.recipes import sort, tsp
from regard.recipes.pointer import train
from regard.recipes.pointer.config import Batches
from regard.recipes.pointer.recipe import Recipe
from regard.train.settings import Optimizer, Schedule, Training

LEARNING = Training(
    steps=200,
    optimizer=Optimizer("adam", rate=1e-2),
    schedule=Schedule("cosine", warmup=10),
    device="cpu",
    monitor="accuracy",
    monitor_mode="highest",
    validate_every=50,
    report_every=10,
    save_every=50,
)
TOURING = replace(
    LEARNING,
    steps=40,
    optimizer=Optimizer("adam", rate=3e-3),
    monitor="length",
    monitor_mode="lowest",
    validate_every=20,
    save_every=20,
)


@pytest.fixture(scope="package")
def sorting() -> Recipe:
    """Sorting, measured at the most numbers that were learned."""
    numbers = {"5": sort.Evaluation(5, 101), "3": sort.Evaluation(3, 53)}
    return replace(sort.RECIPE, card_evaluations=numbers, validation_sizes=((3, 53), (5, 101)))


@pytest.fixture(scope="package")
def toy() -> sort.Config:
    net = PointerNetworkConfig(
        encoder="attention", width=16, heads=2, layers=1, feed_forward_width=32
    )
    return sort.Config("toy", Numbers(3, 5), net, LEARNING, Batches(32))


@pytest.fixture(scope="package")
def sorted_(sorting, toy, tmp_path_factory):
    return train.train_recipe(sorting, toy, out=tmp_path_factory.mktemp("sorted"))


@pytest.fixture(scope="package")
def sorter(sorted_):
    return load(sorted_.folder)


@pytest.fixture(scope="package")
def touring() -> Recipe:
    numbers = {"6": tsp.Evaluation(6, 53, starts=1)}
    return replace(tsp.RECIPE, card_evaluations=numbers, validation_sizes=((6, 101),))


@pytest.fixture(scope="package")
def toy_tour() -> tsp.Config:
    net = AttentionPointerConfig(width=32, heads=2, layers=1, feed_forward_width=64)
    return tsp.Config("toy", Tour(5, 6), net, TOURING, Batches(32))


@pytest.fixture(scope="package")
def toured(touring, toy_tour, tmp_path_factory):
    return train.train_recipe(touring, toy_tour, out=tmp_path_factory.mktemp("toured"))


@pytest.fixture(scope="package")
def tourist(toured):
    return load(toured.folder)
