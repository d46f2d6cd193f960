"""What translating costs, beside other people's translators of the same size; random weights.

All decode 64 sources of 20 tokens for 30 steps, which no end comes to cut short. What it costs to
train is in `benchmarks.translate_training`.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import translate_peers as peers
from benchmarks.measure import Row, in_words
from benchmarks.translate_peers import Peer, Timed
from regard import decode
from regard.fast_decode import packed_linear
from regard.fast_decode.packed_linear import LinearFactory
from regard.fast_decode.prepare import prepare_for_cpu_decode
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.transformer import Transformer, TransformerConfig

B, S, STEPS, V = 64, 20, 30, 10_000
BEGIN, END = 2, 3
SIZES = {"vocabulary": V, "width": 256, "heads": 8, "layers": 4, "feed_forward_width": 1024}
# 9.9 million parameters; JoeyNMT's has 10.2, since its output is as wide as its states
RNN = {"vocabulary": V, "embedding": 256, "width": 512, "alignment": 512, "readout": 256}
JOEY = {"vocabulary": V, "embedding": 256, "width": 384}
ROUNDS = 15
HUGGING_FACE = "the fastest form of Hugging Face"


class Endless:
    """A model that never says the end; on a CPU, with its weights made ready."""

    def __init__(self, model: nn.Module, make: LinearFactory = packed_linear.packed):
        on_card = next(model.parameters()).is_cuda
        self._model = model if on_card else prepare_for_cpu_decode(model, make)
        self.start = self._model.start

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """The logits without the end, and the state after `tokens`."""
        logits, state = self._model.step(tokens, state)
        logits[:, END] = -1e9
        return logits, state


def rows() -> list[Row]:
    """The claims about translating, for the machine at hand."""
    if torch.cuda.is_available():
        return [_card(), *_beams()]
    return [*_transformer(), *_beams(), *_recurrent()]


def turns(runs: dict[str, Timed], *, rounds: int = ROUNDS) -> dict[str, float]:
    """The median seconds of each, run in turns; at every turn the first run does not count.

    Before it there is a rest: threads that wait for more work keep a core busy for a while.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            time.sleep(0.1)
            run()
            times[name].append(run())
    return {name: statistics.median(found) for name, found in times.items()}


def _transformer() -> list[Row]:
    model = Transformer(TransformerConfig(**SIZES)).eval()
    marian = None if peers.missing("transformers") else peers.marian(**SIZES)
    tokens = torch.randint(4, V - 2, (B, S))
    raced: dict[str, Peer] = {HUGGING_FACE: peers.missing("transformers") or "nothing"}
    for kind in ("float32", "int8"):
        raced[f"CTranslate2 {kind}"] = raced[HUGGING_FACE]
    ways = ""
    if marian is not None:
        raced[HUGGING_FACE], ways = fastest(peers.hugging_face(marian, tokens, STEPS))
        for kind in ("float32", "int8"):
            raced[f"CTranslate2 {kind}"] = peers.ctranslate2(marian, tokens, STEPS, kind)
    ours = peers.timed(_greedy(model, tokens))
    eight = peers.timed(_greedy(model, tokens, packed_linear.int8))
    claims = [
        (ours, "float32", HUGGING_FACE, "≥ 1.7 ×", "2.5 ×", 1.7),
        (eight, "int8", HUGGING_FACE, "", "2.5 ×", 0.0),
        (ours, "float32", "CTranslate2 float32", "", "≥ 1 ×", 0.0),
        (eight, "int8", "CTranslate2 int8", "", "≥ 1 ×", 0.0),
    ]
    return [
        _against(
            f"Transformer, greedy, {kind}, two CPU cores, over {name}",
            run,
            raced[name],
            *claim,
            more=ways if name == HUGGING_FACE else "",
        )
        for run, kind, name, *claim in claims
    ]


