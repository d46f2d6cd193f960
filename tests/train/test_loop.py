import errno
import io
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.runtime import compile
from regard.train import DamagedError, DivergedError, LineReport, checkpoints, fit
from tests.train import toy

EVENTS = ("train", "validate")


def trained(
    run, *, model=None, loss=toy.loss, validate=toy.validate, report=None, resume=False, **fields
):
    told = {} if report is None else {"report": report}
    training = toy.training(**fields)
    model = model or toy.model()
    return fit(
        model, loss, toy.Batches(), training, run=run, validate=validate, resume=resume, **told
    )


def stopping_at(step, number=signal.SIGINT):
    """A loss that is interrupted in the middle of a step."""
    calls = []

    def loss(model, batch):
        calls.append(batch)
        if len(calls) == step:
            os.kill(os.getpid(), number)
        return toy.loss(model, batch)

    return loss


def test_training_lowers_the_loss(tmp_path):
    found = trained(tmp_path, steps=150, save_every=50, validate_every=50)
    assert (found.step, found.stopped) == (150, "finished")
    losses = [line["loss"] for line in toy.said(tmp_path)]
    assert losses[-1] < 0.5 * losses[0]


def test_the_journal_has_a_line_for_every_interval_and_validation(tmp_path):
    trained(tmp_path)
    assert [line["step"] for line in toy.said(tmp_path)] == [3, 6, 9, 12]
    assert [line["step"] for line in toy.said(tmp_path, "validate")] == [4, 8, 12]
    assert toy.said(tmp_path)[0].keys() >= {"loss", "rate", "norm", "tokens", "epoch"}
    start = toy.said(tmp_path, "start")[0]
    assert (start["training"]["steps"], start["torch"]) == (12, torch.__version__)
    assert toy.said(tmp_path, "stop")[0]["stopped"] == "finished"


def test_the_same_seed_gives_the_same_losses_whatever_was_drawn_before(tmp_path):
    for run in ("a", "b"):
        model = toy.model()
        torch.rand(7)
        trained(tmp_path / run, model=model)
    assert toy.said(tmp_path / "a") == toy.said(tmp_path / "b")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A training that nobody interrupts."""
    run = tmp_path_factory.mktemp("whole")
    trained(run, ema_decay=0.9)
    return run


@pytest.mark.parametrize("step", [1, 4, 5, 7, 9, 11])
def test_interrupted_at_any_step_it_goes_on_to_the_same_losses(tmp_path, whole, step):
    found = trained(tmp_path / "run", loss=stopping_at(step), ema_decay=0.9)
    assert (found.stopped, found.step) == ("interrupted", step)
    again = trained(tmp_path / "run", resume=True, ema_decay=0.9)
    assert (again.stopped, again.step) == ("finished", 12)
    for event in EVENTS:
        assert toy.said(tmp_path / "run", event) == toy.said(whole, event)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_the_step_and_saves(tmp_path, number):
    before = signal.getsignal(number)
    found = trained(tmp_path, loss=stopping_at(7, number))
    assert (found.stopped, found.step) == ("interrupted", 7)
    assert checkpoints.latest_step(tmp_path / "checkpoints") == 7
    assert signal.getsignal(number) == before


def test_a_signal_while_it_is_validated_takes_no_further_step(tmp_path):
    def validate(model):
        os.kill(os.getpid(), signal.SIGTERM)
        return toy.validate(model)

    assert trained(tmp_path, validate=validate).step == 4


def test_what_was_best_by_another_measure_is_forgotten(tmp_path):
    validated = iter([5.0, 3.0, 2.0])

    def validate(model):
        return {"loss": 5.0, "bleu": next(validated)}

    trained(tmp_path, validate=validate, steps=4)
    other = {"monitor": "bleu", "monitor_mode": "highest"}
    found = trained(tmp_path, validate=validate, resume=True, **other)
    assert found.metrics == {"loss": 5.0, "bleu": 3.0}


def test_going_back_to_a_step_forgets_what_came_after(tmp_path):
    trained(tmp_path, keep_checkpoints=9)
    whole = toy.said(tmp_path)
    trained(tmp_path, keep_checkpoints=9, resume="step-00000005")
    assert toy.said(tmp_path) == whole
    assert [line["step"] for line in toy.said(tmp_path, "resume")] == [5]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A training whose checkpoints are all there."""
    run = tmp_path_factory.mktemp("kept")
    trained(run, keep_checkpoints=9)
    return run


