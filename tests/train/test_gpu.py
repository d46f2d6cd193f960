import pytest

from regard.train import fit
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
