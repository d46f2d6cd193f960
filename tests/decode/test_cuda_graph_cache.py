"""What is replayed is what would be done step by step, whatever came before it."""

import pytest
import torch
from torch.testing import assert_close

from regard.decode import (
    CudaGraphCache,
    beam,
    cuda_graph_cache,
    greedy,
    states,
)
from regard.kernels.decode_step import api as decode_step
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.transformer import Transformer, TransformerConfig

V, BEGIN, END = 29, 2, 3
MARKS = {"begin": BEGIN, "end": END}
SMALL = TransformerConfig(vocabulary=V, width=16, heads=2, layers=2, feed_forward_width=24)
WAYS = [greedy, lambda *given, **named: beam(*given, **named, width=3, best=2)]
every_way = pytest.mark.parametrize("way", WAYS, ids=["greedy", "beam"])


class Played:
    """A recording for machines without a GPU: the work is done anew, into the same memory."""

    def __init__(self, work):
        self.work, self.made = work, work()

    def replay(self):
        # of what was made first, a tree of tensors; what comes with it is no tensor
        if self.made is None:
            self.work()
        else:
            states.copy_into(self.made[0], self.work()[0])

    def pool(self):
        return "pool"


@pytest.fixture
def captures(monkeypatch):
    """How many recordings were made, on a CPU that says it is a GPU."""
    made = []

    def capture(work, pool):
        made.append(Played(work))
        return made[-1], made[-1].made

    monkeypatch.setattr(cuda_graph_cache, "can_capture", lambda source: True)
    monkeypatch.setattr(cuda_graph_cache, "capture_graph", capture)
    return made


def model(seed: int = 0, **fields) -> Transformer:
    torch.manual_seed(seed)
    config = TransformerConfig(**{**vars(SMALL), **fields})
    return Transformer(config).eval().requires_grad_(False)


def sources(B: int = 5, length: int = 7, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    drawn = torch.Generator().manual_seed(seed)
    return (
        torch.randint(4, V, (B, length), generator=drawn),
        torch.randint(1, length + 1, (B,), generator=drawn),
    )


def assert_same(found, expected):
    for name in ("tokens", "lengths", "finished", "parents", "rows"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
    assert_close(found.scores, expected.scores, rtol=1e-4, atol=1e-4)
    assert_close(found.log_probabilities, expected.log_probabilities, rtol=1e-4, atol=1e-4)


@every_way
def test_what_is_replayed_is_what_is_done_step_by_step(way, captures):
    plain = model()
    kept, limits = CudaGraphCache(plain), torch.tensor([20, 3, 1, 9, 17])
    for seed in range(3):
        source = sources(seed=seed)
        expected = way(Stepwise(plain), source, **MARKS, longest=limits)
        assert_same(way(kept, source, **MARKS, longest=limits), expected)
        assert_same(way(plain, source, **MARKS, longest=limits), expected)
    # a state and a step, once for all that was kept and once for each that was not
    assert len(captures) == 2 + 3 * 2


@pytest.mark.skipif(
    torch.cuda.is_available() or not decode_step.has_triton(), reason="needs Triton's interpreter"
)
@every_way
def test_what_is_replayed_in_few_launches_is_what_is_done_step_by_step(way, captures, monkeypatch):
    # few of everything: an interpreter is slow
    plain, source, limits = model(layers=1, heads=1), sources(B=2), torch.tensor([4, 2])
    expected = way(Stepwise(plain), source, **MARKS, longest=limits)
    monkeypatch.setattr(decode_step, "DEVICES", ("cuda", "cpu"))
    assert_same(way(CudaGraphCache(plain), source, **MARKS, longest=limits), expected)


@pytest.mark.gpu
@every_way
def test_on_a_gpu_half_precision_is_replayed_too(way):
    plain, source = model(width=64, heads=4).cuda().bfloat16(), tuple(x.cuda() for x in sources())
    found = way(CudaGraphCache(plain), source, **MARKS, longest=20)
    assert found.tokens.shape[0] == 5 and found.scores.isfinite().all()


class Stepwise:
    """A model that is never recorded: its start takes no size."""

    def __init__(self, plain):
        self.plain, self.step = plain, plain.step

    def start(self, source):
        return self.plain.start(source)


def recurrent() -> Seq2Seq:
    torch.manual_seed(0)
    sizes = {"embedding": 16, "width": 16, "alignment": 16, "readout": 16}
    return Seq2Seq(Seq2SeqConfig(vocabulary=V, **sizes)).eval().requires_grad_(False)


@pytest.mark.gpu
@every_way
@pytest.mark.parametrize("make", [model, recurrent])
def test_on_a_gpu_what_is_replayed_is_what_is_done_step_by_step(make, way):
    plain, limits = make().cuda(), torch.tensor([20, 3, 1, 9, 17], device="cuda")
    kept = CudaGraphCache(plain)
    for seed in range(3):
        source = tuple(x.cuda() for x in sources(seed=seed))
        expected = way(Stepwise(plain), source, **MARKS, longest=limits)
        assert_same(way(kept, source, **MARKS, longest=limits), expected)
        assert_same(way(plain, source, **MARKS, longest=limits), expected)
