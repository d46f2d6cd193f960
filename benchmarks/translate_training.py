"""The time of a training step on a GPU: ours, as a CUDA graph, against a textbook loop.

Both sides learn from the same batch in bfloat16 where autocast says so, with one fused Adam.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.measure import Race, Row, race
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.train.cuda_graphs import GraphedCallable

B, S, V = 128, 24, 10_000
TRANSFORMER = {"width": 256, "heads": 8, "layers": 4, "feed_forward_width": 1024}
RNN = {"embedding": 256, "width": 512, "alignment": 512, "readout": 256}

Batch = tuple[Tensor, Tensor]


class Textbook(nn.Module):
    """Bahdanau et al. 2015 as a tutorial has it: attention and one GRU cell, word by word."""

    def __init__(self, embedding: int, width: int, alignment: int, readout: int):
        super().__init__()
        self.words = nn.Embedding(V, embedding)
        self.encoder = nn.GRU(embedding, width, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * width, width)
        self.query = nn.Linear(width, alignment, bias=False)
        self.key = nn.Linear(2 * width, alignment)
        self.energy = nn.Linear(alignment, 1, bias=False)
        self.cell = nn.GRUCell(embedding + 2 * width, width)
        self.readout = nn.Linear(width + embedding + 2 * width, 2 * readout)
        self.out = nn.Linear(readout, V)
        self.out.weight = self.words.weight

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits (B, T, V) for the word after each of `target` (B, T)."""
        memory, last = self.encoder(self.words(source))
        keys, state = self.key(memory), torch.tanh(self.bridge(last.transpose(0, 1).flatten(1)))
        known = []
        for word in self.words(target).unbind(1):
            energy = self.energy(torch.tanh(self.query(state)[:, None] + keys))  # (B, S, 1)
            context = (energy.softmax(1) * memory).sum(1)
            state = self.cell(torch.cat([word, context], -1), state)
            known.append(torch.cat([state, word, context], -1))
        both = self.readout(torch.stack(known, 1))
        return self.out(both.unflatten(-1, (-1, 2)).amax(-1))


class Theirs(nn.Module):
    """PyTorch's own Transformer, with tied embeddings around it."""

    def __init__(self, width: int, heads: int, layers: int, feed_forward_width: int):
        super().__init__()
        self.words = nn.Embedding(V, width)
        self.places = nn.Parameter(torch.randn(S, width) * width**-0.5)
        self.inside = nn.Transformer(
            width, heads, layers, layers, feed_forward_width, dropout=0.1, batch_first=True
        )
        self.out = nn.Linear(width, V, bias=False)
        self.out.weight = self.words.weight

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits (B, T, V) for the word after each of `target` (B, T)."""
        read, written = (self.words(x) + self.places for x in (source, target))
        ahead = nn.Transformer.generate_square_subsequent_mask(S, device=source.device)
        return self.out(self.inside(read, written, tgt_mask=ahead, tgt_is_causal=True))


def rows() -> list[Row]:
    """The claims about training, for a GPU."""
    recurrent = race(
        _ours(Seq2Seq(Seq2SeqConfig(vocabulary=V, tied=True, **RNN))),
        _told(Textbook(**RNN)),
        rounds=10,
        inner=5,
    )
    parallel = race(
        _ours(Transformer(TransformerConfig(vocabulary=V, **TRANSFORMER))),
        _told(Theirs(**TRANSFORMER)),
        rounds=10,
        inner=5,
    )
    how = f"{B} pairs of {S} tokens, bfloat16, one GPU"
    return [
        Row(
            f"training an RNN with attention, {how}, over a textbook loop",
            "≥ 5 ×",
            "≥ 15 ×",
            _found(recurrent),
            recurrent.times_faster >= 5,
        ),
        Row(
            f"training a Transformer, {how}, over `torch.nn.Transformer`",
            "≥ 1.5 ×",
            "3 ×",
            _found(parallel),
            parallel.times_faster >= 1.5,
        ),
    ]


def _ours(model: Seq2Seq | Transformer) -> Callable[[], Any]:
    """Training steps captured once as a CUDA graph and replayed, as in `regard.train`."""
    model = model.cuda().train()
    lengths = torch.full((B,), S, device="cuda")

    def logits(batch: Batch) -> Tensor:
        return model((batch[0], lengths), batch[1])

    return partial(GraphedCallable(_work(model, logits)), _batch())


def _told(model: nn.Module) -> Callable[[], Any]:
    """Training steps with one launch for each operation."""
    model = model.cuda().train()
    return partial(_work(model, lambda batch: model(*batch)), _batch())


def _work(
    model: nn.Module, logits: Callable[[Batch], Tensor]
) -> Callable[[Batch], tuple[Tensor | None, ...]]:
    """One step: forward, backward, and Adam's; gives the loss."""
    rate = torch.tensor(1e-4, device="cuda")
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, fused=True, capturable=True)

    def work(batch: Batch) -> tuple[Tensor | None, ...]:
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            found = logits(batch)
        loss = F.cross_entropy(found.float().flatten(0, 1), batch[1].flatten())
        loss.backward()
        optimizer.step()
        return (loss.detach(),)

    return work


def _batch() -> Batch:
    source, target = torch.randint(4, V, (2, B, S), device="cuda")
    return source, target


def _found(found: Race) -> str:
    rates = " against ".join(f"{B * S / seconds:,.0f}" for seconds in (found.ours, found.theirs))
    return f"{found.times_faster:.1f} × ({rates} tokens/s; {found})"
