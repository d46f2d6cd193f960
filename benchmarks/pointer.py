"""Speed of pointer networks, decoding and training, against the same models as eager loops.

`python -m benchmarks pointer`. Tours by the attention model of Kool et al. 2019 (three layers of
128, eight heads, fresh weights); the teacher-forced LSTM pointer of Vinyals et al. 2015 (256 units,
batch 128, sorting 50 points). The eager loops are `benchmarks/pointer_eager.py`.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks import pointer_eager
from benchmarks.measure import Race, Row, in_words, race
from regard.data.geometry.instances import Instances
from regard.models.attention_pointer import AttentionPointer, AttentionPointerConfig
from regard.models.pointer_network import PointerNetwork, PointerNetworkConfig
from regard.recipes.pointer.loss import reinforce_loss
from regard.train.cuda_graphs import GraphedCallable

ROWS, POINTS = 128, 50


def rows() -> list[Row]:
    """The claims that this machine can be asked about."""
    torch.manual_seed(0)
    if torch.cuda.is_available():
        return [
            _greedy(torch.bfloat16),
            _greedy(torch.float32),
            _learning("cuda", recorded=True),
            _learning("cuda", recorded=False),
            _reinforced(),
        ]
    return [_answered(), _decoded(), _learning("cpu", recorded=False)]


def _greedy(dtype: torch.dtype) -> Row:
    """Ten thousand tours of a hundred cities, encoded beforehand."""
    model, points, lengths = _tours("cuda", 10_000, 100)
    with torch.no_grad():
        read = model.encode(points, lengths)
        read = type(read)(*(x.to(dtype) if x.is_floating_point() else x for x in read))
        model.to(dtype)
        raced = race(
            lambda: model.decode_tours(read),
            lambda: pointer_eager.toured(model, read),
            rounds=3,
            warm=1,
        )
    name = str(dtype).removeprefix("torch.")
    claim = f"greedy decoding of 10,000 tours of 100 cities, {name}"
    return _row(claim, "≥ 5 × eager", "", raced, 5, 10_000)


def _answered() -> Row:
    """From points to tours, on the processor."""
    model, points, lengths = _tours("cpu", 256, 50)
    with torch.no_grad():
        raced = race(
            lambda: model.decode_tours(model.encode(points, lengths)),
            lambda: pointer_eager.toured(model, pointer_eager.read(model, points)),
            rounds=9,
        )
    claim = f"greedy tours of 50 cities, 256 at a time, encoding included; {_cores()}"
    return _row(claim, "≥ 1.5 × eager", "≥ 3 ×", raced, 1.5, 256)


def _decoded() -> Row:
    """The same, encoded beforehand."""
    model, points, lengths = _tours("cpu", 256, 50)
    with torch.no_grad():
        read = model.encode(points, lengths)
        raced = race(
            lambda: model.decode_tours(read), lambda: pointer_eager.toured(model, read), rounds=9
        )
    return _row(f"the same, encoded beforehand; {_cores()}", "", "", raced, 0, 256)


def _learning(device: str, *, recorded: bool) -> Row:
    """Forward and backward of the LSTM pointer, all steps known."""
    config = PointerNetworkConfig(pointing_rule="permutation")
    ours, theirs = (PointerNetwork(config).to(device) for _ in range(2))
    points, lengths = torch.rand(ROWS, POINTS, 2), torch.full((ROWS,), POINTS)
    batch = Instances(points, lengths, torch.rand(ROWS, POINTS).argsort(1)).to(device)

    def eager(points: Tensor, lengths: Tensor, answers: Tensor) -> Tensor:
        return pointer_eager.log_probability(theirs, points, lengths, answers)

    learn: Callable[[Any], Any] = _learnt(ours, ours)
    if recorded:
        learn = GraphedCallable(lambda given, learn=learn: (learn(given),))
        for _ in range(3):
            learn(batch)
    loop = _learnt(theirs, eager)
    raced = race(lambda: learn(batch), lambda: loop(batch), rounds=9)
    how = ", as a CUDA graph" if recorded else ""
    claim = f"teacher-forced training of the LSTM pointer{how}; batch {ROWS}, {POINTS} points"
    must = "≥ 5 × eager" if device == "cuda" and recorded else ""
    return _row(claim, must, "", raced, 5 if must else 0, 1)


def _reinforced() -> Row:
    """Draw tours from every city and learn from them, as the recipe does, without a CUDA graph."""
    model, points, lengths = _tours("cuda", 64, 100)
    batch = Instances(points, lengths, lengths[:, None][:, :0])

    def learn() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = reinforce_loss(model, batch)
        loss.backward()

    def eager() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = _stepwise(model, batch)
        loss.backward()

    raced = race(learn, eager, rounds=5)
    claim = "REINFORCE from 100 starts of 100 cities, 64 instances, forward and backward"
    return _row(claim, "", "", raced, 0, 64)


def _stepwise(model: AttentionPointer, batch: Instances) -> Tensor:
    """The same as a loop: each step is drawn and followed by autograd, as POMO's code does."""
    from regard.recipes.pointer.loss import tour_lengths

    B, N = batch.points.shape[:2]
    read = model.encode(batch.points, batch.lengths)
    at = torch.arange(N, device=batch.points.device).expand(B, N)
    first, tours, said = at, [at], []
    left = torch.ones(B, N, N, dtype=torch.bool, device=at.device).scatter(2, at[..., None], False)
    for _ in range(N - 1):
        shares = model.decoder(read, model.decoder.queries(read, first, at), left).float()
        shares = shares.softmax(-1)
        at = shares.flatten(0, 1).multinomial(1).view(B, N)
        said.append(shares.gather(2, at[..., None])[..., 0].log())
        left = left.scatter(2, at[..., None], False)
        tours.append(at)
    cost = tour_lengths(batch.points, torch.stack(tours, 2))
    return ((cost - cost.mean(1, keepdim=True)) * torch.stack(said).sum(0)).mean()


def _tours(device: str, rows: int, cities: int) -> tuple[AttentionPointer, Tensor, Tensor]:
    model = AttentionPointer(AttentionPointerConfig(norm="batch")).eval().to(device)
    points = torch.rand(rows, cities, 2, device=device)
    return model, points, torch.full((rows,), cities, device=device)


def _learnt(model: PointerNetwork, said: Callable[..., Tensor]) -> Callable[[Any], Any]:
    """What learns from a batch, apart from the change of the weights."""

    def learn(batch: Any) -> Any:
        model.zero_grad()
        loss = -said(batch.points, batch.lengths, batch.answers).mean()
        loss.backward()
        return loss.detach()

    return learn


def _cores() -> str:
    return f"{torch.get_num_threads()} cores"


def _row(claim: str, must: str, aim: str, raced: Race, least: float, each: int) -> Row:
    name = "instances" if each > 1 else "steps"
    speed = f"{each / raced.ours:,.0f} {name} a second against {each / raced.theirs:,.0f}"
    measured = f"{raced.times_faster:.1f} × ({in_words(raced.ours)}; {speed})"
    return Row(claim, must, aim, measured, raced.times_faster >= least)