def test_gone_back_and_failed_at_once_it_goes_on_from_there(tmp_path, kept):
    def failing(model, batch):
        raise ZeroDivisionError

    shutil.copytree(kept, tmp_path / "run")
    with pytest.raises(ZeroDivisionError):
        trained(tmp_path / "run", resume="step-00000005", loss=failing)
    assert checkpoints.list_steps(tmp_path / "run" / "checkpoints")[-1] == 5
    trained(tmp_path / "run", resume=True)
    assert toy.said(tmp_path / "run") == toy.said(kept)


@pytest.mark.parametrize("survived", range(0, 80, 2))
def test_killed_at_any_moment_of_going_back_no_line_is_lost(tmp_path, monkeypatch, kept, survived):
    run = shutil.copytree(kept, tmp_path / "run")
    toy.broken(monkeypatch, survived, toy.Killed())
    with pytest.raises(toy.Killed):
        trained(run, keep_checkpoints=9, resume="step-00000005")
    monkeypatch.undo()
    newest = checkpoints.list_steps(run / "checkpoints")[-1]
    for event in EVENTS:
        theirs = [line for line in toy.said(kept, event) if line["step"] <= newest]
        assert [line for line in toy.said(run, event) if line["step"] <= newest] == theirs
    trained(run, keep_checkpoints=9, resume=True)
    for event in EVENTS:
        assert toy.said(run, event) == toy.said(kept, event)


def test_a_damaged_checkpoint_is_named_and_an_earlier_one_can_be_taken(tmp_path):
    trained(tmp_path, keep_checkpoints=9)
    whole = toy.said(tmp_path)
    damaged = tmp_path / "checkpoints" / "step-00000012" / "optimizer.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(
        DamagedError, match=r"12/optimizer\.safetensors is .* step 10 is whole"
    ) as error:
        trained(tmp_path, resume=True)
    assert "resume='step-00000010'" in str(error.value)
    trained(tmp_path, resume="step-00000010")
    assert toy.said(tmp_path) == whole


def test_a_folder_with_a_training_is_not_overwritten(tmp_path):
    trained(tmp_path)
    offer = r"12 steps; resume it \(resume=True, or --resume on .* line\), or take another folder"
    with pytest.raises(ValueError, match=offer):
        trained(tmp_path)


def test_a_run_that_is_further_than_its_steps_is_refused_and_left_alone(tmp_path):
    trained(tmp_path, steps=4)
    said = (tmp_path / "journal.jsonl").read_bytes()
    expected = "fit: the run is at step 4 already, expected training.steps of at least that, got 2"
    with pytest.raises(ValueError, match=expected):
        trained(tmp_path, steps=2, resume=True)
    assert (tmp_path / "journal.jsonl").read_bytes() == said
    assert trained(tmp_path, steps=4, resume=True).stopped == "finished"


def test_a_checkpoint_that_is_not_there_is_answered_with_those_that_are(tmp_path):
    trained(tmp_path)
    with pytest.raises(ValueError, match="got step-00000007; it has step-00000008, step-"):
        trained(tmp_path, resume="step-00000007")


def test_to_resume_before_anything_was_saved_is_to_start(tmp_path):
    (tmp_path / "checkpoints" / ".writing-step-00000000").mkdir(parents=True)
    (tmp_path / "journal.jsonl").write_text('{"event": "start", "step": 0}\n{"ev')
    assert trained(tmp_path, resume=True).step == 12
    assert len(toy.said(tmp_path, "start")) == 1
    assert not list((tmp_path / "checkpoints").glob(".*"))


