import shutil

import pytest
import torch
from torch.testing import assert_close

from regard.kernels.ntm import api as ntm_kernel
from regard.kernels.ntm import reference as ntm_reference
from regard.runtime import compile
from tests.kernels.machines import each_controller, learnt, machine


def test_nothing_is_compiled_that_nobody_asked_for():
    assert compile.maybe_compile(ntm_reference.forward_step) is ntm_reference.forward_step


def test_asked_for_it_is_compiled_once_and_afterwards_no_more(monkeypatch):
    # nothing is called, so none has to be there
    monkeypatch.setattr(shutil, "which", str)
    with compile.enable_compilation():
        found = compile.maybe_compile(torch.sin)
        assert found is compile.maybe_compile(torch.sin) is not torch.sin
    assert compile.maybe_compile(torch.sin) is torch.sin


def test_without_a_compiler_it_is_refused(monkeypatch):
    monkeypatch.setenv("PATH", "")
    told = r"expected a C\+\+ compiler, one of g\+\+, .*; install one, or go without training"
    with pytest.raises(ValueError, match=told):
        compile.enable_compilation().__enter__()


@pytest.mark.compiled
@each_controller
def test_compiled_steps_are_the_steps(lstm):
    made = machine(lstm, steps=5, dtype=torch.float64)
    with compile.enable_compilation():
        ours = learnt(made, ntm_kernel.run_all_steps)
    assert_close(ours, learnt(made, ntm_kernel.run_all_steps), rtol=1e-9, atol=1e-11)
