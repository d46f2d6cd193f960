"""Swapping a mechanism: the same layer with another score, and which backend runs it."""

import torch

from regard import look, rules, scores, use_backend
from regard.layers import AdditiveScore, CosineScore, GeneralScore, MultiHead

width, heads = 32, 4
x = torch.randn(1, 256, width, generator=torch.Generator().manual_seed(0))

# A score with nothing to learn is a value. One that learns is a module, which holds its weights.
choices = {
    "scaled dot (the default)": None,
    "dot": scores.dot,
    "cosine, a strength a head": CosineScore(heads),
    "general, a matrix a head": GeneralScore(heads, width // heads),
    "additive, a vector a head": AdditiveScore(heads, width // heads),
}
print("The same layer, another score:")
for name, score in choices.items():
    torch.manual_seed(0)
    layer = MultiHead(width, heads, score=score)
    with look(layer) as seen:
        layer(x, rule=rules.causal).sum().backward()
    learned = sum(p.numel() for p in score.parameters()) if hasattr(score, "parameters") else 0
    record = seen["MultiHead"]
    print(
        f"  {name:27} {record.why.backend:8} learns {learned:4} numbers more, "
        f"looks {record.entropy().mean():.2f} nats wide"
    )

layer = MultiHead(width, heads)
with look(layer) as seen:
    layer(x, rule=rules.both(rules.causal, rules.window(8)))
print("\nThe same layer under a window costs what the window costs:")
print(seen["MultiHead"].why)

print("\nA backend asked for by name runs, or says why it cannot:")
layer = MultiHead(width, heads, score=AdditiveScore(heads, width // heads))
try:
    with use_backend("sdpa"):
        layer(x)
except ValueError as error:
    print(" ", error)
with torch.no_grad(), use_backend("reference"):
    truth = layer(x)
    with use_backend("chunked"):
        print(
            "  chunked and reference differ by", f"{(layer(x) - truth).abs().max():.0e}", "at most"
        )