def _beams() -> list[Row]:
    on_gpu = torch.cuda.is_available()
    where, dtype = ("cuda", torch.bfloat16) if on_gpu else ("cpu", torch.float32)
    device = "one GPU" if on_gpu else "two CPU cores"
    model = Transformer(TransformerConfig(**SIZES)).eval().to(where, dtype)
    rows = []
    for batch, must in ((1, "≤ 4 ×"), (B, "≤ 4 ×")):
        tokens = torch.randint(4, V - 2, (batch, S), device=where)
        runs = {
            "beam": peers.timed(_beam(model, tokens)),
            "greedy": peers.timed(_greedy(model, tokens)),
        }
        found = turns(runs)
        times = found["beam"] / found["greedy"]
        each = " against ".join(_of(found[name], batch) for name in runs)
        rows.append(
            Row(
                f"beam 5 over greedy, a batch of {batch}, {device}",
                f"{must} the time",
                "2 ×",
                f"{times:.2f} × ({each})",
                times <= 4,
            )
        )
    return rows


def _recurrent() -> list[Row]:
    model = Seq2Seq(Seq2SeqConfig(**RNN, tied=True)).eval()
    tokens = torch.randint(4, V - 2, (B, S))
    ours = peers.timed(_greedy(model, tokens))
    eight = peers.timed(_greedy(model, tokens, packed_linear.int8))
    theirs = peers.joey(tokens, STEPS, **JOEY)
    claims = [(ours, "float32", "≥ 1.0 ×", "2 ×", 1.0), (eight, "int8", "", "2 ×", 0.0)]
    claim = "RNN with Bahdanau's attention, greedy, {}, two CPU cores, over JoeyNMT 2.3"
    return [_against(claim.format(kind), run, theirs, *told) for run, kind, *told in claims]


def _card() -> Row:
    bf16 = {"device": "cuda", "dtype": torch.bfloat16}
    model = Transformer(TransformerConfig(**SIZES)).eval().to(**bf16)
    tokens = torch.randint(4, V - 2, (B, S), device="cuda")
    claim = f"Transformer, greedy, bfloat16, one GPU, over {HUGGING_FACE}"
    theirs: Peer = peers.missing("transformers") or "nothing"
    ways = ""
    if not peers.missing("transformers"):
        marian = peers.marian(**SIZES).to(**bf16)
        theirs, ways = fastest(peers.hugging_face(marian, tokens, STEPS))
    ours = peers.timed(_greedy(model, tokens))
    return _against(claim, ours, theirs, "≥ 10 ×", "≥ 30 ×", 10.0, more=ways)


def fastest(raced: dict[str, Peer], *, rounds: int = 5) -> tuple[Timed, str]:
    """The quickest of those that run, and the time of a step of each."""
    running = {name: run for name, run in raced.items() if not isinstance(run, str)}
    found = turns(running, rounds=rounds)
    first = min(found, key=found.__getitem__)
    each = [
        f"{name} {peer if isinstance(peer, str) else in_words(found[name] / STEPS)}"
        for name, peer in raced.items()
    ]
    return running[first], f"; compared with: {first}; a step of each: {', '.join(each)}"


def _against(
    claim: str, ours: Timed, theirs: Peer, must: str, aim: str, least: float, more: str = ""
) -> Row:
    """A row for tokens a second over those of a peer, or one that says why there is none."""
    if isinstance(theirs, str):
        alone = turns({"ours": ours})["ours"]
        return Row(claim, "", aim, f"not compared: {theirs}; ours {_rate(alone)}", True)
    found = turns({"ours": ours, "theirs": theirs})
    times = found["theirs"] / found["ours"]
    measured = f"{times:.2f} × ({_rate(found['ours'])} against {_rate(found['theirs'])}){more}"
    return Row(claim, must, aim, measured, times >= least)


def _greedy(
    model: nn.Module, tokens: Tensor, make: LinearFactory = packed_linear.packed
) -> Callable[[], Any]:
    endless = decode.CudaGraphCache(Endless(model, make))
    source = (tokens, torch.full_like(tokens[:, 0], S))
    return lambda: decode.greedy(endless, source, begin=BEGIN, end=END, longest=STEPS)


def _beam(model: nn.Module, tokens: Tensor) -> Callable[[], Any]:
    endless = decode.CudaGraphCache(Endless(model))
    source = (tokens, torch.full_like(tokens[:, 0], S))
    return lambda: decode.beam(endless, source, begin=BEGIN, end=END, longest=STEPS, width=5)


def _rate(seconds: float) -> str:
    """Tokens a second of the whole batch, and the time of a step."""
    return f"{B * STEPS / seconds:,.0f} tokens/s, {in_words(seconds / STEPS)} a step"


def _of(seconds: float, batch: int) -> str:
    return f"{in_words(seconds / batch)} a sentence"
