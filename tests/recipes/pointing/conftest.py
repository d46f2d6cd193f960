"""Two small models that have learned: one puts numbers in order, one goes round cities."""

from dataclasses import replace

import pytest

from regard import load
from regard.data.numbers import Numbers
from regard.data.tours import Tour
from regard.models.attention_pointer import AttentionPointerConfig
from regard.models.pointer_network import PointerNetworkConfig
from regard.recipes import sort, tsp
from regard.recipes.pointing import training
from regard.recipes.pointing.config import Batches
from regard.recipes.pointing.recipe import Recipe
from regard.train.settings import Optimizer, Schedule, Training

LEARNING = Training(
    steps=200,
    optimizer=Optimizer("adam", rate=1e-2),
    schedule=Schedule("cosine", warmup=10),
    device="cpu",
    watch="accuracy",
    best="highest",
    judge_every=50,
    report_every=10,
    save_every=50,
)
TOURING = replace(
    LEARNING,
    steps=40,
    optimizer=Optimizer("adam", rate=3e-3),
    watch="length",
    best="lowest",
    judge_every=20,
    save_every=20,
)


@pytest.fixture(scope="package")
def sorting() -> Recipe:
    """Sorting, measured at the most numbers that were learned."""
    numbers = {"5": sort.Evaluation(5, 101), "3": sort.Evaluation(3, 53)}
    return replace(sort.RECIPE, numbers=numbers, development=((3, 53), (5, 101)))


@pytest.fixture(scope="package")
def toy() -> sort.Config:
    net = PointerNetworkConfig(reader="attention", width=16, heads=2, layers=1, inner=32)
    return sort.Config("toy", Numbers(3, 5), net, LEARNING, Batches(32))


@pytest.fixture(scope="package")
def sorted_(sorting, toy, tmp_path_factory):
    return training.trained(sorting, toy, out=tmp_path_factory.mktemp("sorted"))


@pytest.fixture(scope="package")
def sorter(sorted_):
    return load(sorted_.folder)


@pytest.fixture(scope="package")
def touring() -> Recipe:
    numbers = {"6": tsp.Evaluation(6, 53, starts=1)}
    return replace(tsp.RECIPE, numbers=numbers, development=((6, 101),))


@pytest.fixture(scope="package")
def toy_tour() -> tsp.Config:
    net = AttentionPointerConfig(width=32, heads=2, layers=1, inner=64)
    return tsp.Config("toy", Tour(5, 6), net, TOURING, Batches(32))


@pytest.fixture(scope="package")
def toured(touring, toy_tour, tmp_path_factory):
    return training.trained(touring, toy_tour, out=tmp_path_factory.mktemp("toured"))


@pytest.fixture(scope="package")
def tourist(toured):
    return load(toured.folder)