def test_to_resume_what_is_finished_changes_nothing(tmp_path):
    first = trained(tmp_path)
    said = (tmp_path / "journal.jsonl").read_bytes()
    again = trained(tmp_path, resume=True)
    assert (again.stopped, again.metrics) == ("finished", first.metrics)
    assert toy.weights(again.model) == toy.weights(first.model)
    assert (tmp_path / "journal.jsonl").read_bytes() == said


def test_a_finished_training_can_be_given_more_steps(tmp_path):
    trained(tmp_path / "short", steps=8)
    trained(tmp_path / "short", steps=12, resume=True)
    trained(tmp_path / "long")
    ours, theirs = ([x["loss"] for x in toy.said(tmp_path / r)][-1:] for r in ("short", "long"))
    assert ours == theirs


def test_the_best_weights_come_back_and_their_metrics(tmp_path):
    kept = []

    def validate(model):
        kept.append(toy.weights(model))
        return {"loss": [2.0, 1.0, 3.0][len(kept) - 1]}

    found = trained(tmp_path, validate=validate)
    assert (found.metrics, found.step) == ({"loss": 1.0}, 12)
    assert toy.weights(found.model) == kept[1]


def test_patience_stops_early(tmp_path):
    validate = toy.validator(2.0, 3.0, 3.0, 1.0)
    found = trained(tmp_path, steps=40, patience=2, validate=validate, keep_checkpoints=1)
    assert (found.stopped, found.step, found.metrics) == ("early", 12, {"loss": 2.0})
    assert checkpoints.list_steps(tmp_path / "checkpoints") == [4, 12]


def test_far_worse_in_validation_it_goes_on_from_its_best_weights_and_later_data(tmp_path):
    seen, validated = [], []

    def loss(model, batch):
        seen.append((toy.weights(model), batch.tokens))
        return toy.loss(model, batch)

    def validate(model):
        validated.append(toy.weights(model))
        return {"loss": [2.0, 9.0, 1.0][len(validated) - 1]}

    trained(tmp_path, loss=loss, validate=validate, rollback_ratio=4.0)
    [(weights, tokens)] = seen[8:9]
    assert (weights, tokens) == (validated[0], 2 + 8 % 5)
    assert toy.said(tmp_path, "rollback") == [{"event": "rollback", "step": 8, "best": 4}]


def test_set_back_a_training_remembers_what_it_had_learnt_of_gradients(tmp_path):
    # set back to where it was at step 4, it goes on as one that never was anywhere else
    trained(tmp_path, steps=8, validate=toy.validator(1.0, 9.0), rollback_ratio=4.0, ema_decay=0.5)
    kept = checkpoints.load(tmp_path / "checkpoints", 4).trees
    back = checkpoints.load(tmp_path / "checkpoints", 8).trees
    for part in ("model", "average", "optimizer"):
        assert _plain(back[part]) == _plain(kept[part])


def _plain(tree):
    inside = tree.items() if isinstance(tree, dict) else ()
    return {k: _plain(v) for k, v in inside} or tree.tolist()


@pytest.mark.parametrize("step", [4, 7, 8, 9])
def test_interrupted_around_a_rollback_it_goes_on_to_the_same_losses(tmp_path, step):
    # 1.0 at step 4 is the best; step 8 is far worse
    said = {4: (1.0,), 7: (1.0, 2.0), 8: (1.0, 9.0), 9: (1.0, 9.0, 2.0)}[step]
    trained(tmp_path / "parts", steps=step, validate=toy.validator(*said), rollback_ratio=4.0)
    later = toy.validator(9.0, 3.0) if step < 8 else toy.validator(3.0)
    trained(tmp_path / "parts", validate=later, rollback_ratio=4.0, resume=True)
    trained(tmp_path / "whole", validate=toy.validator(1.0, 9.0, 3.0), rollback_ratio=4.0)
    ours, theirs = (toy.said(tmp_path / run)[-1]["loss"] for run in ("parts", "whole"))
    assert ours == theirs


