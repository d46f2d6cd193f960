"""What looking costs: nothing while the model runs, and the rows that are asked for afterwards."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import regard
from benchmarks.measure import Row, peak, race
from regard.layers import MultiHead


def rows() -> list[Row]:
    """The claims about looking."""
    return [_open_or_closed(), _rows_or_all(), _beside_torch(), *_hugging_face(), *_generating()]


def _open_or_closed() -> Row:
    q, k, v = (torch.randn(2, 8, 512, 64) for _ in range(3))

    def closed() -> None:
        for _ in range(10):
            regard.attend(q, k, v)

    def looked() -> None:
        with regard.look():
            closed()

    found = race(looked, closed, rounds=120, warm=5)
    return Row(
        "look open over look closed, ten calls of (2, 8, 512, 64) fp32, opening included",
        "≤ 1.05 ×",
        "1.01",
        f"{found.times_the_time:.3f} × ({found})",
        found.times_the_time <= 1.05,
    )


def _sight() -> Any:
    q, k = (torch.randn(4, 8, 2048, 64) for _ in range(2))
    with regard.look() as seen:
        regard.attend(q, k, k)
    return seen["attend.0"]


def eight_rows() -> Callable[[], Tensor]:
    """Eight rows of one head."""
    sight = _sight()
    sight.rows(0, 0, 0)
    return lambda: sight.rows(2, 5, range(100, 108))


def all_weights() -> Callable[[], Tensor]:
    """Every weight."""
    return _sight().weights


def _rows_or_all() -> Row:
    sight = _sight()
    found = race(lambda: sight.rows(2, 5, range(100, 108)), sight.weights, rounds=7)
    share = peak("looking", "eight_rows") / peak("looking", "all_weights")
    return Row(
        "`rows()` of 8 queries of one head at (4, 8, 2048, 64) over forming all weights",
        "≤ 2 % time and memory",
        "≤ 0.5 %",
        f"{found.times_the_time:.2%} of the time ({found}), {share:.2%} of the memory",
        found.times_the_time <= 0.02 and share <= 0.02,
    )


def _beside_torch() -> Row:
    T, E = 2048, 512
    theirs = nn.MultiheadAttention(E, 8, batch_first=True)
    ours = MultiHead.from_torch(theirs)
    x = torch.randn(1, T, E)

    @torch.no_grad()
    def looked() -> Tensor:
        with regard.look(ours) as seen:
            ours(x)
        return seen["MultiHead"].rows(0, 3, range(8))

    @torch.no_grad()
    def weighed() -> Tensor:
        return theirs(x, x, x, need_weights=True)[1]

    found = race(looked, weighed, rounds=15)
    return Row(
        "MultiHead looked at, then 8 rows of one head read, over "
        "`nn.MultiheadAttention(need_weights=True)`, T = 2048, width 512",
        "≥ 1.5 × faster",
        "1.9 ×",
        f"{found.times_faster:.2f} × ({found})",
        found.times_faster >= 1.5,
    )


def _gpt2(implementation: str) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(attn_implementation=implementation, use_cache=False)
    return GPT2LMHeadModel(config).eval()


def gpt2_looked_into() -> Callable[[], Any]:
    """GPT-2 small as it comes, looked into, eight rows of one head of each layer read."""
    model, tokens = _gpt2("sdpa"), torch.randint(0, 50257, (1, 1024))

    @torch.no_grad()
    def run(tokens: Tensor = tokens) -> Any:
        with regard.look(model) as seen:
            model(tokens)
        return [seen[name].rows(0, 3, range(8)) for name in seen]

    run(tokens[:, :8])
    return run


def gpt2_output_attentions() -> Callable[[], Any]:
    """The same model asked for all its attentions, for which it has to run eagerly."""
    model, tokens = _gpt2("eager"), torch.randint(0, 50257, (1, 1024))

    @torch.no_grad()
    def run(tokens: Tensor = tokens) -> Any:
        return model(tokens, output_attentions=True)

    run(tokens[:, :8])
    return run


def gpt2_alone() -> Callable[[], Any]:
    """The same model with nobody looking: what its logits and activations take."""
    model, tokens = _gpt2("sdpa"), torch.randint(0, 50257, (1, 1024))

    @torch.no_grad()
    def run(tokens: Tensor = tokens) -> Any:
        return model(tokens)

    run(tokens[:, :8])
    return run


def _hugging_face() -> list[Row]:
    claim = "a Hugging Face GPT-2 small looked into, over `output_attentions=True`, 1 × 1024 tokens"
    try:
        import transformers  # noqa: F401
    except ImportError:
        return [Row(claim, "faster, memory ≤ 1/4", "2 ×", "skipped: no transformers", False)]
    found = race(gpt2_looked_into(), gpt2_output_attentions(), rounds=5, warm=1)
    alone = peak("looking", "gpt2_alone")
    looked, theirs = (
        peak("looking", name) for name in ("gpt2_looked_into", "gpt2_output_attentions")
    )
    share = (looked - alone) / (theirs - alone)
    measured = (
        f"{found.times_faster:.2f} × faster ({found}); memory beyond the bare model {share:.1%} "
        f"({looked - alone:.0f} against {theirs - alone:.0f} MiB; with it {looked / theirs:.1%}, "
        f"{looked:.0f} against {theirs:.0f})"
    )
    met = found.times_faster > 1 and share <= 0.25
    return [Row(claim, "faster, and memory ≤ 1/4", "2 ×", measured, met)]


def _generating() -> list[Row]:
    """A look that is open while a model of Hugging Face generates 400 tokens."""
    claim = "look open during `generate`, 400 tokens, over the model's own cache; over no look"
    form = "memory ≤ 1.5 ×; time ≤ 1.3 ×", "1.1 ×; 1.05 ×"
    try:
        import transformers
    except ImportError:
        return [Row(claim, *form, "skipped: no transformers", False)]
    torch.manual_seed(0)
    small = {"num_hidden_layers": 12, "hidden_size": 768, "intermediate_size": 2048}
    small |= {"num_attention_heads": 12, "vocab_size": 32000, "max_position_embeddings": 512}
    models = {
        "GPT-2 small": transformers.GPT2LMHeadModel(transformers.GPT2Config()),
        "a Llama of 12 layers": transformers.LlamaForCausalLM(transformers.LlamaConfig(**small)),
        "the same, a key for 2 query heads": transformers.LlamaForCausalLM(
            transformers.LlamaConfig(**small, num_key_value_heads=6)
        ),
    }
    found = []
    for name, model in models.items():
        share, time = _generates(model.eval())
        measured = f"{share:.2f} × the cache; {time.times_the_time:.2f} × the time ({time})"
        met = share <= 1.5 and time.times_the_time <= 1.3
        found.append(Row(f"{claim}: {name}", *form, measured, met))
    return found


def _generates(model: Any) -> tuple[float, Any]:
    """What a look keeps over the model's own cache, and the time with it over that without."""
    prompt = torch.randint(5, 30000, (1, 16))
    how = {"max_new_tokens": 400, "min_new_tokens": 400, "do_sample": False, "pad_token_id": 0}
    how |= {"attention_mask": torch.ones_like(prompt), "return_dict_in_generate": True}

    def alone() -> Any:
        return model.generate(prompt, **how).past_key_values

    def looked() -> Any:
        with regard.look(model) as seen:
            return alone(), seen

    cache, seen = looked()
    own = sum(x.nbytes for layer in cache.layers for x in (layer.keys, layer.values))
    return seen.memory() / own, race(looked, alone, rounds=3, warm=0)
