"""A soft dictionary: from softmax(X Xᵀ) X to queries, keys and values."""

import torch

from regard import attend, look, selects
from regard.functional.attention import self_attention

torch.set_printoptions(precision=2, sci_mode=False)

# Three words as vectors: the first two are alike.
x = torch.tensor([[[2.0, 0.0], [1.8, 0.4], [0.0, 2.0]]])
print("Attention with nothing to learn, softmax(X Xᵀ) X:")
print(self_attention(x)[0])
print("Each row is now a blend of the rows like it. Words 0 and 1 have moved together.\n")

# A Python dictionary finds a key that is equal. A soft one finds those that are alike.
hard = {"cat": 10.0, "dog": 20.0, "car": 90.0}
print("A dictionary:", hard, '-> hard["cat"] =', hard["cat"])

keys = torch.tensor([[4.0, 1.0], [3.5, 2.0], [-1.0, 5.0]])  # cat, dog, car
values = torch.tensor([[10.0], [20.0], [90.0]])
queries = torch.tensor([[4.0, 1.0], [-1.0, 4.0], [0.0, 0.0]])  # a cat, a car, no idea

# attend takes (batch, heads, how many, how wide); we have one batch row and one head.
q, k, v = queries[None, None], keys[None, None], values[None, None]
with look() as seen:
    out = attend(q, k, v)
print("A soft one, asked for a cat, a car, and nothing in particular:")
print("  what is read:", out.flatten())
print("  from which keys:\n", seen["attend.0"].weights()[0, 0], sep="")
print(seen["attend.0"].draw())
print("The cat reads some dog, since they are alike. No idea reads the mean.\n")

exact = attend(q, k, v, select=selects.hard)
print("With a hard select it is a plain dictionary again:", exact.flatten())
