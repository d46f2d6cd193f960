import dataclasses
from types import SimpleNamespace

import pytest

from regard.train import Optimizer, Schedule, Training


def test_settings_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Training().steps = 3


def test_adadelta_is_that_of_bahdanau():
    told = Optimizer("adadelta").hyperparameters()
    assert told == {"rate": 1.0, "rho": 0.95, "eps": 1e-6, "decay": 0.0}


def test_what_is_given_goes_before_the_default():
    assert Optimizer("sgd", rate=0.5, momentum=0.9).hyperparameters() == {
        "rate": 0.5,
        "momentum": 0.9,
        "decay": 0.0,
    }


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"momentum": 0.9}, "Optimizer: adam has no momentum; it has rate, betas, eps, decay"),
        ({"kind": "sgd", "rho": 0.9}, "Optimizer: sgd has no rho"),
        ({"rate": 0.0}, "Optimizer: expected rate above 0, got 0.0"),
        ({"rate": float("nan")}, "Optimizer: expected rate above 0, got nan"),
        ({"decay": -1.0}, "Optimizer: expected decay of at least 0, got -1.0"),
        ({"betas": (0.9, 1.0)}, "Optimizer: expected betas from 0 to less than 1, got 1.0"),
    ],
)
def test_an_optimizer_refuses_what_contradicts_it(fields, message):
    with pytest.raises(ValueError, match=message):
        Optimizer(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"warmup": -1}, "Schedule: expected warmup of at least 0, got -1"),
        ({"kind": "inverse_square_root"}, "inverse_square_root expected warmup of at least 1"),
        (
            {"floor": 0.1},
            "expected floor from 0 to 1, for linear and cosine alone, got 0.1 for con",
        ),
        ({"kind": "linear", "floor": 1.5}, "expected floor from 0 to 1, .* got 1.5 for linear"),
        ({"after": 5}, "after and every belong to halving, not to constant"),
        ({"kind": "halving", "after": 5}, "halving expected after and every .* got 5 and None"),
    ],
)
def test_a_schedule_refuses_what_contradicts_it(fields, message):
    with pytest.raises(ValueError, match=message):
        Schedule(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"steps": 0}, "Training: expected steps of at least 1, got 0"),
        ({"save_every": 0}, "Training: expected save_every of at least 1, got 0"),
        ({"keep_checkpoints": 0}, "Training: expected keep_checkpoints of at least 1, got 0"),
        ({"clip": -1.0}, "Training: expected clip of at least 0, got -1.0"),
        ({"ema_decay": 1.0}, "Training: expected ema_decay from 0 to less than 1, got 1.0"),
        (
            {"patience": 2, "validate_every": 0},
            "patience needs validation, but validate_every is 0",
        ),
        (
            {"rollback_ratio": 4.0, "validate_every": 0},
            "rollback_ratio needs validation, but validate_every is 0",
        ),
        ({"rollback_ratio": 0.5}, "expected rollback_ratio above 1, or 0 for none, got 0.5"),
        ({"precision": "16-mixed", "device": "cpu"}, "Training: 16-mixed needs a GPU"),
    ],
)
def test_a_training_refuses_what_contradicts_it(fields, message):
    with pytest.raises(ValueError, match=message):
        Training(**fields)


@pytest.mark.parametrize(
    ("kind", "name"),
    [(Optimizer, "kind"), (Schedule, "kind")]
    + [(Training, name) for name in ("precision", "device", "strategy", "monitor_mode")],
)
def test_a_wrong_choice_is_answered_with_the_choices(kind, name):
    # past the type checker of the tests, as callers without one come
    given = SimpleNamespace(**vars(kind()) | {name: "other"})
    words = rf"{kind.__name__}: expected {name} to be one of .*, got other"
    with pytest.raises(ValueError, match=words):
        kind.__post_init__(given)


def test_a_step_of_cuda_graphs_is_one_batch_on_one_device_in_a_precision_that_does_not_wait():
    with pytest.raises(ValueError, match="a step of cuda_graphs is one batch on one device, got"):
        Training(cuda_graphs=True, accumulate=2)
    with pytest.raises(ValueError, match="16-mixed waits for the GPU at every step"):
        Training(cuda_graphs=True, precision="16-mixed")


@pytest.mark.parametrize("seed", [-1, 2**64, 10**4000], ids=["negative", "large", "very large"])
def test_a_seed_that_torch_does_not_take_is_one_short_sentence(seed):
    with pytest.raises(
        ValueError, match=r"^Training: expected seed from 0 to 2\^64 - 1, got .{,30}$"
    ):
        Training(seed=seed)
    assert Training(seed=2**64 - 1).seed == 2**64 - 1
