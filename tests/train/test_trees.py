import json

import pytest
import torch
from safetensors.torch import load, save
from torch import nn

from regard.train import trees


def back(tree):
    """What comes back from files."""
    tensors, nodes = trees.pack_tree(tree)
    return trees.unpack_tree(load(save(tensors)), json.loads(json.dumps(nodes)))


def test_dicts_lists_tuples_and_numbers_come_back_equal():
    tree = {0: [1, 2.5, None], "a": (True, "x", ()), "empty": {}, "tiny": 5e-324}
    assert back(tree) == tree


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64, torch.bool])
def test_tensors_come_back_with_their_dtype(dtype):
    found = back([torch.tensor([0, 1, 1]).to(dtype), torch.ones(2, 3).to(dtype).T])
    assert [x.dtype for x in found] == [dtype, dtype]
    assert found[1].shape == (3, 2)


def test_tied_weights_are_written_once():
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    model[1].weight = model[0].weight
    tensors, _ = trees.pack_tree(model.state_dict())
    assert list(tensors) == ["0.weight"]
    assert back(model.state_dict()).keys() == model.state_dict().keys()


def test_two_views_of_one_memory_come_apart():
    memory = torch.arange(6.0)
    first, second = back([memory[:4], memory[2:]])
    assert (first.tolist(), second.tolist()) == ([0, 1, 2, 3], [2, 3, 4, 5])


def test_the_state_of_an_optimizer_comes_back():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    state, found = optimizer.state_dict(), back(optimizer.state_dict())
    assert found["param_groups"] == state["param_groups"]
    assert torch.equal(found["state"][0]["exp_avg"], state["state"][0]["exp_avg"])


def test_what_is_no_data_is_refused_with_its_place():
    with pytest.raises(
        ValueError, match=r"checkpoint: expected tensors, numbers .* got object at a"
    ):
        trees.pack_tree({"a": [object()]})
    with pytest.raises(ValueError, match=r"expected keys that are names or numbers, got 0\.5 in a"):
        trees.pack_tree({"a": {0.5: 1}})


def test_finite_finds_one_bad_number():
    good, bad = torch.ones(3), torch.tensor([1.0, float("inf")])
    assert trees.are_finite([good, torch.ones(2, dtype=torch.int64)])
    assert not trees.are_finite([good, bad])