def test_the_averaged_weights_are_validated_and_come_back(tmp_path):
    kept = []

    def validate(model):
        kept.append(toy.weights(model))
        return {"loss": 1.0}

    found = trained(tmp_path, steps=4, ema_decay=0.9, validate=validate)
    assert toy.weights(found.model) == kept[-1]
    plain = trained(tmp_path / "plain", steps=4)
    assert toy.weights(plain.model) != kept[-1]


def test_the_best_from_before_there_was_an_average_still_comes_back(tmp_path):
    kept = trained(tmp_path, steps=4, validate=toy.validator(1.0)).model
    best = toy.weights(kept)
    found = trained(tmp_path, ema_decay=0.9, validate=toy.validator(2.0, 3.0), resume=True)
    assert (found.metrics, toy.weights(found.model)) == ({"loss": 1.0}, best)


def test_validation_sees_evaluation_without_gradients_and_training_goes_on(tmp_path):
    seen = []

    def validate(model):
        seen.append((model.training, model[1].training, torch.is_grad_enabled()))
        return {"loss": 1.0}

    def loss(model, batch):
        seen.append((model.training, model[1].training, torch.is_grad_enabled()))
        return toy.loss(model, batch)

    trained(tmp_path, steps=5, validate=validate, loss=loss)
    assert seen[3:6] == [(True, True, True), (False, False, False), (True, True, True)]


def test_what_validation_draws_does_not_change_the_training(tmp_path):
    def validate(model):
        torch.rand(3), random.random(), np.random.rand()
        return {"loss": 1.0}

    trained(tmp_path / "a", validate=validate)
    trained(tmp_path / "b", validate=None)
    assert toy.said(tmp_path / "a") == toy.said(tmp_path / "b")


@pytest.mark.parametrize("compiled", [False, True])
def test_what_is_ready_is_compiled_while_a_training_that_asks_for_it_runs(
    tmp_path, compiled, monkeypatch
):
    monkeypatch.setattr(shutil, "which", str)
    seen = []

    def loss(model, batch):
        seen.append(compile.maybe_compile(torch.sin) is not torch.sin)
        return toy.loss(model, batch)

    trained(tmp_path, loss=loss, steps=1, torch_compile=compiled)
    assert seen == [compiled]
    assert compile.maybe_compile(torch.sin) is torch.sin


@pytest.mark.parametrize(
    "asked", [{"patience": 2}, {"rollback_ratio": 4.0}], ids=["patience", "rollback"]
)
def test_what_validation_decides_is_refused_without_it(tmp_path, asked):
    with pytest.raises(ValueError, match=r"fit: \w+ needs validation, but validate is None"):
        trained(tmp_path, **asked, validate=None)


def test_without_validation_the_last_weights_come_back(tmp_path):
    found = trained(tmp_path, validate=None)
    saved = checkpoints.load(tmp_path / "checkpoints").trees["model"]
    assert found.metrics == {}
    assert torch.equal(found.model[0].weight, saved["0.weight"])


def test_what_is_global_is_left_as_found(tmp_path):
    def found():
        flags = torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
        # not that of Python: beartype draws from it to check lists, inside tests
        drawn = torch.get_rng_state().tolist(), np.random.get_state()[1].tolist()
        return *flags, *drawn, signal.getsignal(signal.SIGINT), model.training, model[1].training

    model = toy.model().eval()
    model[1].train()

    def loss(model, batch):
        torch.set_num_threads(1)
        return toy.loss(model, batch)

    before = found()
    trained(tmp_path, model=model, loss=loss)
    assert found() == before


