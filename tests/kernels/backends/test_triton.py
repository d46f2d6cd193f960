"""The backend `triton`: what it refuses, in words, and that the door runs what it takes."""

from types import SimpleNamespace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from regard import attend, biases, log_probability, look, rules, scores, selects, use_backend, why
from regard.functional.call import build_call, with_dropout
from regard.kernels.backends import triton

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")  # of what it hides later

B, H, Q, K, D, Dv = 2, 2, 5, 7, 11, 13


@pytest.fixture
def on_cpu(monkeypatch):
    """Let the CPU run kernels, by Triton's interpreter, in small tiles."""
    pytest.importorskip("triton")
    from regard.kernels.additive.launch import PTX
    from tests.kernels.calls import small

    if PTX:
        pytest.skip("needs Triton's interpreter, which is off where there is a card")
    monkeypatch.setattr(triton, "DEVICES", ("cuda", "cpu"))
    with small(monkeypatch):
        yield


def tensors(dtype=torch.float32, D=D, Dv=Dv, **made):
    shapes = (B, H, Q, D), (B, 1, K, D), (B, 1, K, Dv)
    return [torch.randn(shape, dtype=dtype, **made) for shape in shapes]


def additive(D=D, **made):
    return scores.Additive(torch.randn(H, D, **made))


def call(q, k, v, dropout=0.0, **asked):
    return with_dropout(build_call(q, k, v, **asked), dropout)


def both_ways(run):
    """What a run gives in the kernel and in plain PyTorch."""
    found = []
    for backend in ("triton", "reference"):
        with use_backend(backend):
            found.append(run())
    return found


@pytest.mark.parametrize("score", [scores.dot, scores.scaled_dot, scores.Cosine(2.0)], ids=str)
def test_other_scores_have_no_kernel(score):
    asked = call(*tensors(), score=score)
    reason = "the one kernel of our own is for additive scores"
    assert triton.why_not(asked) == triton.why_not_log_probability(asked) == reason


def test_other_selects_have_no_kernel():
    asked = call(*tensors(), score=additive(), select=selects.sparsemax)
    assert triton.why_not(asked) == "only the softmax is fused"


def test_dropout_is_refused():
    asked = call(*tensors(), score=additive(), dropout=0.1)
    assert triton.why_not(asked) == "the kernel has no dropout"


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_device_that_is_no_card_is_refused(device):
    asked = call(*tensors(device=device), score=additive(device=device))
    reason = f"the kernel needs a CUDA GPU, and the call is on {device}"
    assert triton.why_not(asked) == triton.why_not_log_probability(asked) == reason


def test_a_machine_without_triton_is_refused(monkeypatch):
    monkeypatch.setattr(triton, "DEVICES", ("cpu",))
    monkeypatch.setattr(triton, "has_triton", lambda: False)
    assert triton.why_not(call(*tensors(), score=additive())) == "Triton is not installed"


@pytest.mark.parametrize(("major", "refused"), [(7, True), (8, False)])
def test_an_old_card_is_refused(major, refused, monkeypatch):
    card = SimpleNamespace(major=major)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: card)
    monkeypatch.setattr(
        triton, "_lacks_compute_capability_cached", triton._lacks_compute_capability
    )
    monkeypatch.setattr(triton, "has_triton", lambda: True)
    with FakeTensorMode():
        asked = call(*tensors(device="cuda"), score=additive(device="cuda"))
        reason = "the kernel needs an NVIDIA GPU of compute capability 8.0 or newer"
        assert triton.why_not(asked) == (reason if refused else None)


def test_float64_is_refused(on_cpu):
    asked = call(*tensors(torch.float64), score=additive(dtype=torch.float64))
    assert (
        triton.why_not(asked)
        == triton.why_not_log_probability(asked)
        == "the kernel has no float64"
    )


@pytest.mark.parametrize(("D", "reason"), [(1024, None), (1025, "the kernel takes D up to 1024")])
def test_queries_too_wide_are_refused(D, reason, on_cpu):
    asked = call(*tensors(D=D), score=additive(D=D))
    assert triton.why_not(asked) == (reason and f"{reason}, got {D}")


@pytest.mark.parametrize(("Dv", "reason"), [(512, None), (513, "the kernel takes Dv up to 512")])
def test_values_too_wide_are_refused_where_they_are_read(Dv, reason, on_cpu):
    asked = call(*tensors(Dv=Dv), score=additive())
    assert triton.why_not(asked) == (reason and f"{reason}, got {Dv}")
    assert triton.why_not_log_probability(asked) is None


