import math
from dataclasses import replace

import pytest
import torch

from regard.train import DivergedError, Optimizer, Schedule, checkpoints
from regard.train.devices import launch_fabric
from regard.train.engine import Engine
from tests.train import toy


def engine(folder, *, model=None, loss=toy.loss, batches=None, **fields):
    training = toy.training(**fields)
    model, batches = model or toy.model(), batches or toy.Batches()
    return Engine(model, loss, batches, training, fabric=launch_fabric(training), folder=folder)


def stepped(engine, steps):
    for _ in range(steps):
        engine.train_step()
    return [one.loss for one in engine.check_losses()]


class Same:
    """Batches of the given sizes, cut from the same points."""

    def __init__(self, *sizes):
        self.parts = torch.randn(sum(sizes), 3).split(sizes)

    def epoch(self, number, start=0):
        for x in self.parts[start:]:
            yield toy.Batch(x, len(x))


class Whole(Same):
    """The same points as one batch."""

    def epoch(self, number, start=0):
        x = torch.cat(self.parts)
        yield from [toy.Batch(x, len(x))][start:]


def undropped():
    return toy.model(torch.float64).eval()


def test_unequal_batches_that_are_accumulated_are_one_large_batch(tmp_path):
    torch.manual_seed(0)
    parts = engine(tmp_path, model=undropped(), batches=Same(1, 4), accumulate=2)
    torch.manual_seed(0)
    whole = engine(tmp_path, model=undropped(), batches=Whole(1, 4))
    ours, theirs = stepped(parts, 3), stepped(whole, 3)
    assert all(map(math.isclose, ours, theirs))
    for a, b in zip(parts.model.parameters(), whole.model.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_a_step_is_that_of_a_bare_loop(tmp_path):
    model = toy.model().eval()
    bare = torch.optim.SGD(model.parameters(), lr=0.5)
    ours = engine(tmp_path, model=toy.model().eval(), optimizer=Optimizer("sgd", rate=0.5))
    for batch in toy.Batches().epoch(0):
        bare.zero_grad()
        toy.loss(model, batch).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        bare.step()
        ours.train_step()
    for a, b in zip(ours.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_gradients_that_were_there_before_do_not_count(tmp_path):
    model = toy.model().eval()
    for p in model.parameters():
        p.grad = torch.full_like(p, 1e6)
    ours, fresh = engine(tmp_path, model=model), engine(tmp_path, model=toy.model().eval())
    ours.train_step(), fresh.train_step()
    assert toy.weights(ours.model) == toy.weights(fresh.model)


def test_clipping_bounds_the_gradient_and_its_norm_is_kept(tmp_path):
    before = toy.model()
    ours = engine(tmp_path, clip=1e-3, optimizer=Optimizer("sgd", rate=1.0))
    ours.train_step()
    pairs = zip(ours.model.parameters(), before.parameters(), strict=True)
    moved = sum(float((a - b).detach().square().sum()) for a, b in pairs) ** 0.5
    assert math.isclose(moved, 1e-3, rel_tol=1e-2)
    assert ours.check_losses()[0].norm > 1e-3


def test_without_clipping_there_is_no_norm(tmp_path):
    ours = engine(tmp_path, clip=0.0)
    ours.train_step()
    assert ours.check_losses()[0].norm is None


def test_the_rate_follows_the_schedule(tmp_path):
    ours = engine(tmp_path, schedule=Schedule("linear", warmup=2), steps=4)
    rates = [ours.train_step() and ours.rate for _ in range(4)]
    assert rates == [0.005, 0.01, 0.005, 0.0]


@pytest.mark.parametrize("kind", ["adam", "adamw", "adadelta", "sgd"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_loaded_engine_goes_on_bit_for_bit(tmp_path, kind, dtype):
    fields = {"optimizer": Optimizer(kind), "ema_decay": 0.9, "accumulate": 2}
    ours = engine(tmp_path, model=toy.model(dtype), **fields)
    stepped(ours, 4)
    ours.save()
    losses = stepped(ours, 5)
    again = engine(tmp_path, model=toy.model(dtype), **fields)
    again.load(4)
    assert stepped(again, 5) == losses
    assert toy.weights(again.model) == toy.weights(ours.model)
    assert toy.weights(again.average.model) == toy.weights(ours.average.model)


def test_the_time_of_all_sittings_counts(tmp_path, monkeypatch):
    ours = engine(tmp_path)
    monkeypatch.setattr(ours, "_seconds_before", 1000.0)
    ours.save()
    again = engine(tmp_path)
    again.load(0)
    assert again.seconds > 1000


def test_tied_weights_are_saved_once_and_stay_tied(tmp_path):
    def tied():
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
        model[1].weight = model[0].weight
        return model

    ours = engine(tmp_path, model=tied(), ema_decay=0.5)
    stepped(ours, 2)
    ours.save()
    again = engine(tmp_path, model=tied(), ema_decay=0.5)
    again.load(2)
    assert again.model[0].weight is again.model[1].weight
    assert stepped(again, 3) == stepped(ours, 3)


def test_mixed_precision_computes_in_bfloat16_and_keeps_float32(tmp_path):
    seen = []

    def loss(model, batch):
        out = model(batch.x)
        seen.append((batch.x.dtype, out.dtype))
        return out.float().square().mean()

    ours = engine(tmp_path, loss=loss, precision="bf16-mixed")
    ours.train_step()
    assert seen == [(torch.float32, torch.bfloat16)]
    assert {p.dtype for p in ours.model.parameters()} == {torch.float32}


def test_a_loss_that_is_not_finite_is_named_by_its_step(tmp_path):
    ours = engine(tmp_path, loss=lambda model, batch: toy.loss(model, batch) / (ours.step < 3))
    ours.save()
    stepped(ours, 2)
    with pytest.raises(
        DivergedError, match=r"fit: the loss of step 4 is (inf|nan); step-00000000 is who"
    ):
        stepped(ours, 4)


def root_of_nothing(ours, step):
    """A loss that is finite in that step, with gradients that are not."""
    return lambda model, batch: (
        toy.loss(model, batch)
        + ((model[0].weight * 0).sum().sqrt() if ours[0].step == step - 1 else 0)
    )


def test_a_gradient_that_is_not_finite_is_named_before_the_loss_is_lost(tmp_path):
    ours = []
    ours.append(engine(tmp_path, loss=root_of_nothing(ours, 3)))
    stepped(ours[0], 2)
    ours[0].train_step()
    with pytest.raises(DivergedError, match="fit: the gradient of step 3 is nan; nothing was save"):
        ours[0].check_losses()


def test_gradients_that_are_not_finite_are_counted(tmp_path):
    ours = []
    ours.append(engine(tmp_path, loss=root_of_nothing(ours, 1)))
    for _ in range(3):
        ours[0].train_step()
    with pytest.raises(DivergedError, match=r"step 1 is nan.* \(gradients of 3 steps are not fin"):
        ours[0].check_losses()


def test_weights_that_are_not_finite_are_not_saved(tmp_path):
    ours = engine(tmp_path)
    ours.save()
    ours.train_step()
    torch.nn.init.constant_(ours.model[0].weight, float("nan"))
    with pytest.raises(
        DivergedError, match="the weights after step 1 are not finite; step-0000000"
    ):
        ours.save()
    assert checkpoints.list_steps(tmp_path) == [0]


@pytest.mark.parametrize("state", [{}, {"optimizer": "adam"}])
def test_a_state_that_lacks_something_is_one_sentence(tmp_path, state):
    engine(tmp_path).save()
    found = checkpoints.load(tmp_path)
    checkpoints.save(tmp_path, replace(found, step=1, state=state))
    with pytest.raises(ValueError, match=r"step-00000001 is of no training: \w+Error$"):
        engine(tmp_path).load(1)


JUDGED = {"best": 1.0, "step": 0, "metrics": {"loss": 1.0}, "bad": 0}


@pytest.mark.parametrize(
    "changed",
    [{"seconds": None}, {"seconds": "x" * 999}, {"seconds": 10**400}]
    + [{"stream": {"epoch": 0, "batch": value}} for value in (None, 0.5, True, "x" * 999)]
    + [{"optimizer": "x" * 999}, {"seconds": math.nan}, {"scaler": None}, {"scaler": "x"}]
    + [{"running": value} for value in (None, {}, [1], [[]], [[1, "x", "y", "z"]], ["abcd"])]
    + [{"running": [["x", 1.0, 1, None]]}, {"running": [[1, 1.0, 1, "x" * 999]]}]
    + [{"stopping": value} for value in (None, [], {}, {"best": None})]
    + [{"stopping": JUDGED | {"best": value}} for value in ("x", [], {}, True, math.nan, 10**400)]
    + [{"stopping": JUDGED | {"step": value}} for value in ("x", [], -5, 0.5, 10**30)]
    + [{"stopping": JUDGED | {"metrics": value}} for value in ("x", [], {"loss": "x"})]
    + [{"stopping": JUDGED | {"bad": value}} for value in ("x", [], -1)],
    ids=lambda changed: str(changed)[:40],
)
def test_a_state_of_other_types_is_one_short_sentence(tmp_path, changed):
    engine(tmp_path).save()
    found = checkpoints.load(tmp_path)
    checkpoints.save(tmp_path, replace(found, step=1, state=found.state | changed))
    with pytest.raises(ValueError, match=r"step-00000001 (is of no training|was trained with x)"):
        engine(tmp_path).load(1)
    with pytest.raises(ValueError, match=r"^.{1,250}$"):
        engine(tmp_path).load(1)


def test_another_optimizer_is_refused(tmp_path):
    engine(tmp_path).save()
    with pytest.raises(ValueError, match="step-00000000 was trained with adam, expected sgd"):
        engine(tmp_path, optimizer=Optimizer("sgd")).load(0)


def test_another_model_is_refused(tmp_path):
    engine(tmp_path).save()
    with pytest.raises(ValueError, match="step-00000000 is of another model: size mismatch for"):
        engine(tmp_path, model=torch.nn.Sequential(torch.nn.Linear(5, 4))).load(0)


def test_weights_that_would_be_rounded_are_refused(tmp_path):
    engine(tmp_path).save()
    found = checkpoints.load(tmp_path)
    whole = {name: x.long() for name, x in found.trees["model"].items()}
    checkpoints.save(tmp_path, replace(found, step=1, trees=found.trees | {"model": whole}))
    with pytest.raises(ValueError, match=r"another model: expected .* as torch\.float.*int64$"):
        engine(tmp_path).load(1)


def test_an_average_that_is_new_begins_with_the_weights_of_the_checkpoint(tmp_path):
    ours = engine(tmp_path)
    stepped(ours, 2)
    ours.save()
    again = engine(tmp_path, ema_decay=0.9)
    again.load(2)
    assert toy.weights(again.average.model) == toy.weights(ours.model)
