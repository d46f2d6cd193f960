"""Rules: who may see whom, drawn; and what a query that sees nothing reads."""

import torch

from regard import attend, rules

lengths = torch.tensor([4])
ids = torch.tensor([[0, 0, 0, 1, 1, 1]])
centre = torch.tensor([[[0.0, 4.0, 2.5, 5.0, 1.0, 9.0]]])

drawn = {
    "causal": rules.causal,
    "window(1)": rules.window(1),
    "padding([4])": rules.padding(lengths),
    "documents": rules.documents(ids),
    "both(causal, window(2))": rules.both(rules.causal, rules.window(2)),
    "either(causal, prefix(3))": rules.either(rules.causal, rules.prefix(3)),
    "both(causal, documents)": rules.both(rules.causal, rules.documents(ids)),
    "around(centre, 1)": rules.around(centre, 1),
}
print("A line is a query, a column a key; █ may be seen, ░ may not.\n")
names = list(drawn)
for first in range(0, len(names), 4):
    row = names[first : first + 4]
    print("  ".join(f"{name:25}" for name in row).rstrip())
    pictures = [rules.draw(drawn[name], 6, 6).split() for name in row]
    for lines in zip(*pictures, strict=True):
        print("  ".join(f"{line:25}" for line in lines).rstrip())
    print()

print("Two queries beside a cache of six keys: the last query stands on the last key.")
print(rules.draw(rules.causal, 2, 6) + "\n")


def even(b, h, q, k):
    """Look at every other key."""
    return k % 2 == 0


print("Any function (b, h, q, k) -> bool is a rule:")
print(rules.draw(rules.both(rules.causal, even), 4, 6) + "\n")

torch.manual_seed(0)
q, k, v = torch.randn(3, 1, 1, 6, 4).unbind()
k[:, :, 4:] = v[:, :, 4:] = float("nan")  # what stands in the padding does not matter
out = attend(q, k, v, rule=rules.padding(lengths))
print("NaN in the padding reaches the output:", bool(out.isnan().any()))
nothing = attend(q, k, v, rule=rules.padding(torch.tensor([0])))
print("A query that may see nothing reads:", nothing[0, 0, 0].tolist())
try:
    attend(q, k, v, rule=torch.ones(6, 6, dtype=torch.long))
except ValueError as error:
    print("A mask of 0 and 1 is refused:", error)
