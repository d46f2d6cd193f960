import torch

from regard.train.running_loss import RunningLoss, StepStats


def added(running, step, *losses, shares=(1.0,), tokens=1, norm=None):
    tensors = [torch.tensor(x) for x in losses]
    norm = None if norm is None else torch.tensor(norm)
    running.add(step, tensors, list(shares), tokens=tokens, norm=norm)


def test_the_loss_of_a_step_is_the_sum_of_its_shares():
    running = RunningLoss()
    added(running, 1, 2.0, 6.0, shares=(0.75, 0.25), tokens=4)
    assert running.synchronize() == [StepStats(1, 3.0, 4, None)]


def test_the_mean_of_an_interval_is_by_tokens():
    running = RunningLoss()
    added(running, 1, 1.0, tokens=3, norm=2.0)
    added(running, 2, 5.0, tokens=1, norm=4.0)
    running.synchronize()
    assert running.pop_interval() == (2.0, 3.0, 4, 0)
    assert running.step_stats == []


def test_norms_that_are_not_finite_are_counted_and_no_part_of_the_mean():
    running = RunningLoss()
    for step, norm in enumerate([2.0, float("nan"), 4.0, float("inf")]):
        added(running, step, 1.0, norm=norm)
    running.synchronize()
    assert running.pop_interval() == (1.0, 3.0, 4, 2)


def test_what_is_settled_once_is_not_settled_again():
    running = RunningLoss()
    added(running, 1, 1.0)
    assert len(running.synchronize()) == 1
    assert running.synchronize() == []


def test_an_interval_goes_on_from_what_was_saved():
    running = RunningLoss([StepStats(1, 1.0, 3, None)])
    added(running, 2, 5.0, tokens=1)
    running.synchronize()
    assert running.pop_interval()[0] == 2.0


def test_processes_are_summed():
    running = RunningLoss()
    added(running, 1, 2.0, shares=(0.5,))
    assert running.synchronize(lambda sums: sums * 2)[0].loss == 2.0
