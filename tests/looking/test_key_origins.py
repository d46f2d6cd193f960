"""Keys that `torch.cat` joined are known to go on from those before, until anybody writes."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard import look, weigh
from regard.looking import key_log
from regard.looking.key_origins import KeyOrigins

B, H, D = 2, 3, 4


class Cached(nn.Module):
    """Attends to a cache, as models of other people do."""

    def forward(self, q, k):
        return F.scaled_dot_product_attention(q, k, k)


def keys(n):
    return torch.randn(B, H, n, D)


def steps(write=lambda k: None):
    """The sights of a cache that grows by `torch.cat`, the weights expected, and its logs."""
    model, k, expected = Cached(), keys(4), []
    with look(model) as seen:
        for step in range(6):
            if step:
                k = torch.cat([k, keys(1)], dim=-2)
            if step == 3:
                write(k)
            q = keys(1)
            model(q, k)
            expected.append(weigh(q, k))
    record = seen["Cached"]
    return record, expected, {id(kept.span.log) for kept in record.calls}


def test_keys_that_were_joined_are_not_compared(monkeypatch):
    compared = []
    are_equal = key_log.KeyLog._are_equal
    monkeypatch.setattr(
        key_log.KeyLog, "_are_equal", lambda *args: compared.append(1) or are_equal(*args)
    )
    record, expected, logs = steps()
    assert len(logs) == 1 and not compared
    assert all(torch.equal(c.weights(), w) for c, w in zip(record.calls, expected, strict=True))


@pytest.mark.parametrize("part", [slice(0, 2), slice(-1, None)], ids=["old", "new"])
def test_keys_that_were_written_into_after_they_were_joined_are_read_as_they_ran(part):
    record, expected, logs = steps(lambda k: k[:, :, part].add_(1))
    assert len(logs) == (2 if part.start == 0 else 1)
    assert all(torch.equal(c.weights(), w) for c, w in zip(record.calls, expected, strict=True))


def test_only_two_that_are_joined_along_their_keys_in_order_go_on():
    origins, k, new = KeyOrigins(), keys(4), keys(1)
    own = origins.origin_of(k).keys_id
    joined = torch.cat([k, new], -2)
    origins.note_cat(joined, [k, new], -2)
    assert origins.origin_of(joined).prefix_id == own and origins.origin_of(k).keys_id == own
    for parts, dim in (([new, k], 2), ([k, new, new], 2), ([k, k], 1)):
        out = torch.cat(parts, dim)
        origins.note_cat(out, parts, dim)
        assert origins.origin_of(out).prefix_id is None
    joined.zero_()
    assert origins.origin_of(joined).prefix_id is None


def test_a_join_into_a_buffer_runs_as_it_is_inside_of_a_look():
    class Joining(nn.Module):
        def forward(self, x):
            return torch.cat([x, x], 2, out=torch.empty(0))

    x = torch.randn(1, 1, 3, 4)
    with pytest.warns(UserWarning, match="no attention was seen"), look(model := Joining()):
        out = model(x)
    assert torch.equal(out, torch.cat([x, x], 2))


def test_keys_of_which_no_version_is_counted_have_no_origin():
    origins = KeyOrigins()
    with torch.inference_mode():
        k = keys(4)
        assert origins.origin_of(k) is None
        out = torch.cat([k, keys(1)], 2)
        origins.note_cat(out, [k, k], 2)
        assert origins.origin_of(out) is None


def test_a_tensor_that_is_gone_is_forgotten():
    origins, k = KeyOrigins(), keys(4)
    origins.origin_of(k)
    assert origins._origins
    del k
    assert not origins._origins


def test_keys_that_are_joined_to_rows_that_were_moved_are_read_as_they_ran():
    k, parents = keys(4), torch.tensor([1, 0])
    log = key_log.KeyLog(k, None)
    spans, moved = [log.last], k[parents]
    spans.append(log.place_keys(moved, 1, 4, [key_log.RowMove(parents)]))
    log.last_keys_id, grown = 1, torch.cat([moved, keys(1)], 2)
    spans.append(log.place_keys(grown, 1, 5, [], prefix_id=1))
    for span, given in zip(spans, (k, moved, grown), strict=True):
        assert torch.equal(span.read_keys(), given)
