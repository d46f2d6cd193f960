"""Half precision is widened, everything else is left alone."""

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

from regard.functional.precision import (
    cast_finite,
    no_autocast,
    tanh,
    to_autocast,
    to_float32,
    without_autocast,
)
from regard.runtime.onednn import MIN_TANH_COUNT

# So many that oneDNN takes their tanh, where there is one.
MANY = MIN_TANH_COUNT + 41
BOTH = (tanh, torch.tanh)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_becomes_float32(dtype):
    assert to_float32(torch.ones(3, dtype=dtype)).dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_wide_stays_the_very_same_tensor(dtype):
    x = torch.ones(3, dtype=dtype)
    assert to_float32(x) is x


def test_autocast_lowers_all_but_float64_where_it_is_on():
    x, exact = torch.ones(3), torch.ones(3, dtype=torch.float64)
    assert to_autocast(x) is x
    with torch.autocast("cpu", torch.bfloat16):
        assert to_autocast(x).dtype == torch.bfloat16
        assert to_autocast(exact) is exact


def test_autocast_does_not_reach_in():
    @without_autocast
    def product(a, b):
        return a @ b

    a, b = torch.randn(2, 3), torch.randn(3, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (a @ b).dtype == torch.bfloat16
        assert product(a, b).dtype == product(a=a, b=b).dtype == torch.float32
        assert torch.is_autocast_enabled("cpu")
        with no_autocast(a.device):
            assert (a @ b).dtype == torch.float32


def test_a_meta_tensor_has_no_autocast_to_keep_out():
    with torch.autocast("cpu", torch.bfloat16), no_autocast(torch.device("meta")):
        assert torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_what_is_finite_stays_so_when_it_is_rounded(dtype):
    found = cast_finite(torch.tensor([0.0, -1e30, 3.4e38, -torch.inf, torch.nan]), dtype)
    assert found.dtype == dtype
    assert found.isfinite().tolist() == [True, True, True, False, False]


def relative_error(found, exact):
    return ((found.double() - exact) / exact).abs().max()


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("scale", [1e-30, 1e-8, 1e-3, 1e-2, 0.1, 1.0, 10.0, 1e3])
@pytest.mark.parametrize("count", [1000, MANY])
def test_tanh_errs_at_most_twice_as_much_as_torch_at_any_scale(count, scale, learns):
    x = scale * torch.randn(count)
    exact = x.double().tanh()
    allowed = 2 * relative_error(torch.tanh(x), exact) + torch.finfo(x.dtype).eps / 8
    assert relative_error(tanh(x.clone().requires_grad_(learns)).detach(), exact) <= allowed


@pytest.mark.parametrize("shape", [(1000,), (MANY,), (3, MANY)], ids=str)
def test_tanh_is_the_same_with_a_gradient_and_without(shape):
    x = torch.randn(shape)
    out = tanh(x.clone().requires_grad_())
    assert out.requires_grad
    assert torch.equal(tanh(x.clone()), out)
    turned = x.clone().T if x.dim() == 2 else x.clone()
    assert torch.equal(tanh(turned), out.T if x.dim() == 2 else out)


def test_tanh_does_not_write_over_what_learns():
    x = torch.randn(MANY, requires_grad=True)
    before = x.detach().clone()
    tanh(x)
    with torch.no_grad():
        tanh(x)
    assert torch.equal(x.detach(), before)


def test_tanh_is_differentiated_twice_as_torch_does():
    x = torch.randn(MANY, requires_grad=True)
    firsts = [torch.autograd.grad(f(x).square().sum(), x, create_graph=True)[0] for f in BOTH]
    torch.testing.assert_close(*firsts)
    torch.testing.assert_close(*(torch.autograd.grad(g.sum(), x)[0] for g in firsts))


TRANSFORMS = {
    "vmap": lambda f, x: torch.vmap(f)(x),
    "grad": lambda f, x: torch.func.grad(lambda y: f(y).sum())(x),
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (x,))[1],
    "forward mode": lambda f, x: forward(f, x),
    "trace": lambda f, x: torch.jit.trace(f, x, check_trace=False)(x),
    "fx": lambda f, x: make_fx(f)(x)(x),
}


def forward(f, x):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(f(forward_ad.make_dual(x, x))).tangent


@pytest.mark.parametrize("name", TRANSFORMS)
def test_tanh_is_transformed_as_torchs_own(name):
    x = torch.randn(2, MANY)
    ours, plain = (TRANSFORMS[name](f, x.clone()) for f in BOTH)
    torch.testing.assert_close(ours, plain)


def test_tanh_of_fake_and_meta_tensors_has_their_shape():
    with FakeTensorMode():
        assert tanh(torch.empty(2, MANY)).shape == (2, MANY)
    assert tanh(torch.empty(2, MANY, device="meta")).is_meta


@pytest.mark.compiled
def test_tanh_compiles_whole():
    x = torch.randn(MANY)
    torch.testing.assert_close(torch.compile(tanh, fullgraph=True)(x.clone()), torch.tanh(x))