def test_a_loss_that_is_not_finite_ends_it_and_nothing_bad_is_saved(tmp_path):
    calls = []

    def loss(model, batch):
        calls.append(batch)
        return toy.loss(model, batch) * (float("nan") if len(calls) > 6 else 1.0)

    with pytest.raises(DivergedError, match="the loss of step 7 is nan; step-00000005 is whole"):
        trained(tmp_path, loss=loss, validate=None)
    assert checkpoints.latest_step(tmp_path / "checkpoints") == 5


@pytest.mark.parametrize(("clip", "words"), [(1.0, "the gradient of"), (0.0, "the weights after")])
def test_a_lost_gradient_ends_it_with_the_interval_whose_losses_are_finite(tmp_path, clip, words):
    calls = []

    def loss(model, batch):
        calls.append(batch)
        lost = (model[0].weight * 0).sum().sqrt()  # nought, with a gradient that is no number
        return toy.loss(model, batch) + (lost if len(calls) == 6 else 0)

    # step 6 is the last of its interval, and no checkpoint is due there
    with pytest.raises(DivergedError, match=f"{words} step 6 .*; step-00000005 is whole"):
        trained(tmp_path, loss=loss, validate=None, clip=clip)
    assert [line["step"] for line in toy.said(tmp_path)] == [3]


@pytest.mark.parametrize("survived", [18, 23, 40, 60])
def test_after_a_full_disk_it_goes_on_to_the_same_losses(tmp_path, whole, monkeypatch, survived):
    full = OSError(errno.ENOSPC, "No space left on device")
    toy.broken(monkeypatch, survived, full, ["fsync"])
    with pytest.raises(OSError, match=r"could not be written: No space left .* is whole"):
        trained(tmp_path, ema_decay=0.9)
    monkeypatch.undo()
    trained(tmp_path, ema_decay=0.9, resume=True)
    assert toy.said(tmp_path) == toy.said(whole)


def test_the_report_is_ended_also_after_an_error(tmp_path):
    def loss(model, batch):
        raise ZeroDivisionError

    stream = io.StringIO()
    with pytest.raises(ZeroDivisionError):
        trained(tmp_path, loss=loss, report=LineReport(stream))
    assert stream.getvalue() == "12 steps\nfailed at step 0\n"


def test_a_pipe_that_is_closed_does_not_end_the_training(tmp_path):
    class Pipe(io.StringIO):
        def write(self, text):
            if self.getvalue().count("\n") == 2:
                raise BrokenPipeError(errno.EPIPE, "Broken pipe")
            return super().write(text)

    stream = Pipe()
    found = trained(tmp_path, report=LineReport(stream))
    assert (found.stopped, stream.getvalue().count("\n")) == ("finished", 2)
    assert checkpoints.latest_step(tmp_path / "checkpoints") == 12


def test_nothing_is_printed(tmp_path, capfd):
    trained(tmp_path, precision="bf16-mixed")
    assert capfd.readouterr() == ("", "")


def test_two_processes_with_a_batch_each_are_one_with_two(tmp_path):
    code = (
        "import sys; from pathlib import Path; from tests.train import toy; import torch\n"
        "from regard.train import fit\n"
        "model = toy.model(torch.float64); model[1].p = 0.0\n"
        "training = toy.training(devices=int(sys.argv[2]), accumulate=int(sys.argv[3]))\n"
        "where = {'run': Path(sys.argv[1]), 'validate': toy.validate}\n"
        "fit(model, toy.loss, toy.Batches(), training, **where)\n"
    )
    (tmp_path / "two.py").write_text(code)
    for run, devices, batches in (("one", 1, 2), ("two", 2, 1)):
        command = [sys.executable, tmp_path / "two.py", tmp_path / run, str(devices), str(batches)]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(Path.cwd())})
    ours, theirs = ([x["loss"] for x in toy.said(tmp_path / r)] for r in ("two", "one"))
    assert ours == pytest.approx(theirs, rel=1e-12)
