"""Whatever a model computes, it computes the same inside of a look, or fails as it does without."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard import edit, edits, look

A, B, V = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 7, 4), torch.randn(2, 3, 7, 6)
HIDDEN = torch.rand(5, 7) > 0.7


def scores():
    return A @ B.mT


def written():
    """Scores that are written into before their softmax."""
    w = scores()
    w *= 2
    w -= 0.5
    w[..., 0] = 0
    w[w > 1] = 1.0
    return w.masked_fill_(HIDDEN, -1e9).softmax(-1) @ V


def replaced():
    """Scores whose data are those of another tensor."""
    w = scores()
    w.data = torch.zeros(2, 3, 5, 7)
    return w.softmax(-1) @ V


def lowered():
    with torch.autocast("cpu", torch.bfloat16):
        return scores().softmax(-1) @ V


def graded():
    x = A.clone().requires_grad_()
    ((x @ B.mT).softmax(-1) @ V).sum().backward()
    return x.grad


COMPUTED = {
    "written into": written,
    "replaced": replaced,
    "autocast": lowered,
    "a gradient": graded,
    "one axis": lambda: A[0, 0, 0] @ B[0, 0, 0],
    "integers": lambda: torch.arange(4).view(2, 2) @ torch.arange(4).view(2, 2),
    "sparse": lambda: torch.sparse.mm(torch.eye(5).to_sparse(), torch.ones(5, 3)),
    "an output given": lambda: (
        torch.bmm(A[0], B[0].mT, out=torch.empty(3, 5, 7)).softmax(-1) @ V[0]
    ),
    "by keyword": lambda: (
        torch.baddbmm(input=torch.zeros(3, 5, 7), batch1=A[0], batch2=B[0].mT, beta=0).softmax(
            dim=-1
        )
        @ V[0]
    ),
    "einsum with dots": lambda: torch.einsum("...qd,...kd->...qk", A, B).softmax(-1) @ V,
    "einsum of lists": lambda: torch.einsum(A, [0, 1, 2, 3], B, [0, 1, 4, 3], [0, 1, 2, 4]).softmax(
        -1
    ),
    "einsum of three": lambda: torch.einsum("bhqd,bhkd,bhkd->bhqk", A, B, B).softmax(-1) @ V,
    "a softmax over queries": lambda: scores().softmax(2) @ V,
    "a softmax of another dtype": lambda: scores().softmax(-1, torch.float64).float() @ V,
    "a sink": lambda: torch.cat([scores(), A[..., :1]], -1).softmax(-1)[..., :-1] @ V,
    "parts": lambda: torch.cat([x.softmax(-1) for x in scores().split(2, 2)], 2) @ V,
    "a number where hidden": lambda: torch.where(HIDDEN, scores(), -9.0).softmax(-1) @ V,
    "another view": lambda: scores().view(6, 5, 7).softmax(-1).view(2, 3, 5, 7) @ V,
    "bits": lambda: scores().view(torch.int32),
    "complex": lambda: torch.view_as_real((A + 1j * A) @ (B + 1j * B).mT),
    "half": lambda: (A.bfloat16() @ B.bfloat16().mT).softmax(-1) @ V.bfloat16(),
    "distances": lambda: (-torch.cdist(A, B)).softmax(-1) @ V,
    "nothing": lambda: torch.mm(torch.ones(0, 4), torch.ones(4, 3)).softmax(-1) @ torch.ones(3, 2),
    "kernels of two": lambda: A.softmax(-1) @ (B.softmax(-2).mT @ V),
    "a copy": lambda: copy.deepcopy(scores()),
    "a pickle": lambda: pickle.loads(pickle.dumps(scores())),
    "another storage": lambda: scores().set_(A),
    "another size": lambda: scores().resize_(3, 4),
    "a private softmax": lambda: torch._safe_softmax(scores(), -1) @ V,
    "meta": lambda: (A.to("meta") @ B.to("meta").mT).softmax(-1).shape,
    "shapes that do not match": lambda: A @ B,
    "a mask that does not fit": lambda: F.scaled_dot_product_attention(A, A, A, torch.zeros(3, 9)),
    "a jvp": lambda: torch.func.jvp(lambda x: (x @ x.mT).softmax(-1) @ x, (A,), (A,))[1],
    "vmap": lambda: torch.func.vmap(lambda x: (x @ x.mT).softmax(-1) @ x)(A),
}


class Model(nn.Module):
    """Computes what it is told."""

    def __init__(self, compute):
        super().__init__()
        self.compute = compute

    def forward(self):
        return self.compute()


def found(run):
    """What comes out, or the error and how its words begin."""
    try:
        return run()
    except (RuntimeError, ValueError) as error:
        return type(error), str(error)[:60]


@pytest.mark.parametrize("name", COMPUTED)
@pytest.mark.parametrize("watch", ["a look", "copies", "the model", "an edit"])
def test_what_a_model_computes_is_the_same_inside_of_a_look(name, watch):
    model = Model(COMPUTED[name])
    watches = {
        "a look": look,
        "copies": lambda: look(copy=True),
        "the model": lambda: look(model),
        "an edit": lambda: edit(nn.Identity(), {"Identity": edits.ablate(0)}),
    }
    alone = found(model)
    with watches[watch]():
        inside = found(model)
    if isinstance(alone, torch.Tensor):
        assert alone.dtype == inside.dtype and torch.equal(alone, inside)
    else:
        assert alone == inside
