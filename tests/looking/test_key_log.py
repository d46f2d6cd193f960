"""Keys are known again by their content: grown, slid, written in place, moved, or repeated."""

import pytest
import torch

from regard.looking.key_log import KeyLog, RowMove

B, H, D = 3, 4, 5


def keys(n, *, heads=H, dtype=torch.float32):
    return torch.randn(B, heads, n, D).to(dtype)


def held(log):
    """The bytes that a log keeps in the end."""
    log.release_spare_memory()
    return sum(x.untyped_storage().nbytes() for x in log.tensors())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_a_cache_that_grows_keeps_each_key_once(dtype):
    k = keys(50, dtype=dtype)
    log, spans = KeyLog(k[:, :, :7], None), []
    for n in range(8, 51):
        # as torch.cat gives it, a tensor of its own each time
        spans.append(log.place_keys(k[:, :, :n].clone(), 1, n, []))
    assert held(log) == k.untyped_storage().nbytes()
    for n, span in zip(range(8, 51), spans, strict=True):
        assert (span.start, span.stop, span.is_continuation) == (0, n, True)
        assert torch.equal(span.read_keys(), k[:, :, :n])


def test_a_cache_that_lets_old_keys_go_keeps_their_positions():
    k = keys(20)
    log = KeyLog(k[:, :, :6], None)
    spans = [log.place_keys(k[:, :, n - 6 : n].clone(), 1, 6, []) for n in range(7, 21)]
    assert [(span.start, span.stop) for span in spans] == [(n - 6, n) for n in range(7, 21)]
    assert all(torch.equal(s.read_keys(), k[:, :, s.start : s.stop]) for s in spans)


def test_a_cache_that_is_written_in_place_is_copied_as_it_is_written():
    k, room = keys(9), torch.zeros(B, H, 12, D)
    room[:, :, :4] = k[:, :, :4]
    log, spans = KeyLog(room, 4), []
    for n in range(5, 10):
        room[:, :, n - 1] = k[:, :, n - 1]
        spans.append(log.place_keys(room, 1, n, []))
    room.zero_()
    for n, span in zip(range(5, 10), spans, strict=True):
        assert (span.stop, span.width) == (n, 12)
        assert (
            torch.equal(span.read_keys()[:, :, :n], k[:, :, :n])
            and not span.read_keys()[:, :, n:].any()
        )


def test_keys_that_are_the_same_are_kept_as_they_were_given():
    k = keys(6)
    log = KeyLog(k, None)
    for again in (k, k.clone()):
        span = log.place_keys(again, 1, 6, [])
        assert (span.start, span.stop, span.is_continuation) == (0, 6, False)
    assert log.tensors()[0] is k


def test_keys_that_have_nothing_in_common_do_not_go_on():
    log = KeyLog(keys(6), None)
    assert log.place_keys(keys(7), 1, 7, []) is None and log.place_keys(keys(6), 1, 6, []) is None
    assert log.place_keys(keys(7)[:2], 1, 7, []) is None
    assert log.place_keys(keys(7).double(), 1, 7, []) is None


def test_one_bit_in_the_middle_is_enough_to_be_another_sequence():
    k = keys(7)
    log = KeyLog(k[:, :, :6].clone(), None)
    k[1, 2, 3, 0] = torch.nextafter(k[1, 2, 3, 0], torch.tensor(9.0))
    assert log.place_keys(k, 1, 7, []) is None


def test_not_a_number_goes_on_as_the_same_bits():
    k = keys(7)
    k[0, 0, 2, 1] = torch.nan
    log = KeyLog(k[:, :, :6], None)
    assert log.place_keys(k.clone(), 1, 7, []).stop == 7


def moved(k, parents, n):
    """A cache of keys whose rows were moved before the last `n` columns came."""
    return torch.cat([k.index_select(0, parents), keys(n)], 2)


def test_rows_that_are_moved_are_read_as_each_call_saw_them():
    log, found, steps = None, [], []
    k = keys(4)
    for step in range(12):
        parents = torch.randint(B, (B,))
        k = moved(k, parents, 1) if step else k
        span = log.place_keys(k, 1, k.shape[2], [RowMove(parents)]) if step else None
        log = log or KeyLog(k, None)
        found.append(span or log.last)
        steps.append((k, parents))
    assert held(log) == k.untyped_storage().nbytes()
    assert all(torch.equal(span.read_keys(), k) for span, (k, _) in zip(found, steps, strict=True))
    # the last rows, back through the rows they go on from
    rows = torch.arange(B)
    for (_, parents), before in zip(steps[:0:-1], found[-2::-1], strict=True):
        rows = parents[rows]
        assert before.parent_rows() is not None and torch.equal(before.parent_rows(), rows)
    assert found[-1].parent_rows() is None


