"""What holds in every test: fixed seeds, few threads, and fresh memory that is full of NaN."""

import importlib.util
import os
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch

os.environ.setdefault("MPLBACKEND", "Agg")
# Some virtual machines advertise AMX and then trap it: a bfloat16 product would end the process.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
# Without a card Triton's interpreter runs its kernels, if told before anything imports triton.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
# One of several workers shares the machine: it takes one thread, and so does what it starts.
ALONE = "PYTEST_XDIST_WORKER" not in os.environ
torch.set_num_threads(2 if ALONE else 1)
if not ALONE:
    os.environ["OMP_NUM_THREADS"] = "1"

# Triton reads the source of a kernel: the shape checks must not be wrapped around it.
KERNELS = (Path(__file__).parent.parent / "regard" / "kernels").rglob("triton/*.py")
KERNELS = {".".join(p.with_suffix("").parts[-5:]) for p in KERNELS}
for hook in [x for x in sys.meta_path if hasattr(x, "should_instrument")]:
    checks = hook.should_instrument
    hook.should_instrument = lambda name, checks=checks: name not in KERNELS and checks(name)

# A bare GPU machine may lack Hypothesis; the tests that need none still run there.
if importlib.util.find_spec("hypothesis"):
    import hypothesis

    class TorchRandom:
        """Lets Hypothesis seed torch before each example, so that a failure comes back."""

        seed = staticmethod(torch.manual_seed)
        getstate = staticmethod(torch.get_rng_state)
        setstate = staticmethod(torch.set_rng_state)

    # Hypothesis keeps a weak reference only.
    torch_random = TorchRandom()
    hypothesis.register_random(torch_random)
    hypothesis.settings.register_profile(
        "regard", deadline=None, max_examples=30, derandomize="CI" in os.environ
    )
    hypothesis.settings.load_profile("regard")


LEFT_OUT = pytest.StashKey()


def pytest_addoption(parser):
    """Where the pictures of the README go, for whoever takes them anew."""
    parser.addoption("--pictures", help="a folder for the pictures that tests/page takes")


def pytest_collection_modifyitems(items):
    """Skip what needs a card where there is none."""
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a CUDA GPU"))


def skip_reasons(reports):
    """How many tests each reason has skipped, the commonest first."""
    told = (str(r.longrepr[2] if isinstance(r.longrepr, tuple) else r.longrepr) for r in reports)
    return Counter(words.removeprefix("Skipped: ") for words in told).most_common()


def pytest_deselected(items):
    """Count what each marker leaves out."""
    marks = ("compiled", "gpu", "slow")
    count = items[0].config.stash.setdefault(LEFT_OUT, Counter()) if items else Counter()
    count.update(mark for item in items for mark in marks if item.get_closest_marker(mark))


def pytest_sessionfinish(session):
    """One of several workers tells the first process what it left out, which all do alike."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left out"] = dict(session.config.stash.get(LEFT_OUT, {}))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """What a worker said as it ended."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left out", {})


def pytest_terminal_summary(terminalreporter, config):
    """At the end, say what did not run, and why."""
    stats, write = terminalreporter.stats, terminalreporter.write_line
    reasons = skip_reasons(stats.get("skipped", []))
    left_out = config.stash.get(LEFT_OUT, {})
    if reasons or left_out:
        terminalreporter.section("not run")
    for reason, count in reasons:
        write(f"{count:>5} skipped: {reason}")
    for mark, count in sorted(left_out.items()):
        write(f"{count:>5} left out by their marker: {mark}")


@pytest.fixture(autouse=True)
def seed():
    """Every test draws the same numbers, whatever ran before it."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def poison(request):
    """Memory from `torch.empty` and its kin holds NaN, so a place left unwritten shows.

    This is torch's own switch, and comes with its deterministic mode. Tests that compile run
    without it, as users do.
    """
    if request.node.get_closest_marker("compiled"):
        yield
        return
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)
