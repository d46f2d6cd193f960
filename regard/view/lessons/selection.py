"""Soft, hard and local attention on the same scores, and what a gradient costs each."""

import torch
from torch import Tensor

from regard.dispatch import attend, weigh
from regard.functional import rules, selects
from regard.functional.scores import dot
from regard.view.lessons.fields import Integer, Real, Row
from regard.view.lessons.formats import script_code, tensor_code, to_numbers
from regard.view.lessons.lesson import Answer, Lesson

NUM_SAMPLES = 100


def compute(
    scores: list[float], values: list[float], centre: float, reach: float, focus: int, seed: int
) -> Answer:
    """Three kinds of weights and what they read; REINFORCE's gradient beside the exact one."""
    K = len(scores)
    if len(values) != K or focus >= K:
        raise ValueError(
            f"lesson choosing: expected {K} values for {K} scores and a focus below {K}, "
            f"got {len(values)} values and the focus {focus}"
        )
    q = torch.ones(1, 1, 1, 1)
    k, v = (torch.tensor(row)[None, None, :, None] for row in (scores, values))
    near = torch.tensor([[[centre]]])
    around, gauss = rules.around(near, reach), selects.gaussian(near, max(reach, 0.001) / 2)
    p, drawn = weigh(q, k, score=dot)[0, 0, 0], sample_keys(k, seed)
    return {
        "soft": to_numbers(p),
        "hard": to_numbers(weigh(q, k, score=dot, select=selects.hard)[0, 0, 0]),
        "local": to_numbers(weigh(q, k, score=dot, rule=around, select=gauss)[0, 0, 0]),
        "read": to_numbers(attend(q, k, v, score=dot)[0, 0, 0, 0]),
        "read_hard": to_numbers(attend(q, k, v, score=dot, select=selects.hard)[0, 0, 0, 0]),
        "read_local": to_numbers(attend(q, k, v, score=dot, rule=around, select=gauss)[0, 0, 0, 0]),
        **_gradient_estimates(p, v.flatten(), drawn, focus),
        "drawn": drawn.tolist(),
        "code": script_code(
            "q = torch.ones(1, 1, 1, 1)",
            tensor_code("k", scores, "[None, None, :, None]"),
            tensor_code("v", values, "[None, None, :, None]"),
            "dot = regard.scores.dot",
            "soft = regard.weigh(q, k, score=dot)",
            "read = regard.attend(q, k, v, score=dot)",
            "read_hard = regard.attend(q, k, v, score=dot, select=regard.selects.hard)",
            f"g = torch.Generator().manual_seed({seed})",
            f"drawn = regard.selects.sampled(g).sample_keys(k.mT.expand(1, 1, {NUM_SAMPLES}, {K}))",
            f"at = torch.tensor([[[{centre}]]])",
            f"local = regard.weigh(q, k, score=dot, rule=regard.rules.around(at, {reach}),",
            f"                     select=regard.selects.gaussian(at, {max(reach, 0.001)} / 2))",
        ),
    }


def sample_keys(scores: Tensor, seed: int) -> Tensor:
    """A hundred keys drawn with the probabilities of these scores (1, 1, K, 1)."""
    sampled = selects.sampled(torch.Generator().manual_seed(seed))
    return sampled.sample_keys(scores.mT.expand(1, 1, NUM_SAMPLES, -1))[0, 0]


def reinforce_gradients(p: Tensor, v: Tensor, samples: Tensor, baseline: Tensor) -> Tensor:
    """REINFORCE, Williams 1992: `(v − baseline) ∂ log p / ∂ scores` for each draw (n, K)."""
    hit = torch.nn.functional.one_hot(samples, len(p))
    return (v[samples] - baseline)[:, None] * (hit - p)


def _gradient_estimates(p: Tensor, v: Tensor, samples: Tensor, focus: int) -> Answer:
    """Gradients of what is read by the scores: exact, drawn, and drawn against a baseline."""
    mean = (p * v).sum()
    plain = reinforce_gradients(p, v, samples, torch.zeros(()))
    steadied = reinforce_gradients(p, v, samples, mean)
    count = torch.arange(1, len(samples) + 1)
    return {
        "gradient": to_numbers(p * (v - mean)),
        "estimate": to_numbers(plain.mean(0)),
        "estimate_steadied": to_numbers(steadied.mean(0)),
        "spread": to_numbers(plain.std(0)),
        "spread_steadied": to_numbers(steadied.std(0)),
        "running": to_numbers(plain[:, focus].cumsum(0) / count),
        "running_steadied": to_numbers(steadied[:, focus].cumsum(0) / count),
    }


LESSON = Lesson(
    name="choosing",
    title="Soft, hard, local",
    question="Hard attention reads one key, drawn at random. How good is the gradient of one draw?",
    guesses=(
        "Exact, as with soft attention",
        "There is none at all",
        "Right on average, but very noisy",
    ),
    right=2,
    aha=(
        "Soft attention reads everything and has an exact gradient. Hard attention reads one key, "
        "and its gradient must be guessed from draws: over a hundred of them it is about right, "
        "and a baseline calms it. Local attention is soft, near one place."
    ),
    fields={
        "scores": Row(2, 16, 8, (0.2, 0.5, 1.4, 2.2, 1.0, 0.1, 0.6, 1.6, 0.3)),
        "values": Row(2, 16, 8, (1.0, 3.0, 2.0, 5.0, 4.0, 6.0, 3.0, 7.0, 5.0)),
        "centre": Real(0, 15, 3.0),
        "reach": Real(0, 16, 2.0),
        "focus": Integer(0, 15, 3),
        "seed": Integer(0, 9999, 0),
    },
    compute=compute,
)
