"""The set-up of the tests does what it says."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import hypothesis
import pytest
import torch
from hypothesis import strategies as st

from tests.conftest import skip_reasons

ROOT = Path(__file__).parent.parent
SKIPPED = """
import pytest

@pytest.mark.parametrize("n", range(3))
def test_a(n):
    pytest.skip("there is no moon")

@pytest.mark.skip(reason="there is no sun")
def test_b():
    pass

@pytest.mark.slow
def test_c():
    pass
"""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_fresh_memory_is_poisoned(dtype):
    like = torch.ones(3, dtype=dtype)
    for fresh in (torch.empty(3, dtype=dtype), torch.empty_like(like), like.new_empty(3)):
        assert fresh.isnan().all()


@pytest.mark.parametrize("time", ["once", "again"])
def test_every_test_starts_from_the_same_seed(time):
    drawn = torch.rand(1)
    assert torch.equal(drawn, torch.rand(1, generator=torch.Generator().manual_seed(0)))


def test_every_example_starts_from_the_same_seed():
    drawn = set()

    @hypothesis.given(st.integers())
    def example(_):
        drawn.add(torch.rand(1).item())

    example()
    assert len(drawn) == 1


def test_skips_are_counted_by_their_reason_the_commonest_first():
    reports = [("a.py", 3, "Skipped: no card"), ("b.py", 9, "Skipped: no card"), "no moon"]
    reports = [SimpleNamespace(longrepr=longrepr) for longrepr in reports]
    assert skip_reasons(reports) == [("no card", 2), ("no moon", 1)]


@pytest.mark.parametrize("workers", [0, 2])
def test_the_end_of_a_run_says_what_did_not_run_and_why(workers, tmp_path):
    (tmp_path / "test_skipped.py").write_text(SKIPPED)
    command = [sys.executable, "-m", "pytest", "-o", "addopts=", "-q", "-m", "not slow"]
    command += ["-p", "tests.conftest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    if workers:
        pytest.importorskip("xdist")
        command += ["-n", str(workers)]
    done = subprocess.run(
        [*command, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    lines = [line.strip() for line in done.stdout.splitlines()]
    first = next(i for i, line in enumerate(lines) if " not run " in line)
    assert lines[first + 1 : first + 4] == [
        "3 skipped: there is no moon",
        "1 skipped: there is no sun",
        "1 left out by their marker: slow",
    ]
