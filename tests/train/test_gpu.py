import pytest
import torch

from regard.train import Optimizer, Schedule, fit
from tests.train import toy

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed"])
def test_a_training_on_a_card_goes_on_to_the_same_losses(tmp_path, precision, capfd):
    fields = {"device": "cuda", "precision": precision, "average": 0.9}
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
    for captured in (False, True):
        fields = {"device": "cuda", "captured": captured, "optimizer": Optimizer(kind)}
        training = toy.training(**fields, steps=40, schedule=Schedule("cosine", warmup=5))
        run = tmp_path / str(captured)
        fit(_still(toy.model()), toy.loss, toy.Batches(), training, run=run)
        losses.append([x["loss"] for x in toy.said(run)])
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)


def test_a_recorded_step_goes_on_from_where_it_was_set_back_to(tmp_path):
    seen = []
    for captured in (False, True):
        run, judge = tmp_path / str(captured), toy.judging(1.0, 9.0, 0.5)
        fields = {"device": "cuda", "captured": captured, "setback": 4.0, "judge_every": 20}
        training = toy.training(**fields, steps=60)
        found = fit(_still(toy.model()), toy.loss, toy.Batches(), training, run=run, judge=judge)
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
    fields = {"device": "cuda", "captured": True, "optimizer": still, "report_every": 1}
    fit(toy.model(), toy.loss, Same(), toy.training(**fields, steps=9), run=tmp_path)
    losses = [x["loss"] for x in toy.said(tmp_path)]
    assert len(set(losses)) == 9
