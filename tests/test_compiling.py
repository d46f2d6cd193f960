import shutil

import pytest
import torch
from torch.testing import assert_close

from regard import compiling
from regard.kernels import tape, tape_plain
from tests.kernels.machines import each_controller, learnt, machine


def test_nothing_is_compiled_that_nobody_asked_for():
    assert compiling.ready(tape_plain.forward) is tape_plain.forward


def test_asked_for_it_is_compiled_once_and_afterwards_no_more(monkeypatch):
    # nothing is called, so none has to be there
    monkeypatch.setattr(shutil, "which", str)
    with compiling.asked():
        found = compiling.ready(torch.sin)
        assert found is compiling.ready(torch.sin) is not torch.sin
    assert compiling.ready(torch.sin) is torch.sin


def test_without_a_compiler_it_is_refused(monkeypatch):
    monkeypatch.setenv("PATH", "")
    told = r"expected a C\+\+ compiler, one of g\+\+, .*; install one, or go without training"
    with pytest.raises(ValueError, match=told):
        compiling.asked().__enter__()


@pytest.mark.compiled
@each_controller
def test_compiled_steps_are_the_steps(lstm):
    made = machine(lstm, steps=5, dtype=torch.float64)
    with compiling.asked():
        ours = learnt(made, tape.through)
    assert_close(ours, learnt(made, tape.through), rtol=1e-9, atol=1e-11)