@pytest.mark.parametrize(("Dv", "reason"), [(2048, None), (2049, "the kernel takes Dv up to 2048")])
def test_a_decoder_that_asks_once_reads_wider_values(Dv, reason, on_cpu):
    q, k, v = tensors(Dv=Dv)
    asked = call(q[:, :, :1], k, v, score=additive())
    assert triton.why_not(asked) == (reason and f"{reason}, got {Dv}")


def test_without_a_card_auto_tiles_and_says_why():
    found = why(*tensors(D=64), score=additive(D=64))
    assert found.backend == "chunked"
    assert found.reasons["triton"] == "the kernel needs a CUDA GPU, and the call is on cpu"


def test_asking_for_it_by_name_without_a_card_is_an_error():
    reason = "backend 'triton' cannot run this: the kernel needs a CUDA GPU, and the call is on"
    q, k, v = tensors()
    with use_backend("triton"):
        with pytest.raises(ValueError, match=f"attend: {reason} cpu"):
            attend(q, k, v, score=additive())
        with pytest.raises(ValueError, match=f"log_probability: {reason} cpu"):
            log_probability(q, k, torch.zeros(B, H, Q).long(), score=additive())


def test_auto_takes_the_kernel_where_it_can(on_cpu):
    assert why(*tensors(), score=additive(), rule=rules.causal).backend == "triton"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_door_attends_by_the_kernel(dtype, on_cpu):
    q, k, v = tensors(dtype)
    asked = {"score": additive(dtype=dtype), "rule": rules.causal, "bias": biases.alibi(H)}
    ours, theirs = both_ways(lambda: attend(q, k, v, **asked))
    # in bfloat16 weights are rounded before values are read, as in other fused kernels
    near = {} if dtype == torch.float32 else {"atol": 2e-2, "rtol": 2e-2}
    torch.testing.assert_close(ours, theirs, **near)


def test_the_door_points_by_the_kernel(on_cpu):
    q, k, _ = tensors()
    index = torch.randint(-1, K, (B, H, Q))
    asked = {"score": additive(), "rule": rules.prefix(6)}
    ours, theirs = both_ways(lambda: log_probability(q, k, index, **asked))
    assert (ours[index < 0] == 0).all() and (ours[index == 6] == -torch.inf).all()
    torch.testing.assert_close(ours, theirs)


def test_a_look_says_which_kernel_ran_and_leaves_every_bit_alone(on_cpu):
    q, k, v = tensors()
    asked = {"score": additive(), "rule": rules.causal}
    index = torch.zeros(B, H, Q, dtype=torch.int64)
    with use_backend("triton"):
        alone = attend(q, k, v, **asked)
        with look() as seen:
            looked = attend(q, k, v, **asked)
            log_probability(q, k, index, **asked)
    assert torch.equal(alone, looked)
    assert [seen[name].why.backend for name in seen] == ["triton", "triton"]


@pytest.mark.parametrize(("queries", "keys"), [(0, K), (Q, 0)])
def test_no_queries_or_no_keys_give_zeros(queries, keys, on_cpu):
    q, k, v = tensors()
    with use_backend("triton"):
        out = attend(q[:, :, :queries], k[:, :, :keys], v[:, :, :keys], score=additive())
    assert out.shape == (B, H, queries, Dv) and (out == 0).all()


@pytest.mark.compiled
@pytest.mark.parametrize("rule", [None, rules.causal], ids=["all", "causal"])
def test_the_door_to_the_kernel_compiles_as_one_graph(rule, on_cpu):
    torch.compiler.reset()
    vector, *qkv = (torch.randn(H, D), *tensors())
    leaves = [x.requires_grad_() for x in (*qkv, vector)]
    assert why(*qkv, score=scores.Additive(vector), rule=rule).backend == "triton"

    def asked(q, k, v, vector):
        return attend(q, k, v, score=scores.Additive(vector), rule=rule)

    found = []
    for run in (torch.compile(asked, fullgraph=True, backend="aot_eager"), asked):
        out = run(*leaves)
        found.append([out, *torch.autograd.grad(out, leaves, torch.ones_like(out))])
    torch.testing.assert_close(*found)