def test_rows_that_nobody_said_were_moved_are_found_by_comparing():
    k = keys(6)
    log, after = KeyLog(k, None), moved(k, parents := torch.tensor([2, 2, 0]), 1)
    assert log.place_keys(after, 1, 7, []) is None
    assert torch.equal(log.matching_rows(after, 1, 7), parents)
    assert log.matching_rows(keys(7), 1, 7) is None


def test_rows_that_are_alike_are_each_taken_for_their_own():
    k = keys(6)
    k[1] = k[0]
    after = torch.cat([k, keys(1)], 2)
    assert KeyLog(k, None).matching_rows(after, 1, 7).tolist() == [0, 1, 2]


def test_an_order_that_is_not_meant_is_passed_over():
    k = keys(6)
    log = KeyLog(k, None)
    span = log.place_keys(torch.cat([k, keys(1)], 2), 1, 7, [RowMove(torch.tensor([1, 0, 2]))])
    assert span.is_continuation and not log.moves and span.parent_rows() is None


def test_rows_of_a_batch_may_stay_its_own_while_keys_are_followed():
    k = keys(6)
    log, first = KeyLog(k, None), None
    first = log.last
    after = moved(k, parents := torch.tensor([1, 1, 2]), 1)
    span = log.place_keys(after, 1, 7, [RowMove(parents, follow=False)])
    assert torch.equal(span.read_keys(), after) and first.parent_rows() is None


def test_heads_that_share_their_keys_are_kept_once():
    k = keys(30, heads=2)
    log = KeyLog(k[:, :, :9].repeat_interleave(3, 1), None)
    for n in range(10, 31):
        # a copy for each query head where there is a mask, none where there is none
        given = k[:, :, :n].repeat_interleave(3, 1) if n % 2 else k[:, :, :n].clone()
        span = log.place_keys(given, 1, n, [])
    assert span.is_continuation and torch.equal(span.read_keys(), k)
    assert held(log) == k.untyped_storage().nbytes()


def test_heads_that_shared_their_keys_by_chance_are_told_apart_later():
    k = keys(8)
    k[:, 1::2, :6] = k[:, ::2, :6]
    log = KeyLog(k[:, :, :5].clone(), None)
    spans = [log.place_keys(k[:, :, :n].clone(), 1, n, []) for n in (6, 7, 8)]
    assert torch.equal(spans[-1].read_keys(), k)
    assert torch.equal(spans[0].read_keys(), k[:, :, :6])


def test_a_reference_that_was_written_into_is_an_error_and_nothing_goes_on_from_it():
    k = keys(6)
    log = KeyLog(k, None)
    after = torch.cat([k, keys(1)], 2)
    k.zero_()
    assert log.place_keys(after, 1, 7, []) is None
    with pytest.raises(RuntimeError, match="look: a tensor that was looked at has been changed in"):
        log.last.read_keys()


@pytest.mark.parametrize("heads", [H, 1])
def test_keys_that_were_taken_back_are_read_as_each_call_saw_them(heads):
    k = torch.randn(B, heads, 9, D).expand(B, H, 9, D)
    other, third = (torch.randn(B, H, 9, D) for _ in range(2))
    given = [
        k[:, :, :5],
        k[:, :, :8],
        torch.cat([k[:, :, :6], other[:, :, :2]], 2),
        torch.cat([k[:, :, :6], other[:, :, :3]], 2),
        torch.cat([k[:, :, :4], third[:, :, :4]], 2),
    ]
    log = KeyLog(given[0], None)
    spans = [log.last]
    for one, new in zip(given[1:], (3, 2, 1, 4), strict=True):
        span = log.place_keys(one, new, one.shape[2], [])
        spans.append(span or log.roll_back_keys(one, new, one.shape[2]))
    assert [span.rollback_count for span in spans] == [0, 0, 2, 0, 5]
    for span, one in zip(spans, given, strict=True):
        assert torch.equal(span.read_keys(), one)
    assert log.roll_back_keys(torch.randn(B, H, 8, D), 2, 8) is None


@pytest.mark.parametrize("kept", [5, 3, 2])
def test_keys_behind_a_window_that_were_taken_back_keep_their_positions(kept):
    k, other, third = torch.randn(B, H, 9, D), torch.randn(B, H, 3, D), torch.randn(B, H, 2, D)
    whole = torch.cat([k[:, :, :7], other], 2)
    last = torch.cat([whole[:, :, :8], third], 2)
    given = [
        k,  # of which the last two are taken back
        whole[:, :, 7 - kept :],
        last[:, :, 8 - kept :],  # and two more
    ]
    log = KeyLog(given[0], None)
    spans = [log.last]
    for one, new in zip(given[1:], (3, 2), strict=True):
        spans.append(log.roll_back_keys(one, new, one.shape[2]))
    assert [(span.start, span.stop, span.rollback_count) for span in spans] == [
        (0, 9, 0), (7 - kept, 10, 2), (8 - kept, 10, 2)
    ]  # fmt: skip
    for span, one in zip(spans, given, strict=True):
        assert torch.equal(span.read_keys(), one)
