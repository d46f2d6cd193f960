import pytest
import torch

from regard.train import Optimizer, Schedule, fit
from tests.train import toy

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed"])
def test_a_training_on_a_card_goes_on_to_the_same_losses(tmp_path, precision, capfd):
    fields = {"device": "cuda", "precision": precision, "ema_decay": 0.9}
    for run, steps in (("whole", (12,)), ("parts", (5, 12))):
        for to in steps:
            training = toy.training(**fields, steps=to)
            fit(toy.model(), toy.loss, toy.Batches(), training, run=tmp_path / run, resume=True)
    ours, theirs = ([x["loss"] for x in toy.said(tmp_path / r)][-1:] for r in ("parts", "whole"))
    assert ours == pytest.approx(theirs, rel=1e-5)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", ["adam", "adamw", "adadelta", "sgd"])
def test_captured_steps_are_the_steps_as_told(tmp_path, kind):
    losses = []
    for cuda_graphs in (False, True):
        fields = {"device": "cuda", "cuda_graphs": cuda_graphs, "optimizer": Optimizer(kind)}
        training = toy.training(**fields, steps=40, schedule=Schedule("cosine", warmup=5))
        run = tmp_path / str(cuda_graphs)
        fit(_still(toy.model()), toy.loss, toy.Batches(), training, run=run)
        losses.append([x["loss"] for x in toy.said(run)])
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)


def test_a_recorded_step_goes_on_from_where_it_was_set_back_to(tmp_path):
    seen = []
    for cuda_graphs in (False, True):
        run, validate = tmp_path / str(cuda_graphs), toy.validator(1.0, 9.0, 0.5)
        fields = {
            "device": "cuda",
            "cuda_graphs": cuda_graphs,
            "rollback_ratio": 4.0,
            "validate_every": 20,
        }
        training = toy.training(**fields, steps=60)
        found = fit(
            _still(toy.model()), toy.loss, toy.Batches(), training, run=run, validate=validate
        )
        seen.append(torch.cat([p.flatten().cpu() for p in found.model.parameters()]))
    torch.testing.assert_close(seen[1], seen[0], rtol=1e-3, atol=1e-5)


def _still(model):
    model[1].p = 0.0
    return model


def test_captured_dropout_differs_from_step_to_step(tmp_path):
    class Same:
        def epoch(self, number, start=0):
            return iter([toy.Batch(torch.ones(64, 3), 64)] * (5 - start))

    still = Optimizer("sgd", rate=1e-20)
    fields = {"device": "cuda", "cuda_graphs": True, "optimizer": still, "report_every": 1}
    fit(toy.model(), toy.loss, Same(), toy.training(**fields, steps=9), run=tmp_path)
    losses = [x["loss"] for x in toy.said(tmp_path)]
    assert len(set(losses)) == 9
