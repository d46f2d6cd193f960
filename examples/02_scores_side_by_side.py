"""Scores side by side: six ways to say how well a query matches a key."""

import torch

from regard import attend, look, scores, why

torch.manual_seed(0)
torch.set_printoptions(precision=2, sci_mode=False)

# Keys 0 and 1 point the same way, but key 1 is four times as long.
k = torch.tensor([[1.0, 0.0, 0.0], [4.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -1.0]])[None, None]
q = torch.tensor([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]])[None, None]
v = torch.eye(4)[None, None]

swap = torch.tensor([[0.0, 2.0, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
choices = {
    "dot: length counts": scores.dot,
    "scaled_dot: the same, softer": scores.scaled_dot,
    "Cosine: length does not count": scores.Cosine(5.0),
    "General: a matrix between, which swaps two axes": scores.General(swap[None]),
    "Additive: a small network judges each pair": scores.Additive(torch.randn(1, 3)),
    "Location: the query alone says where": scores.Location(torch.randn(1, 3, 4)),
}

print("Two queries (lines), four keys (columns); · nothing is read, █ nearly all.\n")
for name, score in choices.items():
    with look() as seen:
        attend(q, k, v, score=score)
    record = seen["attend.0"]
    print(f"{name}, run by {record.why.backend}")
    for drawn, row in zip(record.draw().split(), record.weights()[0, 0].tolist(), strict=True):
        print(f"  {drawn}  ", *(f"{weight:.2f}" for weight in row))


def nearest(q, k):
    """A score of your own: how near, not how parallel."""
    return -torch.cdist(q, k)


print("\nAny function of q and k is a score. This one is the distance:")
print(attend(q, k, v, score=nearest)[0, 0])
print(why(q, k, v, score=nearest))
