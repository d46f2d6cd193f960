"""What is recorded and replayed gives what it gave when it was done as told."""

from typing import NamedTuple

import pytest
import torch

from regard.train.cuda_graphs import GraphedCallable, iter_tensors
from tests.train import toy


class Two(NamedTuple):
    a: torch.Tensor
    b: object


def test_the_tensors_of_a_batch_come_in_order_wherever_they_stand():
    one, two, three, four = (torch.full((), i) for i in range(4))
    tree = [toy.Batch(one, 5), {"x": (two, "word")}, Two(three, [None, four])]
    assert [int(x) for x in iter_tensors(tree)] == [0, 1, 2, 3]


@pytest.mark.gpu
def test_every_call_gives_what_the_work_gives_and_changes_what_it_changes():
    total, work = torch.zeros((), device="cuda"), []

    def add(x):
        work.append(len(x))
        return total.add_(x.sum()), None

    replayed = GraphedCallable(add)
    given = [torch.full((2 + i % 2,), float(i), device="cuda") for i in range(8)]
    said = [float(replayed(x)[0]) for x in given]
    assert said == [0, 3, 7, 16, 24, 39, 51, 72]
    assert work == [2, 3, 2, 3], "each form was told once and recorded once"
